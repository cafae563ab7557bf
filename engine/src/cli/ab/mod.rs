//! `interlock ab`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use interlock_experiment::{Gate, GateError};
use interlock_timeline::chart::Chart;
use sha2::{Digest, Sha256};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::output::{check_distinct, check_writable, write_whole};
use super::work::{self, Work, WorkArgs};
use super::{CliError, Exit, config, print};
use crate::experiment::{
    Arm, ArmReport, Arrivals, Common, ConditionReport, Experiment, ExperimentError, ExperimentReport, Jobs,
    Load, Machine, Meter, Metric, Rounds, SHORTEST_RUN_S, WorkReport, comparisons, condition_names,
};
use crate::host::{ByteSize, Config, library_places};
use crate::proof::vkey;
use crate::report::{self, ExperimentPage, StatementReport};

mod arms;
mod progress;

/// The same work under several arms, in turns, until a difference of the size that is asked for would have been seen.
///
/// Arms are all combinations of policies, cores, workers and limits, in that order; the first is the one that the others are held
/// against. Each runs in an engine of its own, one at a time.
#[derive(Debug, clap::Args)]
pub struct AbArgs {
    /// The policies, the one that others are held against first; options may follow a name: "two-lock,vram-token(compute_permits: 3)"
    #[arg(long, value_name = "A,B,…")]
    policies: String,
    /// The cores, instead of the configuration's
    #[arg(long, value_name = "CORE", value_enum, value_delimiter = ',')]
    cores: Vec<arms::CoreName>,
    /// Device workers of each device, instead of the configuration's
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Vec<u32>,
    /// Device memory that the engine may hold on each device, such as 16GiB; of the CPU core, host memory
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    vram_limit: Vec<ByteSize>,

    #[command(flatten)]
    work: WorkArgs,

    /// Jobs that each run measures
    #[arg(short = 'c', long, value_name = "JOBS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Jobs on their way at once: the next one comes when one has ended
    #[arg(short = 'j', long, value_name = "JOBS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    in_flight: u32,
    /// Jobs per second that come whatever the engine does, at random times (a Poisson process), instead of --in-flight
    #[arg(long, value_name = "JOBS", conflicts_with = "in_flight", value_parser = rate)]
    rate: Option<f64>,
    /// Jobs before them that are not measured
    #[arg(long, value_name = "JOBS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    warm_up: u32,

    /// The difference that is to be seen, in percent: the experiment ends when it would be
    #[arg(long, value_name = "PERCENT", default_value = "3", value_parser = percent)]
    detect: f64,
    /// The time after which it ends in any case, such as 90s or 1h; proofs that are under way then are finished, and count for nothing
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    budget: Duration,
    /// The rounds after which it ends in any case; a round runs each arm once
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    rounds: u32,
    /// Where everything begins that is left to chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Exit with 7 when this holds, such as "B.proofs_per_s < 0.97 * A.proofs_per_s"; may be given several times
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<String>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Write the report as one HTML file, to be looked at in a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a CSV file with a line for each run
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

pub fn run(explicit_config: Option<&Path>, mut args: AbArgs) -> Result<Exit, CliError> {
    args.work.look_into_folders()?;
    let _trace = report::start_logging(None);
    let config = config::load(explicit_config)?;
    check_files(&config, &args)?;
    let gates = gates(&args.fail_if)?;
    let arms = arms::arms(&config, &args)?;
    // Without a card that could be asked for its energy, no library of the driver is opened.
    let has_card = |arm: &Arm| arm.core.devices().iter().any(|device| device.uuid.is_some());
    let meter = arms.iter().any(has_card).then(Meter::of_driver).flatten();
    check_conditions(&gates, &arms, meter.as_ref())?;
    let names = work::names(&args.work)?;
    let work = Work::load(&args.work)?;
    let load = load(&args);
    let stop = stop_flag()?;
    let experiment = Experiment {
        arms: &arms,
        common: Common {
            synthesis_workers: config.synthesis_workers as u32,
            verify_proofs: config.verify_proofs,
            limits: config.limits.into(),
        },
        load,
        seed: args.seed,
        detect: args.detect / 100.0,
        most_rounds: args.rounds as usize,
        shortest_run_s: SHORTEST_RUN_S,
        budget: args.budget,
        meter: meter.as_ref(),
        jobs: Jobs { make: &|| work.job(0), names: &names },
        stop: &stop,
    };
    let mut bar = progress::Progress::new(&arms);
    let rounds = experiment.run(&mut |tell| bar.tell(&tell));
    drop(bar);
    let rounds = rounds.map_err(|error| {
        let help = match &error {
            ExperimentError::Short(short) => format!("Measure more of it in each run: -c {}.", short.jobs),
            ExperimentError::NoTime { .. } => {
                "Give it more --budget, or measure fewer jobs in each run: -c N.".to_owned()
            }
        };
        CliError::new(Exit::Usage, error).with_help(help)
    })?;
    let report = assemble(&args, &config, &arms, &work, &names, load, &rounds, &gates)?;
    // First what cannot fail for want of a folder: it may have taken hours.
    if args.json {
        print::json(&report)?;
    } else {
        print::text(&report::render_experiment(&report))?;
    }
    if let Some(path) = &args.csv {
        write_whole(path, |writer| report::write_experiment_csv(&report, writer))?;
    }
    if let Some(path) = &args.html {
        let page = ExperimentPage::new(&report, charts(&report, &rounds));
        write_whole(path, |writer| page.write(writer))?;
    }
    Ok(exit(&report))
}

/// Whether the outputs can be written, and are neither inputs nor each other: better known before hours of runs than after.
fn check_files(config: &Config, args: &AbArgs) -> Result<(), CliError> {
    let outputs = || [&args.html, &args.csv].into_iter().flatten().map(PathBuf::as_path);
    let libraries = config.policies.iter().flat_map(|policy| library_places(config, &policy.library));
    let others: Vec<PathBuf> = config.file.iter().cloned().chain(libraries).collect();
    check_distinct(outputs(), args.work.files().chain(others.iter().map(PathBuf::as_path)))?;
    outputs().try_for_each(check_writable)
}

fn load(args: &AbArgs) -> Load {
    let arrivals = match args.rate {
        Some(jobs_per_s) => Arrivals::Poisson { jobs_per_s },
        None => Arrivals::Closed { in_flight: args.in_flight },
    };
    Load { jobs: args.count, warm_up: args.warm_up, arrivals }
}

/// Set at the first signal; the second one ends the program.
fn stop_flag() -> Result<Arc<AtomicBool>, CliError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag not set.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .map_err(|error| {
                CliError::new(Exit::Config, format!("signals cannot be listened to: {error}"))
            })?;
    }
    Ok(stop)
}

fn gates(conditions: &[String]) -> Result<Vec<Gate>, CliError> {
    conditions.iter().map(|text| Gate::parse(text)).collect::<Result<_, _>>().map_err(bad_condition)
}

fn bad_condition(error: GateError) -> CliError {
    CliError::new(Exit::Usage, error).with_help(
        "Conditions are in CEL, the Common Expression Language: \"B.proofs_per_s < 0.97 * A.proofs_per_s\".",
    )
}

/// Whether conditions can be worked out at all: better known before hours of runs than after.
fn check_conditions(gates: &[Gate], arms: &[Arm], meter: Option<&Meter>) -> Result<(), CliError> {
    let with_energy = |arm: &Arm| meter.is_some_and(|meter| meter.counters(arm.core.devices()).is_some());
    let names = condition_names(&arms.iter().map(with_energy).collect::<Vec<_>>());
    gates.iter().try_for_each(|gate| gate.holds(&names).map(|_| ())).map_err(bad_condition)
}

#[allow(clippy::too_many_arguments, reason = "a report has everything")]
fn assemble(
    args: &AbArgs,
    config: &Config,
    arms: &[Arm],
    work: &Work,
    names: &[String],
    load: Load,
    rounds: &Rounds,
    gates: &[Gate],
) -> Result<ExperimentReport, CliError> {
    let key = work.key();
    let primary = Metric::primary(load.arrivals);
    let mut devices: Vec<String> =
        arms.iter().flat_map(|arm| arm.core.devices()).map(|device| device.name.clone()).collect();
    devices.sort();
    devices.dedup();
    let comparisons = comparisons(rounds, primary);
    let mut report = ExperimentReport {
        schema: ExperimentReport::SCHEMA,
        verdict: comparisons.first().map(|comparison| comparison.verdict),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ended: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        command: std::env::args().collect(),
        config: config.file.clone(),
        seed: args.seed,
        machine: Machine::here(devices),
        work: WorkReport {
            name: args.work.name(),
            fingerprint: fingerprint(&vkey::to_json(&key.srs.vk), names),
            partitions: names.len(),
            statement: StatementReport::of(&key),
            load,
        },
        metric: primary.name().to_owned(),
        detect: args.detect / 100.0,
        rounds: rounds.rounds,
        rounds_needed: rounds.needed,
        stopped: rounds.stopped,
        elapsed_s: rounds.elapsed.as_secs_f64(),
        arms: arms
            .iter()
            .zip(&rounds.arms)
            .enumerate()
            .map(|(index, (arm, runs))| ArmReport::of(index, arm, arm.core.plan(&key).into(), runs))
            .collect(),
        comparisons,
        conditions: Vec::new(),
    };
    let figures = report.condition_figures();
    // An arm without figures was told as failed, and energy that is not known as such: conditions on them hold neither way.
    let condition =
        |gate: &Gate| ConditionReport { condition: gate.text().to_owned(), holds: gate.holds(&figures).ok() };
    report.conditions = gates.iter().map(condition).collect();
    Ok(report)
}

/// The last run of each arm, drawn from when it began to be measured.
fn charts(report: &ExperimentReport, rounds: &Rounds) -> Vec<(String, Chart)> {
    let runs = report.arms.iter().zip(&rounds.arms);
    runs.filter_map(|(arm, runs)| {
        let last = runs.last.as_ref()?;
        let (from_ns, to_ns) = last.window_ns;
        Some((format!("{} {}", arm.arm, arm.policy), Chart::of(&last.timeline.within(from_ns, to_ns))))
    })
    .collect()
}

/// The same for the same statement and partitions.
fn fingerprint(vkey: &str, names: &[String]) -> String {
    let mut hash = Sha256::new();
    for part in [vkey].into_iter().chain(names.iter().map(String::as_str)) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn exit(report: &ExperimentReport) -> Exit {
    if report.has_failed_arm() {
        Exit::NotProved
    } else if report.conditions.iter().any(|condition| condition.holds != Some(false)) {
        Exit::Condition
    } else {
        Exit::Done
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if (0.01..=100.0).contains(&percent) => Ok(percent),
        _ => Err("write a percentage from 0.01 to 100, such as 3".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (1e-3..=1e5).contains(&rate) => Ok(rate),
        _ => Err("write jobs per second, from 0.001 to 100000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_tells_work_apart() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let one = fingerprint("{}", &names(&["a", "b"]));
        assert_eq!(one, fingerprint("{}", &names(&["a", "b"])));
        assert_ne!(one, fingerprint("{}", &names(&["ab"])));
        assert_ne!(one, fingerprint("{ }", &names(&["a", "b"])));
    }

    #[test]
    fn percentages_and_rates_are_numbers_that_make_sense() {
        assert_eq!(percent("2.5%"), Ok(2.5));
        for text in ["", "0", "-3", "NaN", "inf", "101", "x"] {
            assert!(percent(text).is_err(), "{text}");
        }
        for text in ["", "0", "-3", "NaN", "inf", "1e9"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
