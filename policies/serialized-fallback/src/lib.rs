//! Serialized fallback: one lock over the whole task, nothing staged ahead. The ground to stand on.

use interlock_policy_api::{
    Lock, Manifest, NoOptions, Policy, Request, Stage, Verdict, View, WakeSet, export_policy,
};

/// The policy; it has no state and no options.
#[derive(Debug)]
pub struct SerializedFallback;

impl Policy for SerializedFallback {
    type Options = NoOptions;

    const MANIFEST: Manifest = Manifest::new(
        "serialized-fallback",
        env!("CARGO_PKG_VERSION"),
        "one task at a time from Prepare to Finish, never staged ahead",
    )
    .with_locks(&[Lock::exclusive("task", Stage::PREPARE, Stage::FINISH)]);

    fn new(_options: NoOptions) -> Result<Self, String> {
        Ok(Self)
    }

    fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
        if request.gate == Stage::STAGE {
            Verdict::skip()
        } else if request.grantable() {
            Verdict::enter(request.need_bytes)
        } else {
            Verdict::wait(WakeSet::FREED)
        }
    }
}

export_policy!(SerializedFallback);

#[cfg(test)]
mod tests {
    use interlock_policy_api::testing::{request, view};
    use interlock_policy_api::{LockView, RequestFlags};

    use super::*;

    const FREE: [LockView; 1] = [LockView { permits: 1, free: 1 }];

    #[test]
    fn nothing_is_staged_ahead() {
        assert_eq!(SerializedFallback.decide(&request(Stage::STAGE), &view(&FREE)), Verdict::skip());
    }

    #[test]
    fn the_other_gates_are_entered_when_they_open() {
        for gate in [Stage::PREPARE, Stage::COMPUTE, Stage::FINISH] {
            let mut request = request(gate);
            assert_eq!(SerializedFallback.decide(&request, &view(&FREE)), Verdict::enter(request.need_bytes));
            request.flags = RequestFlags::BYTES_FREE;
            assert_eq!(SerializedFallback.decide(&request, &view(&FREE)), Verdict::wait(WakeSet::FREED));
        }
    }

    #[test]
    fn the_lock_covers_every_stage() {
        let lock = SerializedFallback::MANIFEST.locks[0];
        assert_eq!((lock.first, lock.last, lock.permits), (Stage::PREPARE, Stage::FINISH, 1));
    }
}
