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
