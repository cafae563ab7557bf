//! Two locks: `mem` over Stage, `compute` over Compute, so that one task is uploaded while another computes.

use interlock_policy_api::{
    Lock, Manifest, Policy, Request, RequestFlags, Stage, Verdict, View, WakeSet, export_policy,
    policy_options,
};

policy_options! {
    /// Options of `two-lock`.
    pub struct Options {
        /// Milliseconds a task whose bytes do not fit lets others go first before it gives up staging ahead.
        pub wait_ms: u64 = 1000,
    }
}

/// The policy; it has no state.
#[derive(Debug)]
pub struct TwoLock {
    wait_ns: u64,
}

/// What may let a task be staged that is held back: memory or a lock came free, or somebody entered Compute.
const CHANGED: WakeSet = WakeSet::FREED.with(WakeSet::STAGE_ENTERED);

impl Policy for TwoLock {
    type Options = Options;

    const MANIFEST: Manifest = Manifest::new(
        "two-lock",
        env!("CARGO_PKG_VERSION"),
        "one task is uploaded while another computes; staged inline when the memory is not there",
    )
    .with_locks(&[
        Lock::exclusive("mem", Stage::STAGE, Stage::STAGE),
        Lock::exclusive("compute", Stage::COMPUTE, Stage::COMPUTE),
    ])
    .with_options(Options::SPEC);

    fn new(options: Options) -> Result<Self, String> {
        Ok(Self { wait_ns: options.wait_ms.saturating_mul(1_000_000) })
    }

    fn decide(&self, request: &Request, view: &View<'_>) -> Verdict {
        if request.gate == Stage::STAGE {
            self.stage(request, view)
        } else if request.grantable() {
            Verdict::enter(request.need_bytes)
        } else {
            Verdict::wait(WakeSet::FREED)
        }
    }
}

impl TwoLock {
    fn stage(&self, request: &Request, view: &View<'_>) -> Verdict {
        // One staged task keeps the device busy; a second could hold the bytes the first needs to
        // compute. And bytes given out now would be missing to a task that waits for all of its own.
        if view.staged > 0 || view.waiting_inline() > 0 {
            return Verdict::wait(CHANGED);
        }
        if request.grantable() {
            return Verdict::enter(request.need_bytes);
        }
        // Only `mem` is taken: an upload ends soon.
        if request.flags.contains(RequestFlags::BYTES_FREE) {
            return Verdict::wait(CHANGED);
        }
        // Smaller tasks may fit where this one does not. Once it has skipped, nothing is staged before it
        // has computed: they cannot go first for ever.
        let deadline = request.gate_since_ns.saturating_add(self.wait_ns);
        if view.now_ns >= deadline { Verdict::skip() } else { Verdict::wait_until(CHANGED, deadline) }
    }
}

export_policy!(TwoLock);

#[cfg(test)]
mod tests {
    use interlock_policy_api::testing::{request, view};
    use interlock_policy_api::{LockView, VerdictKind};

    use super::*;

    const FREE: [LockView; 2] = [LockView { permits: 1, free: 1 }; 2];
    const COMPUTE: usize = Stage::COMPUTE.index();

    fn policy() -> TwoLock {
        TwoLock::new(Options { wait_ms: 2 }).expect("the options are good")
    }

    #[test]
    fn a_task_is_staged_while_another_computes() {
        let mut view = view(&FREE);
        view.running[COMPUTE] = 1;
        let request = request(Stage::STAGE);
        assert_eq!(policy().decide(&request, &view), Verdict::enter(request.need_bytes));
    }

    #[test]
    fn one_task_at_a_time_is_staged_ahead() {
        let mut view = view(&FREE);
        view.staged = 1;
        view.waiting[COMPUTE] = 1;
        view.now_ns = u64::MAX;
        let verdict = policy().decide(&request(Stage::STAGE), &view);
        assert_eq!(verdict, Verdict::wait(CHANGED));
        assert!(verdict.wake.intersects(WakeSet::STAGE_ENTERED));
    }

    #[test]
    fn nothing_is_staged_past_a_task_that_needs_all_its_bytes() {
        let mut view = view(&FREE);
        view.waiting[COMPUTE] = 1;
        assert_eq!(policy().decide(&request(Stage::STAGE), &view), Verdict::wait(CHANGED));
    }

    #[test]
    fn a_taken_lock_is_waited_for() {
        let mut request = request(Stage::STAGE);
        request.flags = RequestFlags::BYTES_FREE;
        let mut view = view(&FREE);
        view.now_ns = u64::MAX;
        assert_eq!(policy().decide(&request, &view), Verdict::wait(CHANGED));
    }

    #[test]
    fn bytes_are_waited_for_until_the_deadline() {
        let mut request = request(Stage::STAGE);
        request.flags = RequestFlags::LOCKS_FREE;
        request.gate_since_ns = 5;
        let mut view = view(&FREE);
        assert_eq!(policy().decide(&request, &view), Verdict::wait_until(CHANGED, 2_000_005));
        view.now_ns = 2_000_005;
        assert_eq!(policy().decide(&request, &view), Verdict::skip());
    }

    #[test]
    fn the_other_gates_are_entered_when_they_open() {
        for gate in [Stage::PREPARE, Stage::COMPUTE, Stage::FINISH] {
            let mut request = request(gate);
            assert_eq!(policy().decide(&request, &view(&FREE)), Verdict::enter(request.need_bytes));
            request.flags = RequestFlags::LOCKS_FREE;
            assert_eq!(policy().decide(&request, &view(&FREE)).kind, VerdictKind::WAIT);
        }
    }
}
