//! An experiment for people, and as CSV.

use std::fmt::Write as _;
use std::io;

use interlock_experiment::Verdict;
use interlock_settings::units::bytes;

use crate::experiment::{
    ArmReport, ComparisonReport, Energy, ExperimentReport, LockSeconds, MeanFigures, SavedComparison,
    StopReason,
};

/// The experiment as text: the verdict first.
pub fn render_experiment(report: &ExperimentReport) -> String {
    let mut text = String::new();
    for comparison in report.comparisons.iter().filter(|comparison| comparison.primary) {
        text += &format!("{}\n", sentence(report, comparison));
    }
    text += &format!("{}\n\n", ending(report));
    for arm in &report.arms {
        // Writing to a String cannot fail.
        let _ = write_arm(&mut text, arm);
    }
    if !report.comparisons.is_empty() {
        text += "\ncandidate over baseline, with 95% intervals:\n";
    }
    report.comparisons.iter().for_each(|comparison| text += &line(comparison));
    for condition in &report.conditions {
        let holds = match condition.holds {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "could not be worked out: a figure is not known",
        };
        let _ = writeln!(text, "fail if {}: {holds}", condition.condition);
    }
    text
}

/// What two experiments of other days come to.
pub fn render_saved_comparison(compared: &SavedComparison) -> String {
    let mut text = String::new();
    for difference in &compared.differences {
        text += &format!("NOT THE SAME: {difference}\n");
    }
    for arm in &compared.unmatched {
        text += &format!("in one of them only: {arm}\n");
    }
    if compared.comparisons.is_empty() {
        return text + "no arm is in both with figures of two rounds or more\n";
    }
    text += "second over first, with 95% intervals:\n";
    compared.comparisons.iter().for_each(|comparison| text += &line(comparison));
    text
}

/// A comparison on one line.
fn line(comparison: &ComparisonReport) -> String {
    let ComparisonReport { candidate, baseline, metric, ratio, .. } = comparison;
    format!(
        "  {metric:16} {candidate} / {baseline} {} [{}, {}]  {}; {}\n",
        ratio_text(ratio.estimate),
        ratio_text(ratio.low),
        ratio_text(ratio.high),
        words(comparison),
        seen(comparison),
    )
}

/// A ratio; what is beyond a thousandfold either way says only that too little is known.
pub(super) fn ratio_text(ratio: f64) -> String {
    match ratio {
        ratio if ratio > 1000.0 => "over 1000".to_owned(),
        ratio if ratio < 0.001 => "under 0.001".to_owned(),
        ratio => format!("{ratio:.4}"),
    }
}

/// Which difference would have been seen.
pub(super) fn seen(comparison: &ComparisonReport) -> String {
    if comparison.detectable <= 1.0 {
        format!("{:.1}% would have been seen", comparison.detectable * 100.0)
    } else {
        "too few rounds to see any".to_owned()
    }
}

/// The verdict of a comparison, with a word where the interval beside it says more than a verdict may.
pub(super) fn words(comparison: &ComparisonReport) -> String {
    let hint = comparison.verdict == Verdict::NoDifference && !comparison.ratio.contains(1.0);
    format!("{}{}", verdict(comparison.verdict), if hint { ", a hint" } else { "" })
}

/// A verdict in words.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NoDifference => "no difference seen",
    }
}

/// What one comparison by the deciding figure comes to, as a sentence.
pub fn sentence(report: &ExperimentReport, comparison: &ComparisonReport) -> String {
    let name = |letter: &str| {
        let arm = report.arms.iter().find(|arm| arm.arm == letter);
        arm.map_or(letter.to_owned(), |arm| format!("{letter} ({})", arm_name(arm)))
    };
    let (candidate, baseline) = (name(&comparison.candidate), name(&comparison.baseline));
    let percent = |ratio: f64| match ratio {
        ratio if ratio > 1000.0 => "any number".to_owned(),
        ratio => format!("{:+.1}%", (ratio - 1.0) * 100.0),
    };
    let ratio = comparison.ratio;
    let range = format!("{} ({} to {})", percent(ratio.estimate), percent(ratio.low), percent(ratio.high));
    let metric = metric_name(&comparison.metric);
    match comparison.verdict {
        Verdict::Better => format!("{candidate} is better than {baseline}: {metric} {range}"),
        Verdict::Worse => format!("{candidate} is worse than {baseline}: {metric} {range}"),
        Verdict::NoDifference => {
            let hint = if ratio.contains(1.0) {
                ""
            } else {
                "; a hint: this 95% interval leaves out no difference, the 99% one that a verdict needs does not"
            };
            let seen = seen(comparison);
            format!("no difference seen between {candidate} and {baseline}: {metric} {range}; {seen}{hint}")
        }
    }
}

/// A figure as people call it.
pub(super) fn metric_name(metric: &str) -> &str {
    match metric {
        "proofs_per_s" => "proofs per second",
        "latency_p50_s" => "job latency, median",
        "latency_p95_s" => "job latency, p95",
        "joules_per_proof" => "joules a proof",
        other => other,
    }
}

/// An arm by its policy and by that in which it differs from others.
pub(super) fn short_name(report: &ExperimentReport, arm: &ArmReport) -> String {
    let differ = |same: &dyn Fn(&ArmReport) -> bool| !report.arms.iter().all(same);
    let mut name = format!("{} {}{}", arm.arm, arm.policy, arm.options);
    if differ(&|other| other.core == arm.core) {
        name += &format!(", {}", arm.core);
    }
    if differ(&|other| other.workers == arm.workers) {
        name += &format!(", {} workers", arm.workers);
    }
    if let Some(limit) = arm.vram_limit.filter(|_| differ(&|other| other.vram_limit == arm.vram_limit)) {
        name += &format!(", {}", bytes(limit));
    }
    name
}

/// An arm by what it is: its policy, and what else was said.
pub fn arm_name(arm: &ArmReport) -> String {
    format!("{}{}, {} core, {} workers", arm.policy, arm.options, arm.core, arm.workers)
        + &arm.vram_limit.map_or(String::new(), |limit| format!(", {}", bytes(limit)))
}

/// Why the experiment ended, as a sentence.
pub fn ending(report: &ExperimentReport) -> String {
    let run = format!("{} rounds in {:.0} s", report.rounds, report.elapsed_s);
    let detect = report.detect * 100.0;
    let more = format!("about {} rounds would show a difference of {detect}%", report.rounds_needed);
    match report.stopped {
        StopReason::Enough => format!("{run}: enough to see a difference of {detect}%"),
        StopReason::Budget => format!("{run}: the time was over; {more}"),
        StopReason::Rounds => format!("{run}, all that were allowed; {more}"),
        StopReason::Stopped => format!("{run}, then it was stopped; {more}"),
        StopReason::ArmsFailed => format!("{run}: fewer than two arms are left"),
    }
}

fn write_arm(text: &mut String, arm: &ArmReport) -> std::fmt::Result {
    writeln!(text, "{} {}", arm.arm, arm_name(arm))?;
    if let Some(failed) = &arm.failed {
        writeln!(text, "  FAILED after {} rounds: {failed}", arm.rounds.len())?;
    }
    let Some(figures) = &arm.figures else { return Ok(()) };
    let latency = figures.latency_s;
    writeln!(
        text,
        "  {:.3} partition proofs/s; job latency p50 {:.3} s, p95 {:.3} s, p99 {:.3} s; skips {:.1}, waits {:.1}, refused {}",
        figures.proofs_per_s,
        latency.p50,
        latency.p95,
        latency.p99,
        figures.skips,
        figures.waits,
        figures.refused,
    )?;
    let overlap = figures.overlap.map_or("nothing staged ahead".to_owned(), |share| {
        format!("{:.0}% of staging overlapped", share * 100.0)
    });
    writeln!(text, "  device busy {:.1}%, {overlap}{}", figures.device_busy * 100.0, locks(figures))?;
    write!(text, "  peak reserved {}", bytes(figures.peak_reserved_bytes))?;
    if let Some(peak) = figures.peak_rss_bytes {
        write!(text, ", peak resident {}", bytes(peak))?;
    }
    writeln!(text)?;
    if let Some(energy) = figures.energy {
        let Energy { joules_per_proof, mean_watts, .. } = energy;
        writeln!(text, "  devices used {joules_per_proof:.2} J a proof, {mean_watts:.1} W on average")?;
    } else if let Some(reason) = &figures.energy_unknown {
        writeln!(text, "  energy is not known: {reason}")?;
    }
    Ok(())
}

fn locks(figures: &MeanFigures) -> String {
    let lock = |(name, seconds): (&String, &LockSeconds)| {
        format!("; lock {name} held {:.3} s, waited for {:.3} s a run", seconds.held_s, seconds.waited_s)
    };
    figures.locks.iter().map(lock).collect()
}

/// A line for each run.
///
/// # Errors
/// The writer's.
pub fn write_experiment_csv(report: &ExperimentReport, writer: impl io::Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(writer);
    for arm in &report.arms {
        for round in &arm.rounds {
            csv.serialize(Line::of(arm, round.round, &round.figures)).map_err(io::Error::other)?;
        }
    }
    csv.flush()
}

/// A line of the CSV file.
#[derive(serde::Serialize)]
struct Line<'a> {
    arm: &'a str,
    policy: &'a str,
    options: &'a str,
    core: &'a str,
    workers: u32,
    vram_limit: Option<u64>,
    round: usize,
    seconds: f64,
    proofs: u64,
    proofs_per_s: f64,
    latency_min_s: Option<f64>,
    latency_max_s: Option<f64>,
    device_busy: f64,
    overlap: Option<f64>,
    joules: Option<f64>,
    joules_per_proof: Option<f64>,
    mean_watts: Option<f64>,
    lock_wait_s: f64,
    lock_hold_s: f64,
    skips: u64,
    waits: u64,
    refused: u64,
    peak_reserved_bytes: u64,
    peak_rss_bytes: Option<u64>,
}

impl<'a> Line<'a> {
    fn of(arm: &'a ArmReport, round: usize, figures: &crate::experiment::RunFigures) -> Self {
        Self {
            arm: &arm.arm,
            policy: &arm.policy,
            options: &arm.options,
            core: &arm.core,
            workers: arm.workers,
            vram_limit: arm.vram_limit,
            round,
            seconds: figures.seconds,
            proofs: figures.proofs,
            proofs_per_s: figures.proofs_per_s,
            latency_min_s: figures.latencies_s.first().copied(),
            latency_max_s: figures.latencies_s.last().copied(),
            device_busy: figures.device_busy,
            overlap: figures.overlap,
            joules: figures.energy.map(|energy| energy.joules),
            joules_per_proof: figures.energy.map(|energy| energy.joules_per_proof),
            mean_watts: figures.energy.map(|energy| energy.mean_watts),
            lock_wait_s: figures.locks.values().map(|lock| lock.waited_s).sum(),
            lock_hold_s: figures.locks.values().map(|lock| lock.held_s).sum(),
            skips: figures.skips,
            waits: figures.waits,
            refused: figures.refused,
            peak_reserved_bytes: figures.peak_reserved_bytes,
            peak_rss_bytes: figures.peak_rss_bytes,
        }
    }
}
