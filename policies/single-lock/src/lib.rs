//! Single lock: one task at a time from Stage to Compute; the CPU work of others overlaps.

use interlock_policy_api::{
    Lock, Manifest, NoOptions, Policy, Request, Stage, Verdict, View, WakeSet, export_policy,
};

/// The policy; it has no state and no options.
#[derive(Debug)]
pub struct SingleLock;

impl Policy for SingleLock {
    type Options = NoOptions;

    const MANIFEST: Manifest = Manifest::new(
        "single-lock",
        env!("CARGO_PKG_VERSION"),
        "one task at a time on the device, from Stage to Compute; CPU work overlaps",
    )
    .with_locks(&[Lock::exclusive("device", Stage::STAGE, Stage::COMPUTE)]);

    fn new(_options: NoOptions) -> Result<Self, String> {
        Ok(Self)
    }

    /// The lock is taken at Stage, or at Compute by a task that the host lets stage inline. Whoever has it is
    /// alone on the device, so that its bytes are free.
    fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
        if request.grantable() { Verdict::enter(request.need_bytes) } else { Verdict::wait(WakeSet::FREED) }
    }
}

export_policy!(SingleLock);

#[cfg(test)]
mod tests {
    use interlock_policy_api::testing::{request, view};
    use interlock_policy_api::{LockView, RequestFlags};

    use super::*;

    #[test]
    fn a_task_enters_each_gate_that_is_open() {
        for gate in Stage::ALL {
            let request = request(gate);
            let locks = [LockView { permits: 1, free: 1 }];
            assert_eq!(SingleLock.decide(&request, &view(&locks)), Verdict::enter(request.need_bytes));
        }
    }

    #[test]
    fn a_task_waits_while_another_is_on_the_device() {
        let mut request = request(Stage::STAGE);
        request.flags = RequestFlags::BYTES_FREE;
        let locks = [LockView { permits: 1, free: 0 }];
        assert_eq!(SingleLock.decide(&request, &view(&locks)), Verdict::wait(WakeSet::FREED));
    }

    #[test]
    fn cpu_stages_are_outside_the_lock() {
        let lock = SingleLock::MANIFEST.locks[0];
        assert_eq!((lock.first, lock.last), (Stage::STAGE, Stage::COMPUTE));
    }
}
