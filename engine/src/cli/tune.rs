//! `interlock tune`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use interlock_simulator::Scenario;
use interlock_simulator::tune::{self, Axis, Goal, Grid, Point, Tried, TriedFigures, Tuned, usual_values};

use super::output::{check_distinct, write_whole};
use super::simulate::{bad_scenario, failed};
use super::{CliError, Exit, config, print};
use crate::host::{OptionsText, PolicyLibrary};
use crate::interlock::PolicySource;
use crate::report;

/// Points that are shown.
const SHOWN: usize = 10;

/// Every point of a grid of workers and options is simulated, each with the same seeds, and the best is told.
///
/// Options for which no values are given are tried at what is configured, and at parts and multiples of it that the policy takes.
/// What is counted is jobs, each with all its partitions: proofs_per_s is jobs proved in a second.
#[derive(Debug, clap::Args)]
pub struct TuneArgs {
    /// The scenario: the machine and the work
    scenario: PathBuf,
    /// The policy, instead of the configuration's; options may follow its name, as in "two-lock(wait_ms: 4000)"
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Values of an option that are tried besides the configured one, such as compute_permits=1,2,3; may be given several times. With
    /// no value, as in token_bytes=, the option stays as it is configured
    #[arg(long, value_name = "NAME=V,W", value_parser = option)]
    option: Vec<(String, Vec<String>)>,
    /// Numbers of workers that are tried besides the scenario's
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2, 3, 4, 6, 8],
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Vec<u32>,
    /// What is best
    #[arg(long, value_enum, default_value_t = Best::ProofsPerS)]
    best: Best,
    /// Seeds that each point is simulated with
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// Print all points as JSON
    #[arg(long)]
    json: bool,
    /// Write a picture of all points, as SVG; its folder is made where there is none
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Best {
    /// The most jobs per second
    #[value(name = "proofs_per_s")]
    ProofsPerS,
    /// The lowest 95th percentile of a job's latency
    #[value(name = "latency_p95")]
    LatencyP95,
}

pub fn run(explicit_config: Option<&Path>, args: &TuneArgs) -> Result<Exit, CliError> {
    let _log = report::start_logging(None);
    check_distinct(args.plot.as_deref(), [args.scenario.as_path()])?;
    let scenario = Scenario::read(&args.scenario).map_err(bad_scenario)?;
    let config = config::load(explicit_config)?;
    let policy = config::policy(&config, args.policy.as_deref().unwrap_or(&config.policy))?;
    let name = policy.name();
    let goal = match args.best {
        Best::ProofsPerS => Goal::ProofsPerSecond,
        Best::LatencyP95 => Goal::Latency95,
    };
    let with_options = |point: &Point| {
        policy.with_options(&OptionsText::new(point.ron())).map_err(|error| error.fault.to_string())
    };
    let grid = grid(&scenario, &policy, args, &with_options)?;
    check_asked(&grid, args, &with_options)?;
    let tuned = tune::tune(&scenario, &grid, goal, args.seeds, &with_options, &PolicyLibrary::fallback());
    let tuned = tuned.map_err(failed)?;
    if args.json {
        print::json(&tuned)?;
    } else {
        print::text(&render(name, &tuned))?;
    }
    if tuned.best().is_none() {
        eprintln!("no point is fit{}", if args.plot.is_some() { ": there is no picture" } else { "" });
        return Ok(Exit::NotProved);
    }
    if let Some(path) = &args.plot {
        let svg = tune::plot(&tuned).map_err(|error| CliError::new(Exit::Output, error))?;
        write_whole(path, |writer| writer.write_all(svg.as_bytes()))?;
    }
    Ok(Exit::Done)
}

/// Values that were asked for and that the policy takes at no point are mistakes: told before anything is simulated.
fn check_asked(grid: &Grid, args: &TuneArgs, policy: &WithOptions<'_>) -> Result<(), CliError> {
    let points = grid.points();
    let asked = args.option.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
    for (name, value) in asked {
        let mut reason = None;
        let here = points.iter().filter(|point| point.options.get(name) == Some(value));
        let is_taken = here.into_iter().any(|point| match taken(policy, point) {
            Ok(()) => true,
            Err(error) => {
                reason.get_or_insert(error);
                false
            }
        });
        if let (false, Some(reason)) = (is_taken, reason) {
            let error = format!("--option {name}={value}: the policy takes this value at no point: {reason}");
            return Err(CliError::new(Exit::Usage, error).with_help(
                "`interlock policy inspect NAME` shows the options of a policy and their types.",
            ));
        }
    }
    Ok(())
}

/// The policy with a point's options, or why there is none.
type WithOptions<'a> = dyn Fn(&Point) -> Result<PolicyLibrary, String> + Sync + 'a;

/// Whether the policy takes a point: options may be of the right type and of no use, which is said when an instance is made.
fn taken(policy: &WithOptions<'_>, point: &Point) -> Result<(), String> {
    policy(point)?.seat().map(drop)
}

/// The grid: what is configured, what was asked for, and for options of which nothing was said what is usual.
fn grid(
    scenario: &Scenario,
    policy: &PolicyLibrary,
    args: &TuneArgs,
    with_options: &WithOptions<'_>,
) -> Result<Grid, CliError> {
    let schema = &policy.manifest().options;
    if let Some((unknown, _)) =
        args.option.iter().find(|(name, _)| schema.iter().all(|doc| doc.name != *name))
    {
        let known: Vec<&str> = schema.iter().map(|doc| doc.name.as_str()).collect();
        let error = format!("{} has no option `{unknown}`; it has {}", policy.name(), known.join(", "));
        return Err(CliError::new(Exit::Usage, error));
    }
    let configured = policy.configured_options();
    let axes = schema.iter().map(|doc| {
        let value = configured.get(&doc.name).unwrap_or(&doc.default).clone();
        let asked = args.option.iter().find(|(name, _)| *name == doc.name);
        let values = match asked {
            Some((_, values)) => std::iter::once(value).chain(values.iter().cloned()).collect(),
            None => {
                // What the policy refuses although all else is as configured was asked for by nobody.
                let mut values = usual_values(doc, &value);
                values.retain(|tried| {
                    let mut options = configured.clone();
                    options.insert(doc.name.clone(), tried.clone());
                    *tried == value || taken(with_options, &Point { workers: 1, options }).is_ok()
                });
                values
            }
        };
        Axis { option: doc.name.clone(), values }
    });
    let workers = std::iter::once(scenario.workers).chain(args.workers.iter().copied()).collect();
    Grid::new(workers, axes.collect()).map_err(|error| {
        CliError::new(Exit::Usage, error)
            .with_help("--option NAME=V,W says which values are tried, --workers N,M how many workers.")
    })
}

fn option(text: &str) -> Result<(String, Vec<String>), String> {
    let (name, values) = text.split_once('=').ok_or("write NAME=V,W, as in compute_permits=1,2,3")?;
    let values = values.split(',').map(str::trim).filter(|value| !value.is_empty());
    Ok((name.trim().to_owned(), values.map(str::to_owned).collect()))
}

fn render(name: &str, tuned: &Tuned) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(&mut text, name, tuned);
    text
}

fn write_all(text: &mut String, name: &str, tuned: &Tuned) -> std::fmt::Result {
    let count = tuned.points.len();
    writeln!(
        text,
        "{count} points of {name}, {} seeds each, virtual time; the best first; a job is all its partitions",
        tuned.seeds.len()
    )?;
    writeln!(
        text,
        "{:>9} {:>9} {:>6} {:>7} {:>9}  {:>7}  options",
        "jobs/s", "p95", "busy", "skips", "fallbacks", "workers"
    )?;
    for tried in tuned.points.iter().take(SHOWN) {
        write_point(text, tried, "")?;
    }
    match tuned.configured() {
        Some(tried) => write_point(text, tried, "  <- configured")?,
        None => writeln!(text, "the policy does not take what is configured")?,
    }
    if !tuned.refused.is_empty() {
        let (point, reason) = &tuned.refused[0];
        writeln!(
            text,
            "{} points were not taken by the policy, such as {}: {reason}",
            tuned.refused.len(),
            point.ron()
        )?;
    }
    let Some(best) = tuned.best() else { return Ok(()) };
    if best.point == tuned.configured {
        return writeln!(text, "what is configured is best");
    }
    if let Some(configured) = tuned.configured().filter(|tried| tried.unfit.is_none()) {
        writeln!(text, "{}", gain(tuned.goal, &configured.figures, &best.figures))?;
    }
    writeln!(text, "for plugins.ron:")?;
    writeln!(text, "    workers_per_device: {},", best.point.workers)?;
    writeln!(text, "    (name: \"{name}\", options: {})", best.point.ron())
}

/// What the best point is better in than what is configured, and by how much.
fn gain(goal: Goal, configured: &TriedFigures, best: &TriedFigures) -> String {
    let (figure, unit, was, is) = match goal {
        Goal::ProofsPerSecond => ("jobs per second", "", configured.proofs_per_s, best.proofs_per_s),
        Goal::Latency95 => ("latency p95", " s", configured.latency_p95_s, best.latency_p95_s),
    };
    let percent = (is / was - 1.0) * 100.0;
    let than = if percent < 0.0 { "lower" } else { "higher" };
    format!(
        "the best: {figure} {:.1}% {than} than with what is configured ({is:.4}{unit} instead of {was:.4}{unit})",
        percent.abs()
    )
}

fn write_point(text: &mut String, tried: &Tried, note: &str) -> std::fmt::Result {
    let Tried { point, figures, unfit } = tried;
    let unfit = unfit.as_ref().map_or(String::new(), |reason| format!("  UNFIT: {reason}"));
    writeln!(
        text,
        "{:>9.4} {:>8.2}s {:>5.1}% {:>7.1} {:>9.1}  {:>7}  {}{note}{unfit}",
        figures.proofs_per_s,
        figures.latency_p95_s,
        figures.device_busy * 100.0,
        figures.skips,
        figures.fallbacks,
        point.workers,
        point.ron(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_a_name_and_values() {
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        assert_eq!(option("wait_ms=1, 20"), Ok(("wait_ms".to_owned(), values(&["1", "20"]))));
        assert_eq!(option("wait_ms="), Ok(("wait_ms".to_owned(), values(&[]))));
        assert!(option("wait_ms").is_err());
    }

    #[test]
    fn what_is_better_is_named_with_its_direction() {
        let figures =
            |proofs_per_s, latency_p95_s| TriedFigures { proofs_per_s, latency_p95_s, ..Default::default() };
        let (configured, best) = (figures(0.25, 20.0), figures(0.5, 10.22));
        assert_eq!(
            gain(Goal::Latency95, &configured, &best),
            "the best: latency p95 48.9% lower than with what is configured (10.2200 s instead of 20.0000 s)"
        );
        assert_eq!(
            gain(Goal::ProofsPerSecond, &configured, &best),
            "the best: jobs per second 100.0% higher than with what is configured (0.5000 instead of 0.2500)"
        );
    }
}
