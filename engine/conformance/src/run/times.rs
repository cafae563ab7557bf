//! A scenario by its times.

use std::collections::BTreeMap;

use interlock_arbiter::{Event, Outcome, TaskId};

use super::{Broken, Stop, Whereabouts, World};
use crate::scenario::MS;

/// What happens at some time.
enum Due {
    Comes(usize),
    Ends(usize, Outcome),
    IsGivenUp(usize),
    Drain,
}

/// What will happen, by time and then in the order in which it was put down.
#[derive(Default)]
struct Schedule {
    due: BTreeMap<(u64, usize), Due>,
    count: usize,
}

impl Schedule {
    fn put(&mut self, at_ns: u64, due: Due) {
        self.due.insert((at_ns, self.count), due);
        self.count += 1;
    }
}

impl World<'_> {
    /// Runs to the end.
    pub(super) fn by_times(&mut self) -> Result<(), Stop> {
        let mut schedule = self.schedule();
        loop {
            self.put_down(&mut schedule);
            if let Some(task) = self.next_outside() {
                self.arrive(task)?;
                continue;
            }
            let Some((&(at_ns, _), _)) = schedule.due.first_key_value() else {
                let Some(deadline) = self.deadline() else { return Ok(self.check_done()?) };
                self.pass(deadline)?;
                continue;
            };
            // A deadline on the way may let somebody in, whose stage ends earlier than anything that is due now.
            let to_ns = self.deadline().map_or(at_ns, |deadline| deadline.min(at_ns));
            self.pass(to_ns)?;
            if to_ns == at_ns
                && self.started.is_empty()
                && let Some((_, due)) = schedule.due.pop_first()
            {
                self.happens(due)?;
            }
        }
    }

    fn schedule(&self) -> Schedule {
        let mut schedule = Schedule::default();
        for (task, plan) in self.scenario.tasks.iter().enumerate() {
            schedule.put(plan.at_ms * MS, Due::Comes(task));
        }
        for (task, plan) in self.scenario.tasks.iter().enumerate() {
            if let Some(at_ms) = plan.cancelled_ms {
                schedule.put(at_ms * MS, Due::IsGivenUp(task));
            }
        }
        for at_ms in &self.scenario.drains_ms {
            schedule.put(at_ms * MS, Due::Drain);
        }
        schedule
    }

    /// Puts down when the stages end that have begun; who failed waits for a worker again.
    fn put_down(&mut self, schedule: &mut Schedule) {
        while let Some((task, stage)) = self.started.pop_front() {
            let plan = &self.scenario.tasks[task];
            let failure = plan.fails.filter(|failure| failure.stage() == stage && !self.lives[task].failed);
            let outcome = match failure {
                None => Outcome::Done,
                Some(failure) if failure.is_of_memory() => Outcome::AllocationFailed,
                Some(_) => Outcome::Failed,
            };
            let took_ns = plan.stages_ms[stage.index()] * MS;
            schedule.put(self.now_ns.saturating_add(took_ns), Due::Ends(task, outcome));
        }
        while let Some(task) = self.again.pop_front() {
            self.lives[task].place = Whereabouts::Outside;
        }
    }

    /// Who comes next, if there is a worker: the highest priority, then the first one.
    fn next_outside(&self) -> Option<usize> {
        let outside = |task: &usize| self.lives[*task].place == Whereabouts::Outside;
        let tasks = (0..self.lives.len()).filter(outside);
        let first = tasks.min_by_key(|task| (std::cmp::Reverse(self.scenario.tasks[*task].priority), *task));
        first.filter(|_| self.has_worker())
    }

    fn happens(&mut self, due: Due) -> Result<(), Broken> {
        match due {
            Due::Comes(task) if self.lives[task].place == Whereabouts::Away => {
                self.lives[task].place = Whereabouts::Outside;
                Ok(())
            }
            Due::Ends(task, outcome) => self.end(task, outcome),
            Due::IsGivenUp(task) => match self.lives[task].place {
                Whereabouts::Here(None) => self.feed(Event::Cancelled { task: TaskId(task as u64) }),
                Whereabouts::Away | Whereabouts::Outside => {
                    self.lives[task].place = Whereabouts::Gone;
                    Ok(())
                }
                Whereabouts::Here(Some(_)) | Whereabouts::Gone => Ok(()),
            },
            Due::Drain => self.feed(Event::Drain),
            Due::Comes(_) => Ok(()),
        }
    }
}
