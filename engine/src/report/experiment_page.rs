//! An experiment as one HTML file: the verdict on top. It needs no network and no other file.

use std::io;

use askama::Template;
use interlock_experiment::{Interval, Verdict};
use interlock_settings::units;
use interlock_timeline::chart::Chart;
use interlock_timeline::page;

use super::experiment::{ending, metric_name, ratio_text, seen, sentence, short_name, verdict, words};
use crate::experiment::{
    ArmReport, ComparisonReport, ConditionReport, Energy, ExperimentReport, LockSeconds, Machine,
    MeanFigures, RoundFigures,
};

/// The page of an experiment.
#[derive(Template)]
#[template(path = "experiment.html")]
pub struct ExperimentPage<'a> {
    title: String,
    subtitle: String,
    style: &'static str,
    script: &'static str,
    verdicts: Vec<VerdictBox>,
    failures: Vec<String>,
    conditions: Vec<ConditionRow>,
    arms: Vec<ArmRow>,
    distributions: Vec<Distribution>,
    comparisons: Vec<ComparisonRow>,
    locks: Vec<(String, String, String, String)>,
    chart: Chart,
    facts: Vec<(&'static str, String)>,
    command: String,
    report: &'a ExperimentReport,
}

struct VerdictBox {
    class: &'static str,
    word: String,
    sentence: String,
}

struct ArmRow {
    letter: String,
    name: String,
    proofs_per_s: String,
    p50: String,
    p95: String,
    p99: String,
    busy: String,
    overlap: String,
    joules_per_proof: String,
    mean_watts: String,
    energy_unknown: Option<String>,
    skips: String,
    waits: String,
    refused: u64,
    reserved: String,
    resident: String,
}

struct ConditionRow {
    /// Or could not be worked out.
    holds: bool,
    word: &'static str,
    text: String,
}

struct ComparisonRow {
    id: String,
    metric: String,
    pair: String,
    ratio: String,
    ratio_interval: String,
    difference: String,
    difference_interval: String,
    detectable: String,
    verdict: String,
}

/// A strip of dots for each arm.
struct Distribution {
    title: String,
    label: String,
    height: usize,
    ticks: Vec<(f64, String)>,
    rows: Vec<DistributionRow>,
}

struct DistributionRow {
    name: String,
    y: usize,
    dots: Dots,
    mean: f64,
}

impl<'a> ExperimentPage<'a> {
    /// The page of a report, with a chart of the last run of each arm.
    pub fn new(report: &'a ExperimentReport, charts: Vec<(String, Chart)>) -> Self {
        let failure =
            |arm: &ArmReport| Some(format!("{}: {}", short_name(report, arm), arm.failed.as_ref()?));
        Self {
            title: title(report),
            subtitle: ending(report),
            style: page::STYLE,
            script: page::SCRIPT,
            verdicts: verdicts(report),
            failures: report.arms.iter().filter_map(failure).collect(),
            conditions: conditions(report),
            arms: report
                .arms
                .iter()
                .filter_map(|arm| Some(arm_row(report, arm, arm.figures.as_ref()?)))
                .collect(),
            distributions: vec![rates(report), latencies(report), energies(report)],
            comparisons: report.comparisons.iter().map(comparison_row).collect(),
            locks: report.arms.iter().flat_map(lock_rows).collect(),
            chart: Chart::side_by_side(charts),
            facts: facts(report),
            command: report.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
            report,
        }
    }

    /// The HTML.
    ///
    /// # Errors
    /// `writer` fails.
    pub fn write(&self, writer: &mut impl io::Write) -> io::Result<()> {
        self.write_into(writer)
    }
}

fn title(report: &ExperimentReport) -> String {
    let mut names: Vec<&str> = Vec::new();
    for arm in &report.arms {
        if !names.contains(&arm.policy.as_str()) {
            names.push(&arm.policy);
        }
    }
    match names.as_slice() {
        [one] => format!("{one} in {} arms", report.arms.len()),
        several => several.join(" against "),
    }
}

fn verdicts(report: &ExperimentReport) -> Vec<VerdictBox> {
    let of = |comparison: &ComparisonReport| VerdictBox {
        class: match comparison.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::NoDifference => "none",
        },
        word: match comparison.verdict {
            Verdict::NoDifference => "No difference seen".to_owned(),
            found => format!("{} is {} than {}", comparison.candidate, verdict(found), comparison.baseline),
        },
        sentence: sentence(report, comparison),
    };
    report.comparisons.iter().filter(|comparison| comparison.primary).map(of).collect()
}

fn conditions(report: &ExperimentReport) -> Vec<ConditionRow> {
    let of = |condition: &ConditionReport| ConditionRow {
        holds: condition.holds != Some(false),
        word: match condition.holds {
            Some(true) => "Holds:",
            Some(false) => "Does not hold:",
            None => "Could not be worked out:",
        },
        text: format!("fail if {}", condition.condition),
    };
    report.conditions.iter().map(of).collect()
}

fn arm_row(report: &ExperimentReport, arm: &ArmReport, figures: &MeanFigures) -> ArmRow {
    let latency = figures.latency_s;
    // A driver that tells none is one thing, a run that is too short another.
    let no_energy = if figures.energy_unknown.is_some() { "not known" } else { "not told" };
    let energy = |of: &dyn Fn(Energy) -> f64| {
        figures.energy.map_or(no_energy.to_owned(), |energy| units::three_digits(of(energy)))
    };
    ArmRow {
        letter: arm.arm.clone(),
        name: short_name(report, arm),
        proofs_per_s: units::three_digits(figures.proofs_per_s),
        p50: seconds(latency.p50),
        p95: seconds(latency.p95),
        p99: seconds(latency.p99),
        busy: units::share(figures.device_busy),
        overlap: figures.overlap.map_or("none staged".to_owned(), units::share),
        joules_per_proof: energy(&|energy| energy.joules_per_proof),
        energy_unknown: figures.energy_unknown.clone(),
        mean_watts: energy(&|energy| energy.mean_watts),
        skips: format!("{:.1}", figures.skips),
        waits: format!("{:.1}", figures.waits),
        refused: figures.refused,
        reserved: units::bytes(figures.peak_reserved_bytes),
        resident: figures.peak_rss_bytes.map_or("not told".to_owned(), units::bytes),
    }
}

fn lock_rows(arm: &ArmReport) -> Vec<(String, String, String, String)> {
    let row = |(name, lock): (&String, &LockSeconds)| {
        (arm.arm.clone(), name.clone(), seconds(lock.held_s), seconds(lock.waited_s))
    };
    arm.figures.iter().flat_map(|figures| &figures.locks).map(row).collect()
}

fn comparison_row(comparison: &ComparisonReport) -> ComparisonRow {
    let ends = |interval: Interval, show: &dyn Fn(f64) -> String| {
        format!("{} to {}", show(interval.low), show(interval.high))
    };
    let ratio = |value: f64| ratio_text(value);
    let difference = |value: f64| {
        if value.abs() < 1e6 { format!("{value:+.4}") } else { "any number".to_owned() }
    };
    ComparisonRow {
        id: format!("{}-{}-{}", comparison.metric, comparison.candidate, comparison.baseline),
        metric: metric_name(&comparison.metric).to_owned(),
        pair: format!("{} / {}", comparison.candidate, comparison.baseline),
        ratio: ratio(comparison.ratio.estimate),
        ratio_interval: ends(comparison.ratio, &ratio),
        difference: difference(comparison.difference.estimate),
        difference_interval: ends(comparison.difference, &difference),
        detectable: seen(comparison),
        verdict: words(comparison),
    }
}

/// Values with what each says.
type Dots = Vec<(f64, String)>;

/// Dots that a row shows; of more, evenly chosen ones.
const MOST_DOTS: usize = 400;

/// Proofs per second of each round.
fn rates(report: &ExperimentReport) -> Distribution {
    let values = |arm: &ArmReport| -> Dots {
        let dot = |round: &RoundFigures| {
            let rate = round.figures.proofs_per_s;
            (rate, format!("round {}: {} proofs/s", round.round, units::three_digits(rate)))
        };
        arm.rounds.iter().map(dot).collect()
    };
    distribution(report, "Proofs per second of each round", &values, &units::three_digits)
}

/// Latency of each job of all rounds.
fn latencies(report: &ExperimentReport) -> Distribution {
    let values = |arm: &ArmReport| -> Dots {
        let dots = arm.rounds.iter().flat_map(|round| {
            let text =
                move |latency: &f64| (*latency, format!("round {}: {}", round.round, seconds(*latency)));
            round.figures.latencies_s.iter().map(text)
        });
        dots.collect()
    };
    distribution(report, "Latency of each job", &values, &seconds)
}

/// Joules a proof of each round in which they are known.
fn energies(report: &ExperimentReport) -> Distribution {
    let values = |arm: &ArmReport| -> Dots {
        let dot = |round: &RoundFigures| {
            let joules = round.figures.energy?.joules_per_proof;
            Some((joules, format!("round {}: {} J a proof", round.round, units::three_digits(joules))))
        };
        arm.rounds.iter().filter_map(dot).collect()
    };
    distribution(report, "Joules a proof of each round", &values, &units::three_digits)
}

fn distribution(
    report: &ExperimentReport,
    what: &str,
    values: &dyn Fn(&ArmReport) -> Dots,
    show: &dyn Fn(f64) -> String,
) -> Distribution {
    const LEFT: f64 = 225.0;
    const RIGHT: f64 = 755.0;
    const ROW: usize = 38;
    let arms: Vec<(String, Dots)> = report
        .arms
        .iter()
        .map(|arm| (short_name(report, arm), values(arm)))
        .filter(|(_, dots)| !dots.is_empty())
        .collect();
    let all = arms.iter().flat_map(|(_, dots)| dots).map(|(value, _)| *value);
    let (least, most) =
        all.fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
    let span = (most - least).max(most * 1e-3).max(f64::MIN_POSITIVE);
    // To a hundredth of a pixel: what is finer cannot be seen.
    let x = |value: f64| ((LEFT + (value - least) / span * (RIGHT - LEFT)) * 100.0).round() / 100.0;
    let mean = |dots: &[(f64, String)]| dots.iter().map(|(value, _)| value).sum::<f64>() / dots.len() as f64;
    let row = |(index, (name, dots)): (usize, &(String, Dots))| DistributionRow {
        name: name.chars().take(34).collect(),
        y: 24 + index * ROW,
        dots: dots
            .iter()
            .step_by(dots.len().div_ceil(MOST_DOTS))
            .map(|(value, text)| (x(*value), text.clone()))
            .collect(),
        mean: x(mean(dots)),
    };
    let means: Vec<String> =
        arms.iter().map(|(name, dots)| format!("{name} {} on average", show(mean(dots)))).collect();
    let ticks = (0..=4).map(|tick| least + span * f64::from(tick) / 4.0);
    Distribution {
        title: what.to_owned(),
        label: format!("{what}: {}", means.join("; ")),
        height: 44 + arms.len() * ROW,
        ticks: if arms.is_empty() {
            Vec::new()
        } else {
            ticks.map(|value| (x(value), show(value))).collect()
        },
        rows: arms.iter().enumerate().map(row).collect(),
    }
}

fn facts(report: &ExperimentReport) -> Vec<(&'static str, String)> {
    let Machine { processor, threads, memory_bytes, kernel, devices } = &report.machine;
    let work = &report.work;
    let statement = work.statement;
    let load = work.load;
    vec![
        (
            "work",
            format!(
                "{}: {} partitions a job, {} constraints, domain {}",
                work.name, work.partitions, statement.constraints, statement.domain
            ),
        ),
        ("load", format!("{} jobs a run after {} of warm-up, {}", load.jobs, load.warm_up, load.arrivals)),
        ("fingerprint of the work", work.fingerprint.clone()),
        (
            "machine",
            format!("{processor}, {threads} threads, {}, Linux {kernel}", units::bytes(*memory_bytes)),
        ),
        ("devices", devices.join(", ")),
        ("program", format!("interlock {}, ended {}", report.version, report.ended)),
        (
            "configuration",
            report.config.as_ref().map_or("none".to_owned(), |file| file.display().to_string()),
        ),
        ("seed", report.seed.to_string()),
    ]
}

fn seconds(value: f64) -> String {
    units::time((value * 1e9).round() as u64)
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./=:,@%+".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_take_them_apart() {
        for (word, shown) in
            [("--seed", "--seed"), ("a b", "'a b'"), ("", "''"), ("it's", r"'it'\''s'"), ("$x", "'$x'")]
        {
            assert_eq!(quoted(word), shown);
        }
    }
}
