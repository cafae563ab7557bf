//! One task inside the arbiter: where it is and what it holds.

use interlock_policy_api::{Stage, WakeSet};

use super::lock_table::{LockSet, LockTable};
use super::{Refusal, TaskSpec};

/// A task. All that is held on a device is the sum of what its tasks hold: there is no second
/// record of it that could disagree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Task {
    pub spec: TaskSpec,
    /// Position in the order of arrival.
    pub arrival: u64,
    pub held_bytes: u64,
    pub locks: LockSet,
    /// Its data is on the device, or on its way there, ahead of Compute.
    pub staged: bool,
    pub place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Gate(Waiter),
    Inside { stage: Stage, since_ns: u64 },
}

/// A task in front of a gate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    pub gate: Stage,
    pub since_ns: u64,
    /// The earliest deadline of any `Wait` at this gate.
    pub earliest_deadline_ns: Option<u64>,
    /// Verdicts refused in a row at this gate.
    pub refused_in_row: u32,
    /// Since when it could have been let in with nothing before it.
    pub held_back_since_ns: Option<u64>,
    /// How many later tasks passed it after the starvation limit.
    pub passed_over: u32,
    pub answer: Answer,
}

/// What became of the last question about a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    NotAsked,
    Wait { wake: WakeSet, deadline_ns: Option<u64> },
    Refused { refusal: Refusal, again_ns: u64 },
}

impl Waiter {
    pub fn at(gate: Stage, since_ns: u64) -> Waiter {
        Waiter {
            gate,
            since_ns,
            earliest_deadline_ns: None,
            refused_in_row: 0,
            held_back_since_ns: None,
            passed_over: 0,
            answer: Answer::NotAsked,
        }
    }

    /// As if it had just come to its gate, but it keeps the time since when it waits.
    pub fn ask_afresh(&mut self) {
        *self = Waiter::at(self.gate, self.since_ns);
    }

    /// Whether it is to be asked about, `occurred` having happened by `now_ns`.
    pub fn is_due(&self, occurred: WakeSet, now_ns: u64) -> bool {
        let woken = match self.answer {
            Answer::NotAsked => true,
            Answer::Wait { wake, .. } => wake.intersects(occurred),
            Answer::Refused { .. } => WakeSet::FREED.intersects(occurred),
        };
        woken || self.ask_again_ns().is_some_and(|at| at <= now_ns)
    }

    /// When it is to be asked about even if nothing happens.
    pub fn ask_again_ns(&self) -> Option<u64> {
        match self.answer {
            Answer::NotAsked => None,
            Answer::Wait { deadline_ns, .. } => deadline_ns,
            Answer::Refused { again_ns, .. } => Some(again_ns),
        }
    }
}

impl Task {
    pub fn waiter(&self) -> Option<&Waiter> {
        match &self.place {
            Place::Gate(waiter) => Some(waiter),
            Place::Inside { .. } => None,
        }
    }

    pub fn waiter_mut(&mut self) -> Option<&mut Waiter> {
        match &mut self.place {
            Place::Gate(waiter) => Some(waiter),
            Place::Inside { .. } => None,
        }
    }

    pub fn is_running(&self) -> bool {
        self.waiter().is_none()
    }

    /// The gate it stands at or the stage it is in.
    pub fn stage(&self) -> Stage {
        match &self.place {
            Place::Gate(waiter) => waiter.gate,
            Place::Inside { stage, .. } => *stage,
        }
    }

    /// Bytes missing to the task's peak.
    pub fn rest_bytes(&self) -> u64 {
        self.spec.peak_bytes - self.held_bytes
    }

    /// The least and the most bytes that entering `gate` may reserve.
    pub fn reservation(&self, gate: Stage) -> (u64, u64) {
        match gate {
            Stage::STAGE => (self.spec.staged_bytes, self.rest_bytes()),
            Stage::COMPUTE => (self.rest_bytes(), self.rest_bytes()),
            _ => (0, 0),
        }
    }

    /// The locks that entering `gate` takes.
    pub fn missing_locks(&self, gate: Stage, table: &LockTable) -> LockSet {
        table.covering(gate).without(self.locks)
    }

    /// The gate after `stage`, or `None` after Finish. A task that failed before is staged inline.
    pub fn gate_after(&self, stage: Stage) -> Option<Stage> {
        match stage {
            Stage::PREPARE if self.spec.retry => Some(Stage::COMPUTE),
            Stage::PREPARE => Some(Stage::STAGE),
            Stage::STAGE => Some(Stage::COMPUTE),
            Stage::COMPUTE => Some(Stage::FINISH),
            _ => None,
        }
    }
}
