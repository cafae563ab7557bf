//! The ledger of device bytes, and the check that keeps it safe.
//!
//! A task comes to its bytes in at most two steps: some at Stage, the rest at Compute, and gives all of
//! them back when Compute ends. A task that holds some and waits for the rest is what could
//! deadlock a device. The banker's check (Dijkstra, EWD 123) forbids it: a reservation is admitted only
//! if afterwards the tasks that hold bytes can, in some order, each get their rest and finish.
//!
//! With one resource the order to try is known: smallest rest first. Finishing a task only ever adds to
//! the free bytes, so if some order works, moving the task with the smallest rest to its front works
//! too, and so on for the tasks behind it. The check is therefore exact, at the price of a sort.

use super::TaskId;

/// What one task holds, and what it still needs to get through Compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub task: TaskId,
    pub held: u64,
    pub rest: u64,
}

/// Device bytes: how many there are and who holds them. No task's peak is above the capacity, so a task that
/// holds nothing can go last and never stands in another's way: it needs no claim.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    capacity: u64,
    reserved: u64,
    claims: Vec<Claim>,
}

impl Ledger {
    /// The ledger of these claims, one for each task that holds bytes.
    pub fn new(capacity: u64, claims: Vec<Claim>) -> Ledger {
        let reserved = claims.iter().map(|claim| claim.held).sum();
        Ledger { capacity, reserved, claims }
    }

    /// Bytes that tasks hold.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Bytes nobody holds.
    pub fn free(&self) -> u64 {
        self.capacity - self.reserved
    }

    /// Whether `task` may have `reserve` more bytes when its peak is `peak`: they are free, and
    /// afterwards every task with a claim can still finish.
    pub fn admits(&self, task: TaskId, reserve: u64, peak: u64) -> bool {
        let before = self.claims.iter().find(|claim| claim.task == task).map_or(0, |claim| claim.held);
        let (Some(free), Some(held)) = (self.free().checked_sub(reserve), before.checked_add(reserve)) else {
            return false;
        };
        let Some(rest) = peak.checked_sub(held) else { return false };
        let mut after: Vec<Claim> = self.claims.iter().copied().filter(|claim| claim.task != task).collect();
        after.push(Claim { task, held, rest });
        all_can_finish(free, after)
    }
}

/// Whether tasks with these claims can get their rest and finish one after another.
fn all_can_finish(mut free: u64, mut claims: Vec<Claim>) -> bool {
    claims.sort_unstable_by_key(|claim| claim.rest);
    claims.iter().all(|claim| {
        let fits = claim.rest <= free;
        free += claim.held;
        fits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(capacity: u64, claims: &[(u64, u64)]) -> Ledger {
        let claim =
            |(index, &(held, rest)): (usize, &(u64, u64))| Claim { task: TaskId(index as u64), held, rest };
        Ledger::new(capacity, claims.iter().enumerate().map(claim).collect())
    }

    const NEW: TaskId = TaskId(99);

    #[test]
    fn a_second_task_is_staged_only_if_one_of_the_two_can_still_compute() {
        // Two tasks that hold 4 each leave 2 of 10: enough for a rest of 2, not for a rest of 3.
        assert!(ledger(10, &[(4, 2)]).admits(NEW, 4, 7));
        assert!(!ledger(10, &[(4, 3)]).admits(NEW, 4, 7));
    }

    #[test]
    fn what_the_first_gives_back_counts_for_the_next() {
        // One byte is left each time. It lets the first task finish; what that one held decides.
        assert!(ledger(10, &[(4, 1), (2, 6)]).admits(NEW, 3, 6));
        assert!(!ledger(10, &[(1, 1), (5, 4)]).admits(NEW, 3, 6));
    }

    #[test]
    fn a_task_that_holds_nothing_blocks_nobody() {
        assert!(ledger(10, &[(0, 10)]).admits(NEW, 10, 10));
        assert!(ledger(10, &[]).admits(NEW, 10, 10));
    }

    #[test]
    fn the_rest_of_a_staged_task_is_measured_from_what_it_holds() {
        let ledger = ledger(10, &[(4, 3), (3, 7)]);
        assert_eq!((ledger.reserved(), ledger.free()), (7, 3));
        assert!(ledger.admits(TaskId(0), 3, 7));
        assert!(!ledger.admits(TaskId(1), 7, 10));
        assert!(!ledger.admits(TaskId(0), 4, 7), "more than its peak");
    }

    #[test]
    fn numbers_that_do_not_fit_are_no() {
        assert!(!ledger(10, &[(1, 0)]).admits(TaskId(0), u64::MAX, u64::MAX));
        assert!(!ledger(u64::MAX, &[(1, 0)]).admits(NEW, u64::MAX, u64::MAX));
    }
}
