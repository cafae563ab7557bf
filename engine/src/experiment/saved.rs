//! Two experiments of other days held against each other.

use std::collections::BTreeSet;

use interlock_experiment::compare_apart;
use serde::Serialize;

use super::report::{ArmReport, ComparisonReport, ExperimentReport};
use super::series::Metric;

/// What two saved experiments come to.
#[derive(Clone, Debug, Serialize)]
pub struct SavedComparison {
    /// Version of this shape: 1.
    pub schema: u32,
    /// In what the experiments differ, and should not.
    pub differences: Vec<String>,
    /// Arms that are in both: the second experiment's against the first's, by each figure. Arms are named as each experiment names them.
    pub comparisons: Vec<ComparisonReport>,
    /// Arms that are in one of them only.
    pub unmatched: Vec<String>,
}

/// In what two experiments differ that makes their figures tell of something else than their arms.
pub fn differences(first: &ExperimentReport, second: &ExperimentReport) -> Vec<String> {
    let mut differences = Vec::new();
    let mut differ = |what: &str, first: String, second: String| {
        if first != second {
            differences.push(format!("{what}: {first} and {second}"));
        }
    };
    let (one, other) = (&first.work, &second.work);
    differ("work", one.fingerprint.clone(), other.fingerprint.clone());
    differ("partitions of a job", one.partitions.to_string(), other.partitions.to_string());
    let load = |report: &ExperimentReport| {
        let load = report.work.load;
        format!("{} jobs a run after {} of warm-up, {}", load.jobs, load.warm_up, load.arrivals)
    };
    differ("load", load(first), load(second));
    let (one, other) = (&first.machine, &second.machine);
    differ("processor", one.processor.clone(), other.processor.clone());
    differ("threads", one.threads.to_string(), other.threads.to_string());
    differ("memory", one.memory_bytes.to_string(), other.memory_bytes.to_string());
    differ("kernel", one.kernel.clone(), other.kernel.clone());
    differ("devices", one.devices.join(", "), other.devices.join(", "));
    differences
}

/// Holds the arms of `second` against the same ones of `first`: those of the same policy, options, core, workers and limit.
pub fn compare_saved(first: &ExperimentReport, second: &ExperimentReport) -> SavedComparison {
    let usable = |arm: &&ArmReport| arm.failed.is_none();
    let mut left: Vec<&ArmReport> = second.arms.iter().filter(usable).collect();
    let (mut pairs, mut unmatched) = (Vec::new(), Vec::new());
    for arm in first.arms.iter().filter(usable) {
        match left.iter().position(|other| is_same(arm, other)) {
            Some(at) => pairs.push((arm, left.remove(at))),
            None => unmatched.push(format!("{} of the first: {}", arm.arm, arm.policy)),
        }
    }
    unmatched.extend(left.iter().map(|arm| format!("{} of the second: {}", arm.arm, arm.policy)));
    let primary = Metric::primary(second.work.load.arrivals);
    let mut seen = BTreeSet::new();
    let metrics = [primary].into_iter().chain(Metric::ALL).filter(|metric| seen.insert(metric.name()));
    let all = metrics.flat_map(|metric| pairs.iter().map(move |(first, second)| (metric, *first, *second)));
    let comparisons = all.filter_map(|(metric, first, second)| {
        compared(metric, metric == primary, first, second, pairs.len())
    });
    SavedComparison {
        schema: 1,
        differences: differences(first, second),
        comparisons: comparisons.collect(),
        unmatched,
    }
}

fn is_same(one: &ArmReport, other: &ArmReport) -> bool {
    (&one.policy, &one.options, &one.core, one.workers, one.vram_limit)
        == (&other.policy, &other.options, &other.core, other.workers, other.vram_limit)
}

fn compared(
    metric: Metric,
    primary: bool,
    first: &ArmReport,
    second: &ArmReport,
    comparisons: usize,
) -> Option<ComparisonReport> {
    let figures = |arm: &ArmReport| -> Vec<f64> {
        arm.rounds.iter().filter_map(|round| metric.of(&round.figures)).collect()
    };
    let comparison = compare_apart(&figures(first), &figures(second), metric.better(), comparisons)?;
    let name = |arm: &ArmReport, which: &str| format!("{} of the {which}", arm.arm);
    Some(ComparisonReport::new(metric, primary, name(first, "first"), name(second, "second"), comparison))
}
