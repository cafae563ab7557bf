//! What the arbiter counts.

use std::collections::BTreeMap;

use super::Refusal;

/// Counters of one arbiter since it was made, or since they were last taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Counters {
    /// Stages entered, by stage ([`Stage::index`](interlock_policy_api::Stage::index)).
    pub grants: [u64; 4],
    /// Tasks that the policy let skip Stage.
    pub skips: u64,
    /// `Wait` verdicts.
    pub waits: u64,
    /// Refused verdicts and failed hooks, by reason. Reasons that did not occur are absent.
    pub refusals: BTreeMap<Refusal, u64>,
    /// Calls of the policy that took longer than their budget.
    pub slow: u64,
    /// Policies quarantined.
    pub quarantines: u64,
    /// The most device bytes that tasks held at once.
    pub peak_reserved_bytes: u64,
    /// Tasks that went through Finish.
    pub finished: u64,
    /// Tasks that left because a stage failed.
    pub failed: u64,
    /// Tasks that were given up at a gate.
    pub cancelled: u64,
}
