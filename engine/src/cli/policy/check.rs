//! `interlock policy check`: the laws of a policy.

mod quiet;
mod wait;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use interlock_conformance::{Progress, Report, Scenario, Settings, Standing};

use super::of_file;
use crate::cli::{CliError, Exit, config, output, print};
use crate::host::{Isolation, OptionsText, PolicyLibrary, ProcessSettings, Verified, without_controls};

/// What the median of decisions may take in the checking process.
const BUDGET: Duration = Duration::from_micros(10);
/// The same for a policy in a process of its own, where a question goes there and back.
const ROUND_TRIP_BUDGET: Duration = Duration::from_millis(1);
/// The longest scenario that is read, in bytes.
const MOST_SCENARIO_BYTES: u64 = 16 << 20;

#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// The library
    file: PathBuf,
    /// Options for the policy, as in plugins.ron: '(wait_ms: 5)'
    #[arg(long, value_name = "RON", default_value = "", hide_default_value = true)]
    options: String,
    /// Where the random scenarios begin
    #[arg(long, default_value_t = Settings::default().seed)]
    seed: u64,
    /// How many random scenarios to run
    #[arg(long, value_name = "COUNT", default_value_t = Settings::default().scenarios)]
    scenarios: u32,
    /// Run no more scenarios after this time, and say so
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "1min")]
    time: Duration,
    /// Load the library into this process, as an engine does by default: faster, but a policy that crashes ends the check
    #[arg(long)]
    trusted: bool,
    /// What half of the decisions may take at the most [default: 10us with --trusted, else 1ms, both ways included]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    decision_budget: Option<Duration>,
    /// Write the scenario that breaks a law into LAW.ron in this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run this scenario alone, and print each event, question and verdict
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "scenarios", "time", "decision_budget", "out"])]
    replay: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(explicit_config: Option<&Path>, args: &CheckArgs) -> Result<Exit, CliError> {
    let scenario = args.replay.as_deref().map(read).transpose()?;
    let library = library(explicit_config, args)?;
    // What keeps the policy from starting at all is no matter of laws.
    drop(library.instantiate().map_err(of_file)?);
    let quiet = || args.trusted.then(quiet::FirstPanic::only).transpose().map_err(no_descriptor);
    let kept = match &scenario {
        Some(scenario) => {
            let quiet = quiet()?;
            let replay = interlock_conformance::replay(&library, scenario);
            drop(quiet);
            show(args.json, &replay)?;
            replay.breaks.is_empty()
        }
        None => {
            let budget = if args.trusted { BUDGET } else { ROUND_TRIP_BUDGET };
            let settings = Settings {
                seed: args.seed,
                scenarios: args.scenarios,
                decision_budget: Some(args.decision_budget.unwrap_or(budget)),
                time: Some(args.time),
            };
            let progress = Progress::new();
            let report = wait::watch(&progress, || -> Result<Report, CliError> {
                let _quiet = quiet()?;
                Ok(interlock_conformance::check_watched(&library, &settings, &progress))
            });
            let report = report.map_err(no_descriptor)??;
            show(args.json, &report)?;
            if let Some(folder) = &args.out {
                write(folder, &report)?;
            }
            report.is_kept()
        }
    };
    Ok(if kept { Exit::Done } else { Exit::Config })
}

fn no_descriptor(error: io::Error) -> CliError {
    CliError::new(Exit::Output, format!("standard error cannot be watched: {error}"))
}

fn library(explicit_config: Option<&Path>, args: &CheckArgs) -> Result<PolicyLibrary, CliError> {
    let verified =
        Verified::file(&args.file, None, None, &OptionsText::new(&args.options)).map_err(of_file)?;
    if args.trusted {
        return PolicyLibrary::open(verified).map_err(of_file);
    }
    let config = config::load(explicit_config)?;
    match ProcessSettings::configured(&config, Isolation::Process) {
        Ok(Some(settings)) => PolicyLibrary::isolate(verified, settings).map_err(of_file),
        Ok(None) => PolicyLibrary::open(verified).map_err(of_file),
        Err(fault) => Err(CliError::new(Exit::Config, fault)
            .with_help("--trusted checks a policy that you trust in this process.")),
    }
}

fn read(file: &Path) -> Result<Scenario, CliError> {
    let bad = |error: String| {
        CliError::new(Exit::Input, format!("{}: {error}", file.display())).with_help(
            "A check writes such scenarios with --out DIR; engine/conformance/README.md shows one, and what may be left out.",
        )
    };
    let length = fs::metadata(file).map_err(|error| bad(error.to_string()))?.len();
    if length > MOST_SCENARIO_BYTES {
        return Err(bad(format!("longer than {MOST_SCENARIO_BYTES} bytes, which is no scenario")));
    }
    let text = fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    Scenario::from_ron(&text).map_err(|error| bad(error.to_string()))
}

/// A report, or the trace of a replay: nothing in it may paint the terminal.
fn show(json: bool, what: &(impl serde::Serialize + std::fmt::Display)) -> Result<(), CliError> {
    if json {
        return print::json(what);
    }
    print::text(&what.to_string().lines().map(|line| without_controls(line) + "\n").collect::<String>())
}

fn write(folder: &Path, report: &Report) -> Result<(), CliError> {
    for law in &report.laws {
        if let Standing::Broken(example) = &law.standing
            && let Some(scenario) = &example.scenario
        {
            let file = folder.join(format!("{}.ron", law.law.code()));
            output::write_whole(&file, |writer| writer.write_all(scenario.as_bytes()))?;
        }
    }
    Ok(())
}
