//! The figures of a run.

use std::collections::BTreeMap;

use interlock_arbiter::Refusal;
use interlock_policy_api::Stage;
use serde::Serialize;

/// All figures of a scenario, a policy each.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Version of this shape: 1. It grows when a field changes its meaning or goes away.
    pub schema: u32,
    /// What all random numbers came from.
    pub seed: u64,
    /// In the order in which they were asked for.
    pub policies: Vec<PolicyFigures>,
}

impl Figures {
    /// The number that goes into [`Figures::schema`].
    pub const SCHEMA: u32 = 1;
}

/// What a policy made of a scenario. Times are virtual, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyFigures {
    /// Name of the policy.
    pub name: String,
    /// Jobs of which every partition was proved. A proof here is a job with all its partitions.
    pub proofs: u64,
    /// Jobs that lack a partition.
    pub failed: u64,
    /// Partitions that were proved.
    pub partitions: u64,
    /// From the start to the end of the last job.
    pub makespan_s: f64,
    /// `makespan_s` by `proofs`; `None` where there are none.
    pub seconds_per_proof: Option<f64>,
    /// `proofs` by `makespan_s`.
    pub proofs_per_s: f64,
    /// `partitions` by `makespan_s`.
    pub partitions_per_s: f64,
    /// From a job's arrival to its end.
    pub latency_s: Spread,
    /// From the begin of a partition's synthesis to its end.
    pub partition_latency_s: Spread,
    /// Allocations for which the device had no memory, whatever had been planned.
    pub out_of_memory: u64,
    /// When the first of them was.
    pub first_out_of_memory_s: Option<f64>,
    /// `Skip` verdicts.
    pub skips: u64,
    /// Computes that uploaded first: of tasks that skipped, and of tasks that were tried again.
    pub inline: u64,
    /// Attempts that failed, other than by the loss of a device.
    pub failures: u64,
    /// Tasks that were tried again on the same device.
    pub retries: u64,
    /// Tasks that went to the CPU core.
    pub fallbacks: u64,
    /// `Wait` verdicts.
    pub waits: u64,
    /// Refused verdicts, by reason.
    pub refused: BTreeMap<Refusal, u64>,
    /// Policies that were taken out of their seat.
    pub quarantines: Vec<Quarantined>,
    /// All times at each gate together.
    pub gate_wait_s: BTreeMap<&'static str, f64>,
    /// All times together that tasks stood at a gate where they took a lock.
    pub lock_wait_s: f64,
    /// The same by lock. Where a gate takes several, the time counts for each.
    pub lock_waits_s: BTreeMap<String, f64>,
    /// Mean time of each stage that ended well; Compute without an upload, and `Compute inline` with one.
    pub stage_s: BTreeMap<&'static str, f64>,
    /// Part of the makespan in which a device had a task in Compute, mean of the devices.
    pub device_busy: f64,
    /// Part of the makespan in which a device ran kernels, likewise.
    pub kernels_busy: f64,
    /// The devices.
    pub devices: Vec<DeviceFigures>,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceFigures {
    /// Its index.
    pub device: u32,
    /// The policy that has its seat at the end.
    pub policy: String,
    /// Part of the makespan in which it had a task in Compute.
    pub busy: f64,
    /// Part of the makespan in which it ran kernels.
    pub kernels_busy: f64,
    /// Its memory.
    pub capacity_bytes: u64,
    /// The most that tasks had reserved at once.
    pub peak_reserved_bytes: u64,
    /// The most that tasks took at once.
    pub peak_taken_bytes: u64,
    /// It was lost.
    pub lost: bool,
    /// What its policy counted by itself.
    pub policy_stats: BTreeMap<String, u64>,
}

/// A policy that was taken out of its seat.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quarantined {
    /// Its name.
    pub policy: String,
    /// On which device.
    pub device: u32,
    /// When.
    pub at_s: f64,
    /// Why, for programs.
    pub code: &'static str,
    /// Why, for people.
    pub sentence: String,
}

/// How times are spread. All but the mean are times that occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Their mean.
    pub mean: f64,
    /// Half of them are no longer.
    pub median: f64,
    /// Nineteen of twenty are no longer.
    pub p95: f64,
    /// The longest.
    pub max: f64,
}

impl Spread {
    fn of(mut times_ns: Vec<u64>) -> Self {
        times_ns.sort_unstable();
        let at = |percent: usize| {
            let rank = (times_ns.len() * percent).div_ceil(100).max(1);
            times_ns.get(rank - 1).map_or(0.0, |ns| seconds(*ns))
        };
        let sum: u128 = times_ns.iter().map(|ns| u128::from(*ns)).sum();
        let mean = if times_ns.is_empty() { 0.0 } else { sum as f64 / 1e9 / times_ns.len() as f64 };
        Self { mean, median: at(50), p95: at(95), max: at(100) }
    }
}

/// What is counted while a run goes on.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub retries: u64,
    pub fallbacks: u64,
    partitions: u64,
    failures: u64,
    out_of_memory: u64,
    first_out_of_memory_ns: Option<u64>,
    proofs: u64,
    failed: u64,
    last_end_ns: u64,
    latencies_ns: Vec<u64>,
    partition_latencies_ns: Vec<u64>,
    gate_wait_ns: [u64; 4],
    lock_wait_ns: u64,
    /// Count and sum of the four stages, and of Compute with an upload.
    stages: [(u64, u64); 5],
}

/// Names of the entries of [`Tally::stages`].
const STAGES: [&str; 5] = ["Prepare", "Stage", "Compute", "Finish", "Compute inline"];
const INLINE: usize = 4;

impl Tally {
    pub fn waited(&mut self, gate: Stage, waited_ns: u64, takes_lock: bool) {
        self.lock_wait_ns += if takes_lock { waited_ns } else { 0 };
        self.gate_wait_ns[gate.index()] += waited_ns;
    }

    pub fn ran(&mut self, stage: Stage, inline: bool, ran_ns: u64) {
        let index = if stage == Stage::COMPUTE && inline { INLINE } else { stage.index() };
        let (count, sum) = &mut self.stages[index];
        *count += 1;
        *sum += ran_ns;
    }

    pub fn failed(&mut self) {
        self.failures += 1;
    }

    pub fn out_of_memory(&mut self, now_ns: u64) {
        self.out_of_memory += 1;
        self.first_out_of_memory_ns.get_or_insert(now_ns);
    }

    pub fn task_ended(&mut self, latency_ns: u64, proved: bool) {
        self.partitions += u64::from(proved);
        self.partition_latencies_ns.push(latency_ns);
    }

    pub fn job_ended(&mut self, now_ns: u64, latency_ns: u64, proved: bool) {
        self.last_end_ns = now_ns;
        self.latencies_ns.push(latency_ns);
        if proved {
            self.proofs += 1;
        } else {
            self.failed += 1;
        }
    }

    /// The figures, as far as the tally has them.
    pub fn figures(self, name: &str, devices: Vec<DeviceFigures>) -> PolicyFigures {
        let makespan_s = seconds(self.last_end_ns);
        let per_s = |count: u64| if makespan_s > 0.0 { count as f64 / makespan_s } else { 0.0 };
        let mean =
            |of: fn(&DeviceFigures) -> f64| devices.iter().map(of).sum::<f64>() / devices.len().max(1) as f64;
        let gates = Stage::ALL.iter().zip(self.gate_wait_ns);
        let stages = STAGES.iter().zip(self.stages).filter(|(_, (count, _))| *count > 0);
        PolicyFigures {
            name: name.to_owned(),
            proofs: self.proofs,
            failed: self.failed,
            partitions: self.partitions,
            makespan_s,
            seconds_per_proof: (self.proofs > 0).then(|| makespan_s / self.proofs as f64),
            proofs_per_s: per_s(self.proofs),
            partitions_per_s: per_s(self.partitions),
            latency_s: Spread::of(self.latencies_ns),
            partition_latency_s: Spread::of(self.partition_latencies_ns),
            out_of_memory: self.out_of_memory,
            first_out_of_memory_s: self.first_out_of_memory_ns.map(seconds),
            skips: 0,
            inline: self.stages[INLINE].0,
            failures: self.failures,
            retries: self.retries,
            fallbacks: self.fallbacks,
            waits: 0,
            refused: BTreeMap::new(),
            quarantines: Vec::new(),
            gate_wait_s: gates.filter_map(|(gate, ns)| Some((gate.name()?, seconds(ns)))).collect(),
            lock_wait_s: seconds(self.lock_wait_ns),
            lock_waits_s: BTreeMap::new(),
            stage_s: stages.map(|(name, (count, sum))| (*name, seconds(sum) / count as f64)).collect(),
            device_busy: mean(|device| device.busy),
            kernels_busy: mean(|device| device.kernels_busy),
            devices,
        }
    }

    pub fn last_end_ns(&self) -> u64 {
        self.last_end_ns
    }
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
