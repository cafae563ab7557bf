//! What the arbiter's tests share: small devices, scripted policies, and a driver that plays fair.

#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::VecDeque;

use interlock_arbiter::{
    Arbiter, ArbiterConfig, Command, Event, Limits, LockSpec, LockTable, Outcome, Phase, PolicyFault,
    PolicyPort, TaskId, TaskSpec,
};
use interlock_policy_api::{Observation, Request, Stage, Verdict, View, WakeSet};

pub const STALL_NS: u64 = 1_000_000_000;

/// A table of locks `(name, permits, first, last)`.
pub fn table(locks: &[(&str, u32, Stage, Stage)]) -> LockTable {
    let spec = |&(name, permits, first, last): &(&str, u32, Stage, Stage)| LockSpec {
        name: name.into(),
        permits,
        first,
        last,
    };
    LockTable::new(locks.iter().map(spec).collect()).expect("a sound table")
}

/// The table of the fallback: one lock over the whole task.
pub fn fallback() -> LockTable {
    table(&[("task", 1, Stage::PREPARE, Stage::FINISH)])
}

/// One lock over Stage and one over Compute.
pub fn two_lock() -> LockTable {
    table(&[("mem", 1, Stage::STAGE, Stage::STAGE), ("compute", 1, Stage::COMPUTE, Stage::COMPUTE)])
}

pub fn arbiter(capacity_bytes: u64, table: LockTable) -> Arbiter {
    arbiter_with(capacity_bytes, table, Limits { refusals: 3, stall_ns: STALL_NS, ..Limits::DEFAULT })
}

pub fn arbiter_with(capacity_bytes: u64, table: LockTable, limits: Limits) -> Arbiter {
    Arbiter::new(ArbiterConfig { device: 0, capacity_bytes, workers: 4, limits }, table)
}

/// A task of job `task` with these bytes and priority 0.
pub fn spec(task: u64, staged_bytes: u64, peak_bytes: u64) -> TaskSpec {
    TaskSpec {
        task: TaskId(task),
        job: task,
        partition: 0,
        priority: 0,
        staged_bytes,
        peak_bytes,
        retry: false,
    }
}

pub fn arrived(task: u64, staged_bytes: u64, peak_bytes: u64) -> Event {
    Event::Arrived(spec(task, staged_bytes, peak_bytes))
}

pub fn ended(task: u64) -> Event {
    Event::StageEnded { task: TaskId(task), outcome: Outcome::Done }
}

pub fn failed(task: u64) -> Event {
    Event::StageEnded { task: TaskId(task), outcome: Outcome::Failed }
}

/// Enters when it may, stages ahead when there is room, waits otherwise.
pub struct Honest;

impl PolicyPort for Honest {
    fn decide(&mut self, request: &Request, _view: &View<'_>) -> Result<Verdict, PolicyFault> {
        Ok(honest(request))
    }
}

pub fn honest(request: &Request) -> Verdict {
    if request.grantable() { Verdict::enter(request.need_bytes) } else { Verdict::wait(WakeSet::FREED) }
}

/// Answers of a [`Scripted`] policy, in the order in which they are used up.
pub type Answers = VecDeque<Result<Verdict, PolicyFault>>;

/// How a [`Scripted`] policy ranks.
pub type Rank = fn(&Request) -> Result<i64, PolicyFault>;

/// Answers from a script, honestly when the script is used up; remembers what it was asked and told.
#[derive(Default)]
pub struct Scripted {
    pub answers: Answers,
    pub asked: Vec<Request>,
    pub told: Vec<Observation>,
    pub rank: Option<Rank>,
    pub observe_fails: bool,
}

impl Scripted {
    pub fn answering(answers: impl IntoIterator<Item = Verdict>) -> Scripted {
        Scripted { answers: answers.into_iter().map(Ok).collect(), ..Scripted::default() }
    }

    /// What it was asked since the last call: task and gate.
    pub fn take_asked(&mut self) -> Vec<(u64, Stage)> {
        self.asked.drain(..).map(|request| (request.task, request.gate)).collect()
    }
}

impl PolicyPort for Scripted {
    fn decide(&mut self, request: &Request, _view: &View<'_>) -> Result<Verdict, PolicyFault> {
        self.asked.push(*request);
        self.answers.pop_front().unwrap_or_else(|| Ok(honest(request)))
    }

    fn rank(&mut self, request: &Request, _view: &View<'_>) -> Result<i64, PolicyFault> {
        self.rank.map_or_else(|| Ok(-i64::from(request.priority)), |rank| rank(request))
    }

    fn observe(&mut self, observation: &Observation) -> Result<(), PolicyFault> {
        self.told.push(*observation);
        if self.observe_fails { Err(PolicyFault::Panicked) } else { Ok(()) }
    }
}

/// The stages that were started, in order.
pub fn runs(commands: &[Command]) -> Vec<(u64, Stage)> {
    let run = |command: &Command| match command {
        Command::Run { task, stage, .. } => Some((task.0, *stage)),
        _ => None,
    };
    commands.iter().filter_map(run).collect()
}

/// The step of a driver that ends every stage well, ticks when it is told to and seats the fallback
/// after a drain, with a sensible policy in the seat. `None` when there is no such step.
pub fn fair_step(arbiter: &mut Arbiter) -> Option<()> {
    let running = arbiter.running().next();
    let (now_ns, event) = if let Some(task) = running {
        (0, ended(task.0))
    } else if arbiter.phase() == Phase::Drained {
        (0, Event::Installed(fallback()))
    } else {
        (arbiter.next_deadline()?, Event::Tick)
    };
    arbiter.step(now_ns, event, &mut Honest).ok()?;
    Some(())
}

/// Takes fair steps until no task is left.
pub fn finish(mut arbiter: Arbiter) -> Result<(), String> {
    for _ in 0..200 {
        if arbiter.is_idle() {
            return Ok(());
        }
        fair_step(&mut arbiter).ok_or_else(|| format!("stuck: {:?}", arbiter.snapshot()))?;
    }
    Err(format!("no end: {:?}", arbiter.snapshot()))
}

/// A policy that must not be asked.
pub struct Unasked;

impl PolicyPort for Unasked {
    fn decide(&mut self, request: &Request, _view: &View<'_>) -> Result<Verdict, PolicyFault> {
        panic!("asked about {request:?}");
    }

    fn rank(&mut self, request: &Request, _view: &View<'_>) -> Result<i64, PolicyFault> {
        panic!("asked to rank {request:?}");
    }

    fn observe(&mut self, observation: &Observation) -> Result<(), PolicyFault> {
        panic!("told {observation:?}");
    }
}
