//! A dump of an arbiter, for people and reports.

use interlock_policy_api::{Request, RequestFlags, Stage, WakeSet};
use serde::Serialize;

use super::arbiter::{Arbiter, Phase};
use super::task::{Answer, Place, Waiter};
use super::{Counters, Refusal};

/// Everything an arbiter knows at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Snapshot {
    /// Index of the device.
    pub device: u32,
    /// Nanoseconds since the engine started, at the last event.
    pub now_ns: u64,
    /// Who decides at the gates.
    pub phase: Phase,
    /// Since when tasks wait, no stage runs and nothing moves.
    pub stalled_since_ns: Option<u64>,
    /// When the arbiter wants to be woken.
    pub next_deadline_ns: Option<u64>,
    /// Device bytes that tasks may hold in all.
    pub capacity_bytes: u64,
    /// Device bytes that tasks hold.
    pub reserved_bytes: u64,
    /// The lock table.
    pub locks: Vec<LockState>,
    /// Tasks at their gates, in the order of arrival.
    pub waiting: Vec<WaitingTask>,
    /// Tasks inside a stage, in the order of arrival.
    pub running: Vec<RunningTask>,
    /// What has been counted.
    pub counters: Counters,
}

/// A lock and who holds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct LockState {
    /// Its name.
    pub name: String,
    /// How many tasks may hold it at once.
    pub permits: u32,
    /// First stage of its span.
    pub first: &'static str,
    /// Last stage of its span.
    pub last: &'static str,
    /// The tasks that hold it.
    pub holders: Vec<u64>,
}

/// A task at a gate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct WaitingTask {
    /// Which task.
    pub task: u64,
    /// The job it is a partition of.
    pub job: u64,
    /// Which partition of the job.
    pub partition: u32,
    /// Priority of the job.
    pub priority: i32,
    /// The gate.
    pub gate: &'static str,
    /// Since when.
    pub since_ns: u64,
    /// Names of the locks it holds.
    pub locks: Vec<String>,
    /// Device bytes it holds.
    pub held_bytes: u64,
    /// Device bytes that entering needs on top.
    pub need_bytes: u64,
    /// Whether the locks of the gate are free.
    pub locks_free: bool,
    /// Whether the ledger would admit the bytes.
    pub bytes_free: bool,
    /// Since when it could have been let in with nothing before it: see [`Quarantine::HeldBack`](super::Quarantine::HeldBack).
    pub held_back_since_ns: Option<u64>,
    /// How many later tasks passed it after the starvation limit.
    pub passed_over: u32,
    /// The last verdict about it.
    pub verdict: LastVerdict,
}

/// A task inside a stage.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct RunningTask {
    /// Which task.
    pub task: u64,
    /// The job it is a partition of.
    pub job: u64,
    /// Which partition of the job.
    pub partition: u32,
    /// The stage.
    pub stage: &'static str,
    /// Since when.
    pub since_ns: u64,
    /// Names of the locks it holds.
    pub locks: Vec<String>,
    /// Device bytes it holds.
    pub held_bytes: u64,
}

/// The last verdict about a waiting task.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LastVerdict {
    /// The policy in the seat was not asked about it at this gate yet.
    NotAsked,
    /// To wait.
    Wait {
        /// For one of these events.
        wake: Vec<&'static str>,
        /// Until this time at the latest.
        deadline_ns: Option<u64>,
    },
    /// One that was refused.
    Refused {
        /// Why.
        refusal: Refusal,
        /// How many in a row.
        in_row: u32,
        /// When the policy is asked again at the latest.
        again_ns: u64,
    },
}

impl Arbiter {
    /// Everything the arbiter knows now.
    pub fn snapshot(&self) -> Snapshot {
        let holdings = self.holdings();
        let mut tasks: Vec<_> = self.tasks.values().collect();
        tasks.sort_by_key(|task| task.arrival);
        let (mut waiting, mut running) = (Vec::new(), Vec::new());
        for task in tasks {
            let locks = self.table.names(task.locks);
            match &task.place {
                &Place::Inside { stage, since_ns } => running.push(RunningTask {
                    task: task.spec.task.0,
                    job: task.spec.job,
                    partition: task.spec.partition,
                    stage: name(stage),
                    since_ns,
                    locks,
                    held_bytes: task.held_bytes,
                }),
                Place::Gate(waiter) => {
                    let Some(request) = holdings.request(task, &self.table, self.now_ns) else { continue };
                    waiting.push(waiting_task(&request, locks, waiter));
                }
            }
        }
        Snapshot {
            device: self.config.device,
            now_ns: self.now_ns,
            phase: self.phase,
            stalled_since_ns: self.stalled_since_ns,
            next_deadline_ns: self.next_deadline(),
            capacity_bytes: self.config.capacity_bytes,
            reserved_bytes: holdings.ledger.reserved(),
            locks: self.lock_states(),
            waiting,
            running,
            counters: self.counters.clone(),
        }
    }

    fn lock_states(&self) -> Vec<LockState> {
        let holders = |index| {
            self.tasks.values().filter(move |task| task.locks.contains(index)).map(|task| task.spec.task.0)
        };
        let locks = self.table.locks().iter().enumerate().map(|(index, lock)| LockState {
            name: lock.name.clone(),
            permits: lock.permits,
            first: name(lock.first),
            last: name(lock.last),
            holders: holders(index).collect(),
        });
        locks.collect()
    }
}

fn waiting_task(request: &Request, locks: Vec<String>, waiter: &Waiter) -> WaitingTask {
    WaitingTask {
        task: request.task,
        job: request.job,
        partition: request.partition,
        priority: request.priority,
        gate: name(request.gate),
        since_ns: request.gate_since_ns,
        locks,
        held_bytes: request.held_bytes,
        need_bytes: request.need_bytes,
        locks_free: request.flags.contains(RequestFlags::LOCKS_FREE),
        bytes_free: request.flags.contains(RequestFlags::BYTES_FREE),
        held_back_since_ns: waiter.held_back_since_ns,
        passed_over: waiter.passed_over,
        verdict: last_verdict(waiter.answer, waiter.refused_in_row),
    }
}

fn last_verdict(answer: Answer, in_row: u32) -> LastVerdict {
    match answer {
        Answer::NotAsked => LastVerdict::NotAsked,
        Answer::Wait { wake, deadline_ns } => LastVerdict::Wait { wake: wake_names(wake), deadline_ns },
        Answer::Refused { refusal, again_ns } => LastVerdict::Refused { refusal, in_row, again_ns },
    }
}

fn wake_names(wake: WakeSet) -> Vec<&'static str> {
    let known = [
        (WakeSet::LOCK_FREED, "lock_freed"),
        (WakeSet::BYTES_FREED, "bytes_freed"),
        (WakeSet::STAGE_ENDED, "stage_ended"),
        (WakeSet::TASK_ARRIVED, "task_arrived"),
        (WakeSet::STAGE_ENTERED, "stage_entered"),
    ];
    known.into_iter().filter(|(bit, _)| wake.intersects(*bit)).map(|(_, name)| name).collect()
}

fn name(stage: Stage) -> &'static str {
    stage.name().unwrap_or("unknown")
}
