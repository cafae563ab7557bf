//! What each policy did in its seats: counts, and how long things took.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hdrhistogram::Histogram;
use interlock_policy_api::{Stage, VerdictKind};
use serde::{Deserialize, Serialize};

use super::dump::Outcome;
use crate::host::{Isolation, Origin, PolicyLibrary, Sha256};
use crate::interlock::{Quarantine, Refusal};

/// The policies of one device since the engine started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicePolicyStats {
    /// Index of the device in the engine.
    pub device: u32,
    /// The core the device belongs to.
    pub core: String,
    /// What the core calls the device.
    pub name: String,
    /// Each policy that sat there, the one in the seat last.
    pub policies: Vec<PolicyStats>,
}

/// What one policy did on one device, in all the times it sat there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyStats {
    /// Which policy.
    #[serde(flatten)]
    pub policy: PolicyIdentity,
    /// Whether it is in the seat now.
    pub seated: bool,
    /// How often it took the seat.
    pub times_seated: u64,
    /// Nanoseconds in the seat, in all.
    pub seated_ns: u64,
    /// How often it was asked about a task at a gate, and how long its answers took.
    pub decisions: Distribution,
    /// What it answered.
    pub verdicts: VerdictCounts,
    /// Refused verdicts and failed hooks, by reason. Reasons that did not occur are absent.
    pub refusals: BTreeMap<Refusal, u64>,
    /// Calls that took longer than their budget.
    pub slow: u64,
    /// How long the tasks that went on under it had stood at their gates.
    pub waits: GateWaits,
    /// Why it was quarantined, the last time that it was.
    pub quarantine: Option<QuarantineReport>,
    /// Its own counters: as they are now, or as they were when it left the seat.
    pub counters: BTreeMap<String, u64>,
}

/// Which policy it is: two libraries of one name are two policies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PolicyIdentity {
    /// Its name.
    pub policy: String,
    /// Its version, as its manifest says.
    pub version: String,
    /// Its library; `None` for one that is linked into the program.
    pub library: Option<PathBuf>,
    /// The library's SHA-256.
    pub sha256: Option<Sha256>,
    /// Where its instances run.
    pub isolation: Isolation,
}

/// Verdicts by kind, as the policy gave them: those that were refused are among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictCounts {
    /// To let the task in.
    pub enter: u64,
    /// To let it wait.
    pub wait: u64,
    /// To skip Stage.
    pub skip: u64,
    /// Of a kind the host does not know.
    pub unknown: u64,
    /// No verdict: a panic, or no answer.
    pub none: u64,
}

/// Time at each gate, of the tasks that were let in there, or skipped Stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateWaits {
    /// At the Prepare gate.
    pub prepare: Distribution,
    /// At the Stage gate.
    pub stage: Distribution,
    /// At the Compute gate.
    pub compute: Distribution,
    /// At the Finish gate.
    pub finish: Distribution,
}

/// Durations in nanoseconds. Each is right to 1 %; those above 18 minutes count as 18 minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// Half are at most this.
    pub p50_ns: u64,
    /// 90 of 100 are at most this.
    pub p90_ns: u64,
    /// 99 of 100 are at most this.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// How many there are from half of `below_ns` up to it; empty ones are left out.
    pub buckets: Vec<Bucket>,
}

/// A part of a [`Distribution`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// All in it are shorter than this, a power of two.
    pub below_ns: u64,
    /// How many.
    pub count: u64,
}

/// Why a policy was taken out of its seat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineReport {
    /// Name of the policy.
    pub policy: String,
    /// The reason's short name: see [`Quarantine::code`].
    pub code: String,
    /// What happened and what to do, for people.
    pub sentence: String,
    /// The same for programs.
    pub reason: Quarantine,
    /// Nanoseconds from the engine's start to the quarantine.
    pub at_ns: u64,
    /// The file with what led to it; `None` while it is being written: [`Engine::wait_for_dumps`](super::Engine::wait_for_dumps).
    pub dump: Option<PathBuf>,
    /// Why there is no such file.
    pub dump_error: Option<String>,
}

/// A quarantine whose dump may still be on its way.
#[derive(Clone, Debug)]
pub(super) struct Quarantined {
    report: QuarantineReport,
    dump: Outcome,
}

impl Quarantined {
    pub fn new(report: QuarantineReport, dump: Outcome) -> Self {
        Self { report, dump }
    }

    /// What is known of it by now.
    pub fn report(&self) -> QuarantineReport {
        let (dump, dump_error) = match self.dump.get() {
            None => (None, None),
            Some(Ok(file)) => (Some(file.clone()), None),
            Some(Err(reason)) => (None, Some(reason.clone())),
        };
        QuarantineReport { dump, dump_error, ..self.report.clone() }
    }

    pub fn at_ns(&self) -> u64 {
        self.report.at_ns
    }
}

impl QuarantineReport {
    pub(super) fn new(policy: &str, reason: Quarantine, at_ns: u64) -> Self {
        let sentence = format!("{policy}: {reason}. {}.", reason.advice());
        let (policy, code) = (policy.to_owned(), reason.code().to_owned());
        Self { policy, code, sentence, reason, at_ns, dump: None, dump_error: None }
    }
}

impl PolicyIdentity {
    /// Who a library's instances are.
    pub fn of(library: &PolicyLibrary) -> Self {
        let (path, sha256) = match library.origin() {
            Origin::Linked => (None, None),
            Origin::File { path, sha256 } => (Some(path.clone()), Some(*sha256)),
        };
        let manifest = library.manifest();
        Self {
            policy: manifest.name.clone(),
            version: manifest.version.clone(),
            library: path,
            sha256,
            isolation: library.isolation(),
        }
    }
}

/// The longest duration that is told apart from longer ones, in nanoseconds: about 18 minutes.
const LONGEST_NS: u64 = 1 << 40;

/// Durations as they are recorded: constant space, a few nanoseconds a record.
#[derive(Clone, Debug)]
pub(super) struct Durations(Histogram<u64>);

impl Durations {
    pub fn new() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("the bounds are good"))
    }

    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    pub fn distribution(&self) -> Distribution {
        let Self(histogram) = self;
        let mut buckets: Vec<Bucket> = Vec::new();
        for step in histogram.iter_recorded() {
            let below_ns = step.value_iterated_to().saturating_add(1).next_power_of_two();
            let count = step.count_since_last_iteration();
            match buckets.last_mut() {
                Some(last) if last.below_ns == below_ns => last.count += count,
                _ => buckets.push(Bucket { below_ns, count }),
            }
        }
        Distribution {
            count: histogram.len(),
            mean_ns: histogram.mean() as u64,
            p50_ns: histogram.value_at_quantile(0.5),
            p90_ns: histogram.value_at_quantile(0.9),
            p99_ns: histogram.value_at_quantile(0.99),
            max_ns: histogram.max(),
            buckets,
        }
    }
}

/// What is written down about one policy on one device.
#[derive(Debug)]
pub(super) struct Tally {
    pub identity: PolicyIdentity,
    pub times_seated: u64,
    /// Nanoseconds in the seat, without the time since it was last seated.
    pub seated_before_ns: u64,
    pub latency: Durations,
    pub verdicts: VerdictCounts,
    pub refusals: BTreeMap<Refusal, u64>,
    pub slow: u64,
    pub waits: [Durations; 4],
    pub quarantine: Option<Quarantined>,
    pub counters: BTreeMap<String, u64>,
}

impl Tally {
    pub fn new(identity: PolicyIdentity) -> Self {
        Self {
            identity,
            times_seated: 0,
            seated_before_ns: 0,
            latency: Durations::new(),
            verdicts: VerdictCounts::default(),
            refusals: BTreeMap::new(),
            slow: 0,
            waits: std::array::from_fn(|_| Durations::new()),
            quarantine: None,
            counters: BTreeMap::new(),
        }
    }

    #[inline]
    pub fn count_verdict(&mut self, kind: Option<VerdictKind>) {
        let counts = &mut self.verdicts;
        let count = match kind {
            Some(VerdictKind::ENTER) => &mut counts.enter,
            Some(VerdictKind::WAIT) => &mut counts.wait,
            Some(VerdictKind::SKIP) => &mut counts.skip,
            Some(_) => &mut counts.unknown,
            None => &mut counts.none,
        };
        *count += 1;
    }

    pub fn count_refusal(&mut self, refusal: Refusal) {
        *self.refusals.entry(refusal).or_default() += 1;
    }

    pub fn waited(&mut self, gate: Stage, ns: u64) {
        self.waits[gate.index()].record(ns);
    }

    /// The figures, for a policy that has been in the seat for `seated_ns` since it was last seated; `None` when it is not there.
    pub fn stats(&self, seated_ns: Option<u64>) -> PolicyStats {
        let [prepare, stage, compute, finish] = self.waits.each_ref().map(Durations::distribution);
        PolicyStats {
            policy: self.identity.clone(),
            seated: seated_ns.is_some(),
            times_seated: self.times_seated,
            seated_ns: self.seated_before_ns + seated_ns.unwrap_or(0),
            decisions: self.latency.distribution(),
            verdicts: self.verdicts,
            refusals: self.refusals.clone(),
            slow: self.slow,
            waits: GateWaits { prepare, stage, compute, finish },
            quarantine: self.quarantine.as_ref().map(Quarantined::report),
            counters: self.counters.clone(),
        }
    }
}
