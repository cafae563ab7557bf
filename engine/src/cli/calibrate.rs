//! `interlock calibrate`: from a run to a scenario of the simulator, and to what it predicts of another run.

use std::io::Write;
use std::path::{Path, PathBuf};

use interlock_calibrate::{CalibrateError, Comparison, Conditions, Costs, Measured, Note, predict};
use interlock_settings::units;
use interlock_simulator::Scenario;
use interlock_timeline::Timeline;

use super::output::{check_distinct, write_whole};
use super::{CliError, Exit, config, print};
use crate::host::PolicyLibrary;

/// Fits a scenario for `interlock simulate` to a run: how long everything takes with nothing in its way, on what machine, under
/// what load. With --against, what that predicts of another run is held against what was measured there.
#[derive(Debug, clap::Args)]
pub struct CalibrateArgs {
    /// The timeline of the run, as `prove --timeline` wrote it
    #[arg(value_name = "FILE")]
    timeline: PathBuf,
    /// Where the scenario goes; standard output when left out, or nowhere with --against
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The timeline of another run of such tasks: with other workers, another load, another policy
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// The policy that is simulated, instead of the one that the other run began with
    #[arg(long, value_name = "NAME", requires = "against")]
    policy: Option<String>,
    /// Simulated runs: times are drawn anew in each
    #[arg(long, value_name = "N", default_value_t = 25, requires = "against",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Print the comparison as JSON
    #[arg(long, requires = "against")]
    json: bool,
}

pub fn run(explicit_config: Option<&Path>, args: &CalibrateArgs) -> Result<Exit, CliError> {
    let inputs = [Some(&args.timeline), args.against.as_ref()].into_iter().flatten();
    check_distinct(args.output.as_deref(), inputs.map(PathBuf::as_path))?;
    let timeline = Timeline::open(&args.timeline)?;
    let costs = Costs::fit(&timeline).map_err(|error| about(&args.timeline, error))?;
    for note in costs.notes() {
        eprintln!("note: {}: {note}", args.timeline.display());
    }
    let conditions = Conditions::of(&timeline).map_err(|error| about(&args.timeline, error))?;
    let scenario = costs.scenario(&conditions).map_err(|error| about(&args.timeline, error))?;
    let text = noted(&scenario, costs.notes());
    match (&args.output, &args.against) {
        (Some(path), _) => write_whole(path, |writer| writer.write_all(text.as_bytes()))?,
        (None, None) => print::text(&text)?,
        (None, Some(_)) => {}
    }
    if let Some(against) = &args.against {
        let comparison = compare(explicit_config, args, &costs, against)?;
        if args.json {
            print::json(&comparison)?;
        } else {
            print::text(&table(&comparison))?;
        }
    }
    Ok(Exit::Done)
}

/// The scenario as a text, with what to know about it as comments: whoever reads it later did not see standard error.
fn noted(scenario: &Scenario, notes: &[Note]) -> String {
    let comments: String = notes.iter().map(|note| format!("// {note}\n")).collect();
    comments + &scenario.to_ron()
}

/// What is predicted under the conditions of another run, beside what that run gave.
fn compare(
    explicit_config: Option<&Path>,
    args: &CalibrateArgs,
    costs: &Costs,
    against: &Path,
) -> Result<Comparison, CliError> {
    let measured = Timeline::open(against)?;
    let conditions = Conditions::of(&measured).map_err(|error| about(against, error))?;
    let scenario = costs.scenario(&conditions).map_err(|error| about(against, error))?;
    let name = args.policy.clone().or(conditions.policy);
    let name = name.ok_or_else(|| about(against, CalibrateError::NotTold("which policy it ran under")))?;
    let policy = PolicyLibrary::configured(&config::load(explicit_config)?, &name)?;
    let predicted = predict(&scenario, &policy, &PolicyLibrary::fallback(), args.runs)
        .map_err(|error| about(&args.timeline, error))?;
    let measured = Measured::of(&measured).map_err(|error| about(against, error))?;
    Ok(Comparison::new(&name, predicted, measured))
}

fn about(file: &Path, error: CalibrateError) -> CliError {
    let help = error.help();
    CliError::new(Exit::Input, format!("{}: {error}", file.display())).with_help(help)
}

fn table(comparison: &Comparison) -> String {
    let Comparison { policy, predicted, measured, .. } = comparison;
    let rate = |rate: f64| format!("{rate:.3}");
    let time = |seconds: f64| units::time((seconds * 1e9).round() as u64);
    let line = |name: &str, predicted: String, range: String, measured: String, error: f64| {
        format!("{name:<12} {predicted:>10} {range:>20} {measured:>10} {:>+10.1} %\n", error * 100.0)
    };
    let (rates, latencies) = (predicted.proofs_per_s, predicted.p95_latency_s);
    let mut text = format!(
        "policy {policy}, {} simulated runs\n{:<12} {:>10} {:>20} {:>10} {:>12}\n",
        predicted.runs, "", "predicted", "least to most", "measured", "difference"
    );
    text += &line(
        "partitions/s",
        rate(rates.mean),
        format!("{} to {}", rate(rates.least), rate(rates.most)),
        rate(measured.proofs_per_s),
        comparison.proofs_per_s_error,
    );
    text += &line(
        "p95 latency",
        time(latencies.mean),
        format!("{} to {}", time(latencies.least), time(latencies.most)),
        time(measured.p95_latency_s),
        comparison.p95_latency_error,
    );
    text + "partitions: each is one proof here, where `simulate` counts jobs with all their partitions\n\
            latency: of a partition, from the begin of its synthesis until it was verified\n"
}
