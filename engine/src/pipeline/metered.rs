//! A seated policy with a clock beside it: what it is asked, what it answers, how long it takes.

use std::time::Instant;

use interlock_policy_api::{Capabilities, Observation, Request, Verdict, View};

use super::policy_stats::{PolicyIdentity, PolicyStats, Tally};
use crate::host::LoadedPolicy;
use crate::interlock::{PolicyFault, PolicyPort};

/// An instance of a policy, metered. Asking it costs two looks at the clock and a few nanoseconds more than asking the
/// instance itself.
pub struct Metered {
    policy: LoadedPolicy,
    tally: Tally,
    /// When it took its seat, in nanoseconds since the engine started.
    seated_at_ns: u64,
    /// How long the latest call took.
    took_ns: u64,
}

impl Metered {
    /// Meters an instance that takes its seat at `now_ns` after the engine's start, with everything at zero.
    pub fn new(policy: LoadedPolicy, now_ns: u64) -> Self {
        let mut tally = Tally::new(PolicyIdentity::of(policy.library()));
        tally.times_seated = 1;
        Self { policy, tally, seated_at_ns: now_ns, took_ns: 0 }
    }

    /// Goes on with what was written down about the same policy before.
    pub(super) fn go_on_with(&mut self, tally: Tally) {
        self.tally = tally;
        self.tally.times_seated += 1;
    }

    /// What it did so far. `now_ns` is nanoseconds since the engine started.
    pub fn stats(&self, now_ns: u64) -> PolicyStats {
        self.tally.stats(Some(now_ns.saturating_sub(self.seated_at_ns)))
    }

    /// The instance.
    pub fn policy(&self) -> &LoadedPolicy {
        &self.policy
    }

    /// The instance.
    pub fn policy_mut(&mut self) -> &mut LoadedPolicy {
        &mut self.policy
    }

    pub(super) fn identity(&self) -> &PolicyIdentity {
        &self.tally.identity
    }

    pub(super) fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Whether it was quarantined since it took its seat.
    pub(super) fn is_quarantined(&self) -> bool {
        self.tally.quarantine.as_ref().is_some_and(|quarantine| quarantine.at_ns() >= self.seated_at_ns)
    }

    /// The instance and its tally, as it leaves the seat.
    pub(super) fn unseat(mut self, now_ns: u64) -> (LoadedPolicy, Tally) {
        self.tally.seated_before_ns += now_ns.saturating_sub(self.seated_at_ns);
        (self.policy, self.tally)
    }
}

impl PolicyPort for Metered {
    #[inline]
    fn decide(&mut self, request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault> {
        let start = Instant::now();
        let answer = self.policy.decide(request, view);
        self.took_ns = start.elapsed().as_nanos() as u64;
        self.tally.latency.record(self.took_ns);
        self.tally.count_verdict(answer.as_ref().ok().map(|verdict| verdict.kind));
        answer
    }

    #[inline]
    fn rank(&mut self, request: &Request, view: &View<'_>) -> Result<i64, PolicyFault> {
        self.timed(Capabilities::RANK, |policy| policy.rank(request, view))
    }

    #[inline]
    fn observe(&mut self, observation: &Observation) -> Result<(), PolicyFault> {
        self.timed(Capabilities::OBSERVE, |policy| policy.observe(observation))
    }

    /// Zero for a policy in a process of its own: that one is held to its budget while it is waited for, and time in which this
    /// machine had no processor for it does not count.
    #[inline]
    fn took_ns(&self) -> u64 {
        if self.policy.process_id().is_some() { 0 } else { self.took_ns }
    }
}

impl Metered {
    /// Calls a hook. Where the policy does not have it, there is nothing to measure.
    #[inline]
    fn timed<T>(&mut self, hook: Capabilities, call: impl FnOnce(&mut LoadedPolicy) -> T) -> T {
        if !self.policy.has(hook) {
            self.took_ns = 0;
            return call(&mut self.policy);
        }
        let start = Instant::now();
        let answer = call(&mut self.policy);
        self.took_ns = start.elapsed().as_nanos() as u64;
        answer
    }
}
