//! VRAM tokens: tasks are staged ahead while byte tokens last, and several may compute at once.

use interlock_policy_api::{
    Capabilities, Lock, Manifest, Observation, ObservationKind, Policy, Request, Stage, Verdict, View,
    WakeSet, export_policy, policy_options,
};

policy_options! {
    /// Options of `vram-token`.
    pub struct Options {
        /// Share of device memory, above 0 and at most 1, that tasks may hold in all when one more is staged ahead.
        pub token_share: f64 = 0.75,
        /// The same in bytes; 0 to go by the share.
        pub token_bytes: u64 = 0,
        /// Tasks that may compute at once.
        pub compute_permits: u32 = 2,
        /// Milliseconds a task waits for tokens before it gives up staging ahead.
        pub wait_ms: u64 = 1000,
    }
}

/// Place of `compute` in the lock table.
const COMPUTE: usize = 0;

/// How often a staged task may see a later one enter Compute before nothing more is staged until it has.
const OVERTAKES: u32 = 4;

/// What may let a task be staged that is held back: bytes came free, or somebody entered Compute.
const CHANGED: WakeSet = WakeSet::FREED.with(WakeSet::STAGE_ENTERED);

/// The policy, and what it saw of the tasks it let stage.
#[derive(Debug)]
pub struct VramToken {
    options: Options,
    /// Staged tasks that have not entered Compute, the one staged first in front.
    staged: Vec<u64>,
    /// How many tasks entered Compute before the first of `staged`, since that one is the first.
    overtakes: u32,
    staged_in_all: u64,
    skipped_in_all: u64,
}

impl Policy for VramToken {
    type Options = Options;

    const MANIFEST: Manifest = Manifest::new(
        "vram-token",
        env!("CARGO_PKG_VERSION"),
        "staged ahead while byte tokens last, several compute at once; staged inline after a bounded wait",
    )
    .with_locks(&[Lock::counted("compute", "compute_permits", 2, Stage::COMPUTE, Stage::COMPUTE)])
    .with_options(Options::SPEC)
    .with_capabilities(Capabilities::OBSERVE.with(Capabilities::STATS));

    fn new(options: Options) -> Result<Self, String> {
        let share = options.token_share;
        if !(share > 0.0 && share <= 1.0) {
            return Err(format!("token_share: {share} is no share; write a number above 0 and at most 1"));
        }
        Ok(Self { options, staged: Vec::new(), overtakes: 0, staged_in_all: 0, skipped_in_all: 0 })
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

    fn observe(&mut self, seen: &Observation) {
        match (seen.kind, seen.stage) {
            (ObservationKind::STAGE_ENDED, Stage::STAGE) => {
                self.staged.push(seen.task);
                self.staged_in_all += 1;
            }
            (ObservationKind::ENTERED, Stage::COMPUTE) => self.forget(seen.task, 1),
            (ObservationKind::TASK_LEFT, _) => self.forget(seen.task, 0),
            (ObservationKind::SKIPPED, _) => self.skipped_in_all += 1,
            _ => {}
        }
    }

    fn stats(&self) -> Vec<(String, u64)> {
        vec![("staged".into(), self.staged_in_all), ("skipped".into(), self.skipped_in_all)]
    }
}

impl VramToken {
    fn stage(&self, request: &Request, view: &View<'_>) -> Verdict {
        // Bytes given out now would be missing to a task that waits for all of its own, or to a
        // staged one that others keep overtaking because they need less to compute.
        if view.waiting_inline() > 0 || self.overtakes >= OVERTAKES {
            return Verdict::wait(CHANGED);
        }
        // With a permit to spare the task does not go ahead of its turn: it needs no token.
        let to_compute = view.staged + view.running[Stage::STAGE.index()];
        let in_turn = view.free_permits(COMPUTE) > to_compute;
        let tokens = self.budget(view).saturating_sub(view.used_bytes());
        if request.grantable() && (in_turn || request.need_bytes <= tokens) {
            return Verdict::enter(request.need_bytes);
        }
        let deadline = request.gate_since_ns.saturating_add(self.options.wait_ms.saturating_mul(1_000_000));
        if view.now_ns >= deadline { Verdict::skip() } else { Verdict::wait_until(CHANGED, deadline) }
    }

    fn budget(&self, view: &View<'_>) -> u64 {
        match self.options.token_bytes {
            0 => (view.capacity_bytes as f64 * self.options.token_share) as u64,
            bytes => bytes,
        }
    }

    /// The task is no longer staged and waiting; `overtakes` counts if it was not the first in line. One that was not staged at all
    /// overtakes as well: it took bytes that the first in line may need.
    fn forget(&mut self, task: u64, overtakes: u32) {
        match self.staged.first() {
            None => return,
            Some(first) if *first == task => self.overtakes = 0,
            Some(_) => self.overtakes = self.overtakes.saturating_add(overtakes),
        }
        self.staged.retain(|staged| *staged != task);
    }
}

export_policy!(VramToken);

#[cfg(test)]
mod tests;
