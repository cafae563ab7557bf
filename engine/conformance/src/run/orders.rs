//! A scenario by the order of its events.

use interlock_arbiter::{Event, Outcome, TaskId};

use super::{APART_NS, Broken, Stop, Whereabouts, World};
use crate::scenario::Happening;

/// Says which of the events that can happen does.
#[derive(Clone)]
pub(crate) struct Chooser<'o> {
    mode: Mode<'o>,
    /// For each choice so far: how many there were.
    pub widths: Vec<usize>,
}

#[derive(Clone)]
enum Mode<'o> {
    /// The events of a list, as far as they can happen.
    Follow(&'o [Happening]),
    /// These choices, and the first of all after them; with so many failures or cancels, and so many deadlines that come before
    /// something else does.
    Explore { choices: &'o [usize], mishaps: usize, laters: usize },
}

impl<'o> Chooser<'o> {
    /// What `order` says.
    pub fn follow(order: &'o [Happening]) -> Chooser<'o> {
        Chooser { mode: Mode::Follow(order), widths: Vec::new() }
    }

    /// The choices by number, and the first of all after them; with so many failures or cancels at the most.
    pub fn explore(choices: &'o [usize], mishaps: usize) -> Chooser<'o> {
        Chooser { mode: Mode::Explore { choices, mishaps, laters: 1 }, widths: Vec::new() }
    }

    fn choose(&mut self, all: &[Happening]) -> Option<Happening> {
        match &mut self.mode {
            Mode::Follow(order) => {
                while let Some((next, rest)) = order.split_first() {
                    *order = rest;
                    if all.contains(next) {
                        return Some(*next);
                    }
                }
                all.first().copied()
            }
            Mode::Explore { choices, mishaps, laters } => {
                let is_mishap =
                    |what: &Happening| matches!(what, Happening::Fails(_) | Happening::GivesUp(_));
                let only_later = all.iter().all(|what| is_mishap(what) || *what == Happening::Later);
                let is_open = |what: &&Happening| match what {
                    Happening::Later => only_later || *laters > 0,
                    what => *mishaps > 0 || !is_mishap(what),
                };
                let open: Vec<_> = all.iter().filter(is_open).collect();
                let chosen = choices.get(self.widths.len()).copied().unwrap_or(0);
                self.widths.push(open.len());
                let chosen = **open.get(chosen)?;
                *mishaps -= usize::from(is_mishap(&chosen));
                *laters -= usize::from(chosen == Happening::Later && !only_later);
                Some(chosen)
            }
        }
    }
}

impl World<'_> {
    /// Runs to the end.
    pub(super) fn in_order(&mut self, chooser: &mut Chooser<'_>) -> Result<(), Stop> {
        loop {
            self.started.clear();
            self.again.clear();
            let all = self.possible();
            let Some(next) = chooser.choose(&all) else { return Ok(self.check_done()?) };
            self.order.push(next);
            let at_ns = match (next, self.deadline()) {
                (Happening::Later, Some(deadline)) => deadline,
                _ => self.now_ns + APART_NS,
            };
            self.pass(at_ns)?;
            self.comes_about(next)?;
        }
    }

    /// What can happen now, the usual first.
    fn possible(&self) -> Vec<Happening> {
        let with = |is: fn(Whereabouts) -> bool| {
            (0..self.lives.len()).filter(move |task| is(self.lives[*task].place))
        };
        let mut all = Vec::new();
        if self.has_worker() {
            all.extend(with(|place| place == Whereabouts::Away).map(Happening::Arrives));
        }
        all.extend(with(|place| matches!(place, Whereabouts::Here(Some(_)))).map(Happening::Ends));
        if self.deadline().is_some() {
            all.push(Happening::Later);
        }
        let fails = |task: &usize| !self.lives[*task].failed;
        all.extend(
            with(|place| matches!(place, Whereabouts::Here(Some(_)))).filter(fails).map(Happening::Fails),
        );
        all.extend(with(|place| place == Whereabouts::Here(None)).map(Happening::GivesUp));
        // Giving up is no way out of a standstill.
        if all.iter().all(|what| matches!(what, Happening::GivesUp(_))) {
            all.clear();
        }
        all
    }

    /// What was chosen happens, if a deadline on the way has not made it impossible.
    fn comes_about(&mut self, what: Happening) -> Result<(), Broken> {
        match what {
            Happening::Arrives(task) => self.arrive(task),
            Happening::Ends(task) => self.end(task, Outcome::Done),
            Happening::Fails(task) => self.end(task, Outcome::Failed),
            Happening::GivesUp(task) if self.lives[task].place == Whereabouts::Here(None) => {
                self.feed(Event::Cancelled { task: TaskId(task as u64) })
            }
            Happening::GivesUp(_) | Happening::Later => Ok(()),
        }
    }
}
