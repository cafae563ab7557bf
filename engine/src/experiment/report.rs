//! What an experiment came to: the schema of `interlock ab --json`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hdrhistogram::Histogram;
use interlock_experiment::{Better, Comparison, Interval, Verdict};
use serde::{Deserialize, Serialize};

use super::arm::{Arm, letter};
use super::energy::Energy;
use super::load::Load;
use super::machine::Machine;
use super::run::{LockSeconds, RunFigures};
use super::series::{ArmRuns, Metric, Rounds};
use crate::report::{PlanReport, StatementReport};

/// Everything about one experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExperimentReport {
    /// Version of this shape: 1.
    pub schema: u32,
    /// The first comparison by the figure that decides: `B` against `A`. `None` when an arm failed before it could be made.
    pub verdict: Option<Verdict>,
    /// Version of the program.
    pub version: String,
    /// When it ended, in UTC, as RFC 3339.
    pub ended: String,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// The configuration, if there was one.
    pub config: Option<PathBuf>,
    /// What was left to chance came from this.
    pub seed: u64,
    /// The machine.
    pub machine: Machine,
    /// What was proved.
    pub work: WorkReport,
    /// The figure that decides.
    pub metric: String,
    /// The difference that was to be seen, as a share.
    pub detect: f64,
    /// Rounds that were run.
    pub rounds: usize,
    /// Rounds that would be enough by what was seen; `rounds` when they were.
    pub rounds_needed: usize,
    /// Why it ended.
    pub stopped: StopReason,
    /// How long it took.
    pub elapsed_s: f64,
    /// The arms, in order.
    pub arms: Vec<ArmReport>,
    /// Each arm against the first one that did not fail, by each figure.
    pub comparisons: Vec<ComparisonReport>,
    /// Conditions of `--fail-if`, and whether each holds.
    pub conditions: Vec<ConditionReport>,
}

/// What was proved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkReport {
    /// The statement, as it was named on the command line.
    pub name: String,
    /// SHA-256 of the verifying key and of what the partitions are called: the same for the same work.
    pub fingerprint: String,
    /// Partitions of a job.
    pub partitions: usize,
    /// The circuit in numbers.
    pub statement: StatementReport,
    /// What each run sends.
    pub load: Load,
}

/// Why an experiment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A difference of the size that was asked for would have been seen.
    Enough,
    /// Its time was over.
    Budget,
    /// All rounds that it was allowed were run.
    Rounds,
    /// Somebody stopped it.
    Stopped,
    /// Fewer than two arms were left.
    ArmsFailed,
}

/// One arm.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ArmReport {
    /// `A`, `B`, …: as conditions name it.
    pub arm: String,
    /// The policy.
    pub policy: String,
    /// Its options as they were written; empty for the defaults.
    pub options: String,
    /// The core.
    pub core: String,
    /// Device workers of each device.
    pub workers: u32,
    /// Bytes to which its devices were limited, where the arm says so.
    pub vram_limit: Option<u64>,
    /// What a task plans to need.
    pub plan: PlanReport,
    /// Why it was taken out, if it was.
    pub failed: Option<String>,
    /// Its figures over all rounds; `None` when it failed in the first.
    pub figures: Option<MeanFigures>,
    /// Its figures in each round.
    pub rounds: Vec<RoundFigures>,
}

/// Figures of one arm over all rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeanFigures {
    /// Mean of the rounds.
    pub proofs_per_s: f64,
    /// Proofs that were measured, in all rounds.
    pub proofs: u64,
    /// Latencies of all jobs of all rounds.
    pub latency_s: Latencies,
    /// Mean of the rounds.
    pub device_busy: f64,
    /// Mean of the rounds in which something was staged ahead.
    pub overlap: Option<f64>,
    /// Means of the rounds in which it is known.
    pub energy: Option<Energy>,
    /// Why it is known of no round, where a driver tells it: what the first one says.
    pub energy_unknown: Option<String>,
    /// Means of the rounds.
    pub locks: BTreeMap<String, LockSeconds>,
    /// Mean of the rounds.
    pub skips: f64,
    /// Mean of the rounds.
    pub waits: f64,
    /// All rounds together.
    pub refused: u64,
    /// The most of any round.
    pub peak_reserved_bytes: u64,
    /// The most of any round, where the system tells.
    pub peak_rss_bytes: Option<u64>,
}

/// Latencies of jobs, in seconds, to three digits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// Figures of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoundFigures {
    /// Number of the round, from 0.
    pub round: usize,
    /// What the run came to.
    #[serde(flatten)]
    pub figures: RunFigures,
}

/// One arm held against another by one figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComparisonReport {
    /// The arm that the other is held against.
    pub baseline: String,
    /// The arm of which the verdict speaks.
    pub candidate: String,
    /// The figure.
    pub metric: String,
    /// Which way it is good.
    pub better: Better,
    /// Whether it is the figure that decides.
    pub primary: bool,
    /// Rounds in which both have it.
    pub rounds: usize,
    /// Candidate over baseline, with its 95% interval.
    pub ratio: Interval,
    /// Candidate minus baseline, with its 95% interval, in the figure's unit.
    pub difference: Interval,
    /// What it comes to.
    pub verdict: Verdict,
    /// The smallest difference, as a share, that would have been seen in 80 of 100 such experiments.
    pub detectable: f64,
}

/// A condition of `--fail-if`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionReport {
    /// As it was given.
    pub condition: String,
    /// Whether it holds; `None` when a figure that it names is not known.
    pub holds: Option<bool>,
}

impl ComparisonReport {
    /// What a comparison comes to, with who was compared.
    pub(super) fn new(
        metric: Metric,
        primary: bool,
        baseline: String,
        candidate: String,
        compared: Comparison,
    ) -> Self {
        Self {
            baseline,
            candidate,
            metric: metric.name().to_owned(),
            better: metric.better(),
            primary,
            rounds: compared.rounds,
            ratio: compared.ratio,
            difference: compared.difference,
            verdict: compared.verdict,
            detectable: compared.detectable,
        }
    }
}

impl ExperimentReport {
    /// The number that goes into [`ExperimentReport::schema`].
    pub const SCHEMA: u32 = 1;

    /// Whether an arm failed.
    pub fn has_failed_arm(&self) -> bool {
        self.arms.iter().any(|arm| arm.failed.is_some())
    }

    /// The figures of all arms that have some, as conditions see them.
    pub fn condition_figures(&self) -> BTreeMap<String, BTreeMap<String, f64>> {
        let with_figures =
            self.arms.iter().filter_map(|arm| Some((arm.arm.clone(), arm.figures.as_ref()?.by_name())));
        with_figures.collect()
    }
}

/// What conditions may name, with figures of no meaning: to try them out. For each arm, whether a driver tells the energy of its
/// devices.
pub fn condition_names(arms: &[bool]) -> BTreeMap<String, BTreeMap<String, f64>> {
    let latency_s = Latencies { p50: 1.0, p95: 1.0, p99: 1.0, max: 1.0 };
    let energy = Energy { joules: 1.0, joules_per_proof: 1.0, mean_watts: 1.0 };
    let figures = |with_energy: &bool| MeanFigures {
        proofs_per_s: 1.0,
        proofs: 1,
        latency_s,
        device_busy: 1.0,
        overlap: None,
        energy: with_energy.then_some(energy),
        energy_unknown: None,
        locks: BTreeMap::new(),
        skips: 0.0,
        waits: 0.0,
        refused: 0,
        peak_reserved_bytes: 1,
        peak_rss_bytes: None,
    };
    let arm = |(index, with_energy)| (letter(index), figures(with_energy).by_name());
    arms.iter().enumerate().map(arm).collect()
}

impl MeanFigures {
    /// The figures by the names that conditions use. What is not known has no name: a condition on it cannot be worked out.
    pub fn by_name(&self) -> BTreeMap<String, f64> {
        let figures = [
            ("proofs_per_s", self.proofs_per_s),
            ("proofs", self.proofs as f64),
            ("latency_p50_s", self.latency_s.p50),
            ("latency_p95_s", self.latency_s.p95),
            ("latency_p99_s", self.latency_s.p99),
            ("latency_max_s", self.latency_s.max),
            ("device_busy", self.device_busy),
            ("overlap", self.overlap.unwrap_or(0.0)),
            ("lock_wait_s", self.locks.values().map(|lock| lock.waited_s).sum()),
            ("lock_hold_s", self.locks.values().map(|lock| lock.held_s).sum()),
            ("skips", self.skips),
            ("waits", self.waits),
            ("refused", self.refused as f64),
            ("peak_reserved_bytes", self.peak_reserved_bytes as f64),
            ("peak_rss_bytes", self.peak_rss_bytes.unwrap_or(0) as f64),
        ];
        let energy = self
            .energy
            .map(|energy| [("joules_per_proof", energy.joules_per_proof), ("mean_watts", energy.mean_watts)]);
        figures
            .into_iter()
            .chain(energy.into_iter().flatten())
            .map(|(name, figure)| (name.to_owned(), figure))
            .collect()
    }

    fn of(rounds: &[(usize, RunFigures)]) -> Option<Self> {
        if rounds.is_empty() {
            return None;
        }
        let runs = || rounds.iter().map(|(_, figures)| figures);
        let mean = |of: fn(&RunFigures) -> f64| runs().map(of).sum::<f64>() / rounds.len() as f64;
        let energy = mean_energy(rounds);
        Some(Self {
            proofs_per_s: mean(|run| run.proofs_per_s),
            proofs: runs().map(|run| run.proofs).sum(),
            latency_s: Latencies::of(runs().flat_map(|run| &run.latencies_s)),
            device_busy: mean(|run| run.device_busy),
            overlap: mean_of(runs().filter_map(|run| run.overlap)),
            energy_unknown: match energy {
                Some(_) => None,
                None => runs().find_map(|run| run.energy_unknown.clone()),
            },
            energy,
            locks: mean_locks(rounds),
            skips: mean(|run| run.skips as f64),
            waits: mean(|run| run.waits as f64),
            refused: runs().map(|run| run.refused).sum(),
            peak_reserved_bytes: runs().map(|run| run.peak_reserved_bytes).max().unwrap_or(0),
            peak_rss_bytes: runs().filter_map(|run| run.peak_rss_bytes).max(),
        })
    }
}

fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

fn mean_energy(rounds: &[(usize, RunFigures)]) -> Option<Energy> {
    let mean = |of: fn(Energy) -> f64| mean_of(rounds.iter().filter_map(|(_, run)| run.energy.map(of)));
    Some(Energy {
        joules: mean(|energy| energy.joules)?,
        joules_per_proof: mean(|energy| energy.joules_per_proof)?,
        mean_watts: mean(|energy| energy.mean_watts)?,
    })
}

fn mean_locks(rounds: &[(usize, RunFigures)]) -> BTreeMap<String, LockSeconds> {
    let mut locks: BTreeMap<String, LockSeconds> = BTreeMap::new();
    for (name, seconds) in rounds.iter().flat_map(|(_, run)| &run.locks) {
        let sum = locks.entry(name.clone()).or_default();
        sum.held_s += seconds.held_s / rounds.len() as f64;
        sum.waited_s += seconds.waited_s / rounds.len() as f64;
    }
    locks
}

impl Latencies {
    fn of<'a>(seconds: impl Iterator<Item = &'a f64>) -> Self {
        let mut histogram = Histogram::<u64>::new(3).expect("three digits can be had");
        for seconds in seconds {
            // A histogram that grows takes every value.
            let _ = histogram.record((seconds * 1e9) as u64);
        }
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e9;
        Self { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: histogram.max() as f64 / 1e9 }
    }
}

impl ArmReport {
    /// What became of an arm.
    pub fn of(index: usize, arm: &Arm, plan: PlanReport, runs: &ArmRuns) -> Self {
        let rounds = runs.rounds.iter();
        Self {
            arm: letter(index),
            policy: arm.policy.name().to_owned(),
            options: arm.options.clone(),
            core: arm.core.name().to_owned(),
            workers: arm.workers,
            vram_limit: arm.vram_limit,
            plan,
            failed: runs.failed.as_ref().map(ToString::to_string),
            figures: MeanFigures::of(&runs.rounds),
            rounds: rounds
                .map(|(round, figures)| RoundFigures { round: *round, figures: figures.clone() })
                .collect(),
        }
    }
}

/// Each arm against the first one that did not fail, by each figure; by `primary` first.
pub fn comparisons(rounds: &Rounds, primary: Metric) -> Vec<ComparisonReport> {
    let usable: Vec<usize> =
        (0..rounds.arms.len()).filter(|arm| rounds.arms[*arm].failed.is_none()).collect();
    let Some((baseline, candidates)) = usable.split_first() else { return Vec::new() };
    let metrics = [primary].into_iter().chain(Metric::ALL.into_iter().filter(|metric| *metric != primary));
    let reports = metrics.flat_map(|metric| candidates.iter().map(move |candidate| (metric, *candidate)));
    let report = |(metric, candidate): (Metric, usize)| {
        let compared = metric.compare(&rounds.arms[*baseline], &rounds.arms[candidate], candidates.len())?;
        let (baseline, candidate) = (letter(*baseline), letter(candidate));
        Some(ComparisonReport::new(metric, metric == primary, baseline, candidate, compared))
    };
    reports.filter_map(report).collect()
}
