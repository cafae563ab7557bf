//! Runs a scenario: the arbiter that the engine has, with a policy in its seat, in virtual time.
//!
//! A run ends with the first law that is broken: what follows from a broken law is no break of its own.

mod judge;
mod orders;
mod times;

use std::collections::VecDeque;
use std::time::Instant;

use interlock_arbiter::{
    Arbiter, ArbiterConfig, Command, Event, Limits, Outcome, PlaceError, PolicyFault, PolicySource,
    Quarantine, TaskId, TaskSpec,
};
use interlock_policy_api::{DeviceView, Request, RequestFlags, Stage};

use crate::law::{Break, Law};
use crate::record::{Call, Entry, Recorder};
use crate::scenario::{Happening, MS, Scenario};
pub(crate) use judge::time;
use judge::{Broken, Judge, LONGEST_SLACK_NS, Step};
pub(crate) use orders::Chooser;

/// How many longest stages a task waits before it counts who passes it.
const PATIENCE: u64 = 10;
/// The most questions between two events that let nobody in.
const MOST_POLLS: u32 = 20_000;

/// A run that has ended.
pub(crate) struct Run {
    pub entries: Vec<Entry>,
    pub broken: Option<Break>,
    /// The order in which things happened, where it was chosen.
    pub order: Vec<Happening>,
    /// It was given up before its end, since its time was up: it shows nothing.
    pub is_given_up: bool,
    /// The longest that the policy said it would keep a task waiting.
    longest_slack_ns: u64,
    starved: bool,
}

/// What ends a run before all has happened.
enum Stop {
    /// A law is broken.
    Broken(Broken),
    /// Its time is up.
    GivenUp,
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Stop {
        Stop::Broken(broken)
    }
}

/// Runs a scenario as it is written, until all has happened or `ends`.
pub(crate) fn run(source: &dyn PolicySource, scenario: &Scenario, ends: Option<Instant>) -> Run {
    patiently(source, scenario, ends, &mut |world| match &scenario.order {
        None => world.by_times(),
        Some(order) => world.in_order(&mut Chooser::follow(order)),
    })
}

/// Runs a scenario in the order that `chooser` chooses.
pub(crate) fn choose(source: &dyn PolicySource, scenario: &Scenario, chooser: &mut Chooser<'_>) -> Run {
    let fresh = chooser.clone();
    // These are short.
    patiently(source, scenario, None, &mut |world| {
        *chooser = fresh.clone();
        world.in_order(chooser)
    })
}

/// A policy may keep a task waiting for as long as it says: whether it starves it is known when it has said that.
fn patiently(
    source: &dyn PolicySource,
    scenario: &Scenario,
    ends: Option<Instant>,
    drive: &mut dyn FnMut(&mut World<'_>) -> Result<(), Stop>,
) -> Run {
    let patience_ns = scenario.longest_stage_ns().saturating_mul(PATIENCE);
    let first = once(source, scenario, patience_ns, ends, drive);
    if !first.starved || first.longest_slack_ns == 0 {
        return first;
    }
    once(source, scenario, patience_ns.saturating_add(first.longest_slack_ns), ends, drive)
}

fn once(
    source: &dyn PolicySource,
    scenario: &Scenario,
    patience_ns: u64,
    ends: Option<Instant>,
    drive: &mut dyn FnMut(&mut World<'_>) -> Result<(), Stop>,
) -> Run {
    let mut world = match World::new(source, scenario, patience_ns, ends) {
        Ok(world) => world,
        Err(reason) => return Run::without_policy(reason),
    };
    let (broken, is_given_up) = match drive(&mut world).and_then(|()| Ok(world.ask_for_stats()?)) {
        Ok(()) => (None, false),
        Err(Stop::Broken((law, what))) => {
            (Some(Break { law, what, at_ns: world.now_ns, events: world.events }), false)
        }
        Err(Stop::GivenUp) => (None, true),
    };
    Run {
        is_given_up,
        entries: world.recorder.entries,
        broken,
        order: world.order,
        longest_slack_ns: world.judge.longest_slack_ns,
        starved: world.starved,
    }
}

impl Run {
    /// Whether the policy is gone, or was never there: asking on is no use.
    pub fn is_lost(&self) -> bool {
        let last = self.entries.iter().rev().find_map(|entry| match entry {
            Entry::Call(call) => Some(call),
            _ => None,
        });
        match last {
            Some(call) => matches!(call.fault(), Some(PolicyFault::Ended(_))),
            None => self.entries.is_empty(),
        }
    }

    /// How many of the scenario's tasks, from the first one on, are needed for all that came within so many events.
    pub fn tasks_within(&self, events: usize) -> usize {
        let happened = self.entries.iter().filter_map(|entry| match entry {
            Entry::Event { event, .. } if *event != Event::Tick => Some(event),
            _ => None,
        });
        let came = happened.take(events).filter_map(|event| match event {
            Event::Arrived(spec) => Some(spec.task.0 as usize + 1),
            _ => None,
        });
        came.max().unwrap_or(0)
    }

    /// The decisions, in their order.
    pub fn decisions(&self) -> impl Iterator<Item = &Call> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Call(call @ Call::Decide { .. }) => Some(call),
            _ => None,
        })
    }

    fn without_policy(reason: String) -> Run {
        let what = format!("no instance could be made: {reason}");
        let broken = Some(Break { law: Law::Answers, at_ns: 0, events: 0, what });
        Run {
            entries: Vec::new(),
            broken,
            order: Vec::new(),
            is_given_up: false,
            longest_slack_ns: 0,
            starved: false,
        }
    }
}

/// Where a task of the scenario is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// It has not come yet.
    Away,
    /// It waits for a worker.
    Outside,
    /// It is on the device, waiting or inside this stage.
    Here(Option<Stage>),
    /// It has left for good.
    Gone,
}

struct Life {
    place: Whereabouts,
    /// It failed, and comes again.
    failed: bool,
}

/// A scenario that is running.
pub(super) struct World<'s> {
    source: &'s dyn PolicySource,
    scenario: &'s Scenario,
    arbiter: Arbiter,
    recorder: Recorder,
    judge: Judge,
    now_ns: u64,
    /// When it is given up.
    ends: Option<Instant>,
    events: usize,
    lives: Vec<Life>,
    /// Those that were let in since whoever drives looked: task and stage.
    started: VecDeque<(usize, Stage)>,
    /// Those that failed and come again, likewise.
    again: VecDeque<usize>,
    /// Whether tasks differ in priority.
    ranked: bool,
    /// Ticks in a row that let nobody in.
    polls: u32,
    /// How long it takes when all goes one after the other.
    one_by_one_ns: u64,
    /// Whether a task was passed for too long.
    starved: bool,
    order: Vec<Happening>,
}

impl<'s> World<'s> {
    fn new(
        source: &'s dyn PolicySource,
        scenario: &'s Scenario,
        patience_ns: u64,
        ends: Option<Instant>,
    ) -> Result<Self, String> {
        let limits = Limits {
            refusals: u32::MAX,
            stall_ns: u64::MAX,
            starve_ns: patience_ns,
            decision_ns: u64::MAX,
            slow: u32::MAX,
        };
        let (capacity_bytes, workers) = (scenario.device.0, scenario.workers);
        let config = ArbiterConfig { device: 0, capacity_bytes, workers, limits };
        let arbiter = Arbiter::new(config, source.locks().clone());
        let first = scenario.tasks.first().map(|plan| plan.priority);
        Ok(Self {
            recorder: Recorder::new(source.seat()?),
            judge: Judge::new(&arbiter),
            source,
            scenario,
            arbiter,
            now_ns: 0,
            ends,
            events: 0,
            lives: scenario.tasks.iter().map(|_| Life { place: Whereabouts::Away, failed: false }).collect(),
            started: VecDeque::new(),
            again: VecDeque::new(),
            ranked: scenario.tasks.iter().any(|plan| Some(plan.priority) != first),
            polls: 0,
            one_by_one_ns: scenario.one_by_one_ns(),
            starved: false,
            order: Vec::new(),
        })
    }

    fn here(&self) -> usize {
        self.lives.iter().filter(|life| matches!(life.place, Whereabouts::Here(_))).count()
    }

    fn has_worker(&self) -> bool {
        self.here() < self.scenario.workers as usize
    }

    /// The time at which the policy wants to be asked again, if that will ever be.
    fn deadline(&self) -> Option<u64> {
        self.arbiter.next_deadline().filter(|at| at - self.now_ns <= LONGEST_SLACK_NS)
    }

    /// Lets time go on to `to_ns`, with every deadline on the way.
    fn pass(&mut self, to_ns: u64) -> Result<(), Stop> {
        loop {
            if self.ends.is_some_and(|ends| Instant::now() >= ends) {
                return Err(Stop::GivenUp);
            }
            let deadline = self.deadline().filter(|at| *at <= to_ns);
            let next_ns = deadline.unwrap_or(to_ns);
            self.judge.time_passes(next_ns)?;
            self.now_ns = next_ns;
            self.check_end()?;
            if deadline.is_none() {
                return Ok(());
            }
            self.feed(Event::Tick)?;
        }
    }

    /// One after the other, and each waiting for as long as the policy said at each gate, the tasks would be done by now.
    fn check_end(&self) -> Result<(), Broken> {
        let gates = 8 * self.scenario.tasks.len() as u64;
        let waits = self.judge.longest_slack_ns.saturating_mul(gates);
        let latest_ns = self.one_by_one_ns.saturating_add(waits);
        if self.now_ns <= latest_ns || self.here() == 0 {
            return Ok(());
        }
        let what = format!(
            "after {}, in which all could have gone one after the other, {}",
            time(self.now_ns),
            self.who_waits()
        );
        Err((Law::BoundedWait, what))
    }

    /// Nothing can happen any more.
    fn check_done(&self) -> Result<(), Broken> {
        if self.here() == 0 {
            return Ok(());
        }
        Err((Law::Deadlock, format!("nothing runs, nothing will come, and {}", self.who_waits())))
    }

    fn who_waits(&self) -> String {
        let who = |waiting: &interlock_arbiter::WaitingTask| {
            let open = if waiting.locks_free && waiting.bytes_free { ", which it could enter" } else { "" };
            format!("task {} waits at {}{open}", waiting.task, waiting.gate)
        };
        let waiting: Vec<_> = self.judge.snapshot().waiting.iter().map(who).collect();
        waiting.join("; ")
    }

    /// A task comes to the device.
    fn arrive(&mut self, task: usize) -> Result<(), Broken> {
        let plan = &self.scenario.tasks[task];
        let spec = TaskSpec {
            task: TaskId(task as u64),
            job: task as u64,
            partition: 0,
            priority: plan.priority,
            staged_bytes: plan.staged.0,
            peak_bytes: plan.peak.0,
            retry: plan.retry || self.lives[task].failed,
        };
        self.place(&spec)?;
        self.lives[task].place = Whereabouts::Here(None);
        self.feed(Event::Arrived(spec))
    }

    /// Asks for the device of a new task, where there is another one that is empty.
    fn place(&mut self, spec: &TaskSpec) -> Result<(), Broken> {
        let other = DeviceView {
            capacity_bytes: self.scenario.device.0,
            free_bytes: self.scenario.device.0,
            tasks: 0,
            computing: 0,
        };
        let request = Request {
            task: spec.task.0,
            job: spec.job,
            partition: spec.partition,
            priority: spec.priority,
            gate: Stage::PREPARE,
            flags: RequestFlags::default().with_if(spec.retry, RequestFlags::RETRY),
            arrival: 0,
            gate_since_ns: self.now_ns,
            held_bytes: 0,
            need_bytes: 0,
            peak_bytes: spec.peak_bytes,
        };
        match self.recorder.place(&request, vec![self.arbiter.device_view(), other]) {
            Ok(_) => Ok(()),
            Err(PlaceError::Fault(fault)) => Err((Law::Answers, format!("asked for a device, {fault}"))),
            Err(error) => Err((Law::Verdicts, error.to_string())),
        }
    }

    fn ask_for_stats(&mut self) -> Result<(), Broken> {
        self.recorder.stats().map_err(|fault| (Law::Answers, format!("asked for its counters, {fault}")))
    }

    /// The stage a task is in ends.
    fn end(&mut self, task: usize, outcome: Outcome) -> Result<(), Broken> {
        self.lives[task].place = Whereabouts::Here(None);
        if outcome != Outcome::Done && !self.lives[task].failed {
            self.lives[task].failed = true;
            self.again.push_back(task);
        }
        self.feed(Event::StageEnded { task: TaskId(task as u64), outcome })
    }

    /// Has the arbiter take an event, and judges what the policy made of it.
    fn feed(&mut self, event: Event) -> Result<(), Broken> {
        let is_tick = event == Event::Tick;
        self.events += usize::from(!is_tick);
        self.recorder.entries.push(Entry::Event { at_ns: self.now_ns, event: event.clone() });
        let from = self.recorder.entries.len();
        let before = self.ranked.then(|| self.arbiter.clone());
        let commands = self
            .arbiter
            .step(self.now_ns, event.clone(), &mut self.recorder)
            .expect("the scenario was checked, and tasks go their way");
        let calls = self.recorder.entries.len();
        self.recorder.entries.extend(commands.iter().cloned().map(Entry::Did));
        let (calls, after) = (&self.recorder.entries[from..calls], &self.arbiter);
        let step = Step { before, event: &event, now_ns: self.now_ns, calls, commands: &commands, after };
        let judged = self.judge.step(&step);
        let starved = |command: &Command| matches!(command, Command::Quarantined(Quarantine::Starved { .. }));
        self.starved |= commands.iter().any(starved);
        judged?;
        let waits = self.started.len();
        self.follow(commands)?;
        self.polls = if is_tick && waits == self.started.len() { self.polls + 1 } else { 0 };
        if self.polls > MOST_POLLS {
            let what = format!("it asked to be asked again {MOST_POLLS} times and let nobody in");
            return Err((Law::BoundedWait, what));
        }
        Ok(())
    }

    fn follow(&mut self, commands: Vec<Command>) -> Result<(), Broken> {
        for command in commands {
            match command {
                Command::Run { task, stage, .. } => {
                    let task = task.0 as usize;
                    self.lives[task].place = Whereabouts::Here(Some(stage));
                    self.started.push_back((task, stage));
                }
                Command::Left { task } => {
                    let task = task.0 as usize;
                    let comes_again = self.again.contains(&task);
                    self.lives[task].place = if comes_again { Whereabouts::Away } else { Whereabouts::Gone };
                }
                Command::Drained => {
                    let seated = self.source.seat();
                    let policy = seated
                        .map_err(|reason| (Law::Answers, format!("no instance could be made: {reason}")))?;
                    self.recorder.seat(policy);
                    self.feed(Event::Installed(self.source.locks().clone()))?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A step of events that are one apart where the order was chosen.
const APART_NS: u64 = MS;
