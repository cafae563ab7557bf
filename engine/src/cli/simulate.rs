//! `interlock simulate`.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use interlock_simulator::{
    ChromeTrace, Figures, PolicyFigures, Progress, Scenario, ScenarioFault, SimulateError, Simulated,
    simulate_watched,
};

use super::output::ReportArgs;
use super::{CliError, Exit, config, output, print};
use crate::host::PolicyLibrary;
use crate::interlock::{Recorder, TimelineEvent};
use crate::report::{self, CsvTimeline};

/// How long a run says nothing.
const SILENCE: Duration = Duration::from_secs(5);

/// The policies run in virtual time, through the arbiter of production. The same seed gives the same figures.
///
/// A job is all its partitions; the figures of --json call one that was proved a proof. A run that takes long says on standard error how
/// far it is. With several policies, each has a trace and a timeline of its own, with its name before the extension. The exit code
/// is 1 where no job was proved. How scenarios are written: engine/simulator/README.md.
#[derive(Debug, clap::Args)]
pub struct SimulateArgs {
    /// The scenario: the machine, the work, what goes wrong
    scenario: PathBuf,
    /// A policy of the configuration, or one with other options than there, as "two-lock(wait_ms: 4000)"; may be given several times.
    /// Left out: all of them
    #[arg(long, value_name = "NAME")]
    policy: Vec<String>,
    /// What all random numbers come from, instead of the scenario's seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    report: ReportArgs,
}

pub fn run(explicit_config: Option<&Path>, args: &SimulateArgs) -> Result<Exit, CliError> {
    let _log = report::start_logging(None);
    let mut scenario = Scenario::read(&args.scenario).map_err(bad_scenario)?;
    if let Some(seed) = args.seed {
        scenario.seed = seed;
    }
    let config = config::load(explicit_config)?;
    let names = if args.policy.is_empty() { config.names() } else { args.policy.clone() };
    if let Some(twice) = (1..names.len()).find(|index| names[..*index].contains(&names[*index])) {
        let error = format!("policy {} is asked for twice", names[twice]);
        return Err(CliError::new(Exit::Usage, error).with_help("It would give the same figures again."));
    }
    let outputs = Outputs::new(args, &names)?;
    let policies = names.iter().map(|name| config::policy(&config, name)).collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    let mut figures = Figures { schema: Figures::SCHEMA, seed: scenario.seed, policies: Vec::new() };
    let mut events = 0;
    for (index, policy) in policies.iter().enumerate() {
        let simulated = outputs.simulate(&scenario, policy, index)?;
        events += simulated.events;
        figures.policies.push(PolicyFigures { name: names[index].clone(), ..simulated.figures });
    }
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("{events} events in {seconds:.3} s: {:.0} a second", events as f64 / seconds.max(1e-9));
    if args.report.json {
        print::json(&figures)?
    } else {
        print::text(&interlock_simulator::render(&figures))?
    }
    let proved: u64 = figures.policies.iter().map(|policy| policy.proofs).sum();
    if proved > 0 {
        return Ok(Exit::Done);
    }
    eprintln!("no job was proved, under any policy");
    Ok(Exit::NotProved)
}

/// Says on standard error how far a run is, when it takes long.
fn spoken(policy: &PolicyLibrary) -> impl FnMut(Progress) {
    let name = policy.name().to_owned();
    let mut last = Instant::now();
    move |Progress { events, now_ns, partitions_left }| {
        if last.elapsed() >= SILENCE {
            last = Instant::now();
            let seconds = now_ns as f64 / 1e9;
            eprintln!(
                "{name}: {events} events, at {seconds:.2} s of virtual time; {partitions_left} partitions have come and not ended"
            );
        }
    }
}

/// A policy's name in the name of a file.
fn file_name(policy: &str) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-._".contains(letter) { letter } else { '_' };
    policy.chars().map(plain).collect()
}

/// The files that are asked for, one of each kind for each policy.
struct Outputs {
    timelines: Vec<PathBuf>,
    traces: Vec<PathBuf>,
}

impl Outputs {
    fn new(args: &SimulateArgs, policies: &[String]) -> Result<Self, CliError> {
        let names: Vec<_> = policies.iter().map(|policy| file_name(policy)).collect();
        let files = |base: &Option<PathBuf>| {
            base.as_deref().map_or(Ok(Vec::new()), |base| output::names(base, &names))
        };
        let outputs = Self { timelines: files(&args.report.timeline)?, traces: files(&args.report.trace)? };
        let all = outputs.timelines.iter().chain(&outputs.traces).map(PathBuf::as_path);
        output::check_distinct(all, [args.scenario.as_path()])?;
        Ok(outputs)
    }

    /// Runs the policy of this number, and writes its files.
    fn simulate(
        &self,
        scenario: &Scenario,
        policy: &PolicyLibrary,
        index: usize,
    ) -> Result<Simulated, CliError> {
        let open = |paths: &[PathBuf]| {
            paths.get(index).map(|path| output::create(path).map(BufWriter::new)).transpose()
        };
        let timeline = open(&self.timelines)?.map(CsvTimeline::new);
        let trace = open(&self.traces)?.map(ChromeTrace::new);
        let mut recorders: Vec<&dyn Recorder> = Vec::new();
        recorders.extend(timeline.as_ref().map(|timeline| timeline as &dyn Recorder));
        recorders.extend(trace.as_ref().map(|trace| trace as &dyn Recorder));
        let several = Several(recorders);
        let recorder: Option<&dyn Recorder> = if several.0.is_empty() { None } else { Some(&several) };
        let simulated =
            simulate_watched(scenario, policy, &PolicyLibrary::fallback(), recorder, &mut spoken(policy));
        let simulated = simulated.map_err(failed)?;
        if let (Some(timeline), Some(path)) = (&timeline, self.timelines.get(index)) {
            timeline.finish().map_err(|error| output::unwritable(path, &error))?;
        }
        if let (Some(trace), Some(path)) = (trace, self.traces.get(index)) {
            trace.finish().map_err(|error| output::unwritable(path, &error))?;
        }
        Ok(simulated)
    }
}

/// Tells several recorders.
struct Several<'a>(Vec<&'a dyn Recorder>);

impl Recorder for Several<'_> {
    fn record(&self, event: &TimelineEvent) {
        self.0.iter().for_each(|recorder| recorder.record(event));
    }
}

/// What became of a simulation that did not come to its end.
pub(super) fn failed(error: SimulateError) -> CliError {
    match error {
        SimulateError::Scenario(error) => bad_scenario(error),
        SimulateError::TooLong => CliError::new(Exit::Input, error),
        other => CliError::new(Exit::Config, other),
    }
}

/// A scenario that is not one.
pub(super) fn bad_scenario(error: interlock_simulator::ScenarioError) -> CliError {
    let unreadable = matches!(error.fault, ScenarioFault::Unreadable(_));
    let help = if unreadable {
        "Give the path of a scenario; the engine's source has some in engine/simulator/scenarios."
    } else {
        "engine/simulator/README.md describes each field of a scenario."
    };
    CliError::new(Exit::Input, error).with_help(help)
}
