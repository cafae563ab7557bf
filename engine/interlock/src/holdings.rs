//! What is held on a device and what is free, worked out from its tasks.

use interlock_policy_api::{LockView, Request, RequestFlags, Stage, Strided, View};

use super::ArbiterConfig;
use super::ledger::{Claim, Ledger};
use super::lock_table::{LockSet, LockTable};
use super::task::{Place, Task};

/// The device between two changes of its state.
pub(super) struct Holdings {
    pub locks: Vec<LockView>,
    pub ledger: Ledger,
    pub waiting: [u32; 4],
    pub running: [u32; 4],
    /// Tasks that are staged and wait for Compute.
    pub staged: u32,
}

impl Holdings {
    pub fn of<'a>(
        config: &ArbiterConfig,
        table: &LockTable,
        tasks: impl IntoIterator<Item = &'a Task>,
    ) -> Holdings {
        let mut locks: Vec<LockView> =
            table.locks().iter().map(|lock| LockView { permits: lock.permits, free: lock.permits }).collect();
        let mut claims = Vec::new();
        let (mut waiting, mut running, mut staged) = ([0; 4], [0; 4], 0);
        for task in tasks {
            for index in task.locks.indices() {
                locks[index].free -= 1;
            }
            if task.held_bytes > 0 {
                claims.push(Claim { task: task.spec.task, held: task.held_bytes, rest: task.rest_bytes() });
            }
            match &task.place {
                Place::Gate(waiter) => {
                    waiting[waiter.gate.index()] += 1;
                    staged += u32::from(task.staged);
                }
                Place::Inside { stage, .. } => running[stage.index()] += 1,
            }
        }
        Holdings { locks, ledger: Ledger::new(config.capacity_bytes, claims), waiting, running, staged }
    }

    pub fn are_free(&self, locks: LockSet) -> bool {
        locks.indices().all(|index| self.locks[index].free > 0)
    }

    /// Whether the ledger admits `reserve` more bytes for a task at `gate`. Where a stage needs no
    /// bytes there is nothing to ask the ledger.
    pub fn admits(&self, task: &Task, gate: Stage, reserve: u64) -> bool {
        match gate {
            Stage::STAGE | Stage::COMPUTE => {
                self.ledger.admits(task.spec.task, reserve, task.spec.peak_bytes)
            }
            _ => reserve == 0,
        }
    }

    /// Whether a task that waits at `gate` could be let in.
    pub fn can_enter(&self, task: &Task, gate: Stage, table: &LockTable) -> bool {
        self.are_free(task.missing_locks(gate, table)) && self.admits(task, gate, task.reservation(gate).0)
    }

    pub fn view(&self, config: &ArbiterConfig, now_ns: u64) -> View<'_> {
        View {
            now_ns,
            capacity_bytes: config.capacity_bytes,
            free_bytes: self.ledger.free(),
            device: config.device,
            workers: config.workers,
            waiting: self.waiting,
            running: self.running,
            staged: self.staged,
            locks: Strided::new(&self.locks),
        }
    }

    /// The request of a waiting task, or `None` for one that is inside a stage.
    pub fn request(&self, task: &Task, table: &LockTable, now_ns: u64) -> Option<Request> {
        let waiter = task.waiter()?;
        let gate = waiter.gate;
        let (need_bytes, _) = task.reservation(gate);
        let passed = waiter.earliest_deadline_ns.is_some_and(|deadline| deadline <= now_ns);
        let flags = RequestFlags::default()
            .with_if(task.staged, RequestFlags::STAGED)
            .with_if(self.are_free(task.missing_locks(gate, table)), RequestFlags::LOCKS_FREE)
            .with_if(self.admits(task, gate, need_bytes), RequestFlags::BYTES_FREE)
            .with_if(passed, RequestFlags::DEADLINE_PASSED)
            .with_if(task.spec.retry, RequestFlags::RETRY);
        Some(Request {
            task: task.spec.task.0,
            job: task.spec.job,
            partition: task.spec.partition,
            priority: task.spec.priority,
            gate,
            flags,
            arrival: task.arrival,
            gate_since_ns: waiter.since_ns,
            held_bytes: task.held_bytes,
            need_bytes,
            peak_bytes: task.spec.peak_bytes,
        })
    }
}
