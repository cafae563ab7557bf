//! A second, naive arbiter to hold the real one against: it knows the rules of the policy API, tries
//! every order in which tasks could finish, counts holders one by one, and shares no code with the engine.
//!
//! It is the policy as well: asked a question, it checks that the question is the right one and that everything
//! shown is true, picks an answer, works out what must come of it, and goes on from there.

mod drain;
mod events;
mod questions;
mod watchdog;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use interlock_arbiter::{Command, Limits, LockSpec, TaskSpec};
use interlock_policy_api::ObservationKind as Kind;

const MS: u64 = 1_000_000;
/// What a call of the policy may take.
pub const BUDGET_NS: u64 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Serving,
    Draining,
    Drained,
}

/// How the policy ranks.
#[derive(Clone, Copy, Debug)]
pub enum Ranking {
    Priority,
    SmallPeakFirst,
    /// Fails about tasks with an odd number.
    FailsAboutOdd,
}

#[derive(Clone, Debug)]
pub struct Task {
    pub spec: TaskSpec,
    arrival: u64,
    pub at: At,
    pub held: u64,
    pub staged: bool,
    pub locks: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
pub enum At {
    Gate(Waiting),
    Inside { stage: u32, since: u64 },
}

#[derive(Clone, Debug)]
pub struct Waiting {
    pub gate: u32,
    since: u64,
    /// The verdict that stands: what wakes it, and when it is asked again at the latest.
    stands: Option<(u32, Option<u64>)>,
    /// Events since the last question.
    heard: u32,
    deadlines: Vec<u64>,
    refused_in_row: u32,
    pub held_back_since: Option<u64>,
    /// Later tasks that passed it after the limit.
    pub passed_by: Vec<u64>,
}

/// The naive arbiter.
pub struct Reference {
    pub capacity: u64,
    pub limits: Limits,
    pub locks: Vec<LockSpec>,
    pub ranking: Ranking,
    pub tasks: BTreeMap<u64, Task>,
    pub mode: Mode,
    pub now: u64,
    /// What the policy will answer, as numbers.
    pub seeds: VecDeque<u8>,
    /// What the arbiter must have said by the end of the step.
    pub expected: Vec<Command>,
    expected_told: VecDeque<(Kind, u32, u64, u64, u64)>,
    arrivals: u64,
    rank_faults_in_row: u32,
    stuck_since: Option<u64>,
    moved: bool,
    seated: u64,
    /// What the latest call took.
    took: u64,
    /// Calls of the policy in the seat, as far as they count: whether each was slow.
    calls: Vec<bool>,
}

impl Reference {
    pub fn new(capacity: u64, limits: Limits, locks: Vec<LockSpec>, ranking: Ranking) -> Reference {
        Reference {
            capacity,
            limits,
            locks,
            ranking,
            tasks: BTreeMap::new(),
            mode: Mode::Serving,
            now: 0,
            seeds: VecDeque::new(),
            expected: Vec::new(),
            expected_told: VecDeque::new(),
            arrivals: 0,
            rank_faults_in_row: 0,
            stuck_since: None,
            moved: false,
            seated: 0,
            took: 0,
            calls: Vec::new(),
        }
    }

    fn covering(&self, gate: u32) -> BTreeSet<usize> {
        let covers = |lock: &LockSpec| (lock.first.0..=lock.last.0).contains(&gate);
        (0..self.locks.len()).filter(|&index| covers(&self.locks[index])).collect()
    }

    fn missing(&self, id: u64, gate: u32) -> BTreeSet<usize> {
        &self.covering(gate) - &self.tasks[&id].locks
    }

    fn holders(&self, lock: usize) -> u32 {
        self.tasks.values().filter(|task| task.locks.contains(&lock)).count() as u32
    }

    fn locks_free(&self, id: u64, gate: u32) -> bool {
        self.missing(id, gate).iter().all(|&lock| self.holders(lock) < self.locks[lock].permits)
    }

    pub fn held(&self) -> u64 {
        self.tasks.values().map(|task| task.held).sum()
    }

    fn bytes_free(&self, id: u64, gate: u32, reserve: u64) -> bool {
        if gate == 0 || gate == 3 {
            return true;
        }
        let free = u128::from(self.capacity - self.held());
        if u128::from(reserve) > free {
            return false;
        }
        let mut claims: Vec<(u128, u128)> = Vec::new();
        for (&other, task) in &self.tasks {
            let held = task.held + if other == id { reserve } else { 0 };
            if held > 0 || task.staged || other == id {
                claims.push((held.into(), (task.spec.peak_bytes - held).into()));
            }
        }
        some_order_finishes(free - u128::from(reserve), &claims)
    }

    fn need(&self, id: u64, gate: u32) -> u64 {
        let task = &self.tasks[&id];
        match gate {
            1 => task.spec.staged_bytes,
            2 => task.spec.peak_bytes - task.held,
            _ => 0,
        }
    }

    fn names(&self, locks: &BTreeSet<usize>) -> Vec<String> {
        locks.iter().map(|&lock| self.locks[lock].name.clone()).collect()
    }

    fn count(&self, wanted: impl Fn(&Task) -> bool) -> u32 {
        self.tasks.values().filter(|task| wanted(task)).count() as u32
    }

    pub fn waiting(&self, id: u64) -> Option<&Waiting> {
        match &self.tasks.get(&id)?.at {
            At::Gate(waiting) => Some(waiting),
            At::Inside { .. } => None,
        }
    }

    fn waiting_mut(&mut self, id: u64) -> &mut Waiting {
        match &mut self.tasks.get_mut(&id).expect("a task").at {
            At::Gate(waiting) => waiting,
            At::Inside { .. } => panic!("task {id} is inside a stage"),
        }
    }

    pub fn running(&self) -> Vec<u64> {
        self.tasks.keys().copied().filter(|&id| self.waiting(id).is_none()).collect()
    }
}

impl Waiting {
    fn at(gate: u32, since: u64) -> Waiting {
        Waiting {
            gate,
            since,
            stands: None,
            heard: 0,
            deadlines: Vec::new(),
            refused_in_row: 0,
            held_back_since: None,
            passed_by: Vec::new(),
        }
    }
}

/// Whether tasks that hold `claims.0` and still need `claims.1` can finish in some order: all of them are tried.
fn some_order_finishes(free: u128, claims: &[(u128, u128)]) -> bool {
    claims.is_empty()
        || claims.iter().enumerate().any(|(index, &(held, rest))| {
            let mut others = claims.to_vec();
            others.remove(index);
            rest <= free && some_order_finishes(free + held, &others)
        })
}
