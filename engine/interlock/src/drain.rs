//! The drain: from a policy that is not to be asked any more to a device on which nothing is held.
//!
//! Tasks that are past their first reservation go on, let through by the host in the banker's order and
//! still under the old lock table, so that exclusion holds to the end. All others give back their locks and stand.

use interlock_policy_api::Stage;

use super::Command;
use super::arbiter::{Phase, Turn};
use super::task::Task;

impl Turn<'_> {
    pub fn start_drain(&mut self) {
        match self.arbiter.phase {
            Phase::Serving => {
                self.arbiter.phase = Phase::Draining;
                self.arbiter.stalled_since_ns = None;
            }
            Phase::Draining => {}
            // Whoever asked waits for this answer.
            Phase::Drained => self.commands.push(Command::Drained),
        }
    }

    /// Goes on with a drain as far as it goes now.
    pub fn drain(&mut self) {
        if self.arbiter.phase != Phase::Draining {
            return;
        }
        self.drop_idle_locks();
        while let Some((gate, id, bytes)) = self.next_to_pass() {
            self.enter(id, gate, bytes);
        }
        if !self.arbiter.tasks.values().any(|task| task.is_running() || passes(task)) {
            self.arbiter.phase = Phase::Drained;
            self.commands.push(Command::Drained);
        }
    }

    /// Waiters that will not move before the next policy is seated give back their locks.
    fn drop_idle_locks(&mut self) {
        let standing = |task: &&Task| !task.is_running() && !passes(task) && !task.locks.is_empty();
        let standing: Vec<_> =
            self.arbiter.tasks.values().filter(standing).map(|task| (task.spec.task, task.locks)).collect();
        for (id, locks) in standing {
            self.release(id, locks, false);
        }
    }

    /// The waiter to let through next: the one with the smallest rest, of those that can go now.
    fn next_to_pass(&self) -> Option<(Stage, super::TaskId, u64)> {
        let arbiter = &*self.arbiter;
        let holdings = arbiter.holdings();
        let mut waiters: Vec<&Task> =
            arbiter.tasks.values().filter(|task| !task.is_running() && passes(task)).collect();
        waiters.sort_by_key(|task| (task.reservation(task.stage()).0, task.arrival));
        let next = waiters.into_iter().find(|task| {
            let gate = task.stage();
            holdings.can_enter(task, gate, &arbiter.table)
        })?;
        Some((next.stage(), next.spec.task, next.reservation(next.stage()).0))
    }
}

/// Whether a waiter is let through during a drain: its data is on the device, or only Finish is left.
fn passes(task: &Task) -> bool {
    task.staged || task.stage() == Stage::FINISH
}
