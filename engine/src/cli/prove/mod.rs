//! `interlock prove`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::output::ReportArgs;
use super::work::{self, Work, WorkArgs};
use super::{CliError, Exit, config, output, print};
use crate::control;
use crate::host::{Config, ControlSocket, PolicyLibrary};
use crate::pipeline::{Engine, EngineError, NoRecorder, Recorder};
use crate::report::{self, CsvTimeline, RunReport, StatementReport};

mod collect;
mod signals;

use collect::{Collected, Outputs, collect};

/// How long the report waits for dumps of policies that were quarantined.
const WAIT_FOR_DUMPS: Duration = Duration::from_secs(2);

/// Either `--r1cs`, an SRS (`--zkey` or `--params`) and witnesses, or `--file` for the built-in demonstration:
/// knowledge of a file whose chunks have these SHA-256 digests, a proof for each chunk.
#[derive(Debug, clap::Args)]
pub struct ProveArgs {
    #[command(flatten)]
    work: WorkArgs,

    /// Where the proof goes; with several witnesses or chunks, the name of each comes before the extension
    #[arg(long, value_name = "FILE")]
    proof: PathBuf,
    /// Where the public inputs go, likewise
    #[arg(long, value_name = "FILE")]
    public: PathBuf,
    /// Also write the SRS's verifying key, as snarkjs's JSON
    #[arg(long, value_name = "FILE")]
    vkey: Option<PathBuf>,
    /// How proofs are written
    #[arg(long, value_enum, default_value_t = ProofFormat::Snarkjs)]
    proof_format: ProofFormat,

    /// The policy, instead of the configuration's
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Device workers of each device, instead of the configuration's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// Synthesis workers, instead of the configuration's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    synthesis_workers: Option<u32>,
    /// Priority of this job: higher goes first at every gate
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true)]
    priority: i32,
    /// Where the engine can be talked to while it runs, instead of the configuration's place
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,

    #[command(flatten)]
    report: ReportArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProofFormat {
    /// snarkjs's JSON
    Snarkjs,
    /// bellperson's 192 bytes
    Bellperson,
}

pub fn run(explicit_config: Option<&Path>, mut args: ProveArgs) -> Result<Exit, CliError> {
    args.work.look_into_folders()?;
    let args = &args;
    let names = work::names(&args.work)?;
    let outputs = Outputs::new(args, &names)?;
    let trace = args.report.trace.as_deref().map(output::create).transpose()?;
    let _trace = report::start_logging(trace);
    let config = with_overrides(config::load(explicit_config)?, args);
    let policy = PolicyLibrary::configured(&config, &config.policy)?;
    let cores = config::cores(&config)?;
    let core = cores.main.clone();
    let loading = Instant::now();
    let work = Work::load(&args.work)?;
    let load_ns = loading.elapsed().as_nanos() as u64;
    if let Some(path) = &args.vkey {
        work.write_vkey(path)?;
    }

    let timeline = args.report.timeline.as_deref().map(output::create).transpose()?;
    let timeline = timeline.map(|file| Arc::new(CsvTimeline::new(file)));
    let recorder: Arc<dyn Recorder> = match &timeline {
        Some(timeline) => timeline.clone(),
        None => Arc::new(NoRecorder),
    };
    let engine = Arc::new(start(&config, cores, policy, recorder)?);
    let control = open_control(&config, &engine, args);
    let signals = signals::stop_on_signal(engine.stop_handle())?;
    let begun = Instant::now();
    let handle = match engine.submit(work.job(args.priority)) {
        // The signal came while the key was made ready.
        Err(EngineError::Stopped) if signals.interrupted() => {
            eprintln!("interrupted: no partition was begun");
            return Ok(Exit::Done);
        }
        handle => handle?,
    };
    let collected = collect(&handle, &names, &outputs);
    let wall_ns = begun.elapsed().as_nanos() as u64;
    // The report names them.
    engine.wait_for_dumps(WAIT_FOR_DUMPS);
    let key = work.key();
    let run = RunReport {
        schema: RunReport::SCHEMA,
        core: core.name(),
        policy: config.policy.clone(),
        workers_per_device: config.workers_per_device,
        synthesis_workers: config.synthesis_workers,
        priority: args.priority,
        verified: config.verify_proofs,
        statement: StatementReport::of(&key),
        plan: core.plan(&key).into(),
        proofs: collected.lines.iter().filter(|line| line.error.is_none()).count(),
        failed: collected.lines.iter().filter(|line| line.error.is_some()).count(),
        interrupted: signals.interrupted(),
        load_ns,
        wall_ns,
        partitions: collected.lines.clone(),
        devices: engine.devices(),
        policies: engine.policy_stats(),
    };
    drop(control);
    drop(engine);
    if let (Some(timeline), Some(path)) = (timeline, &args.report.timeline) {
        timeline.finish().map_err(|error| output::unwritable(path, &error))?;
    }
    if args.report.json {
        print::json(&run)?
    } else {
        print::text(&report::render(&run))?
    }
    exit(&run, &collected)
}

/// The configuration with what the command line says on top.
fn with_overrides(mut config: Config, args: &ProveArgs) -> Config {
    if let Some(policy) = &args.policy {
        config.policy.clone_from(policy);
    }
    if let Some(workers) = args.workers {
        config.workers_per_device = workers as usize;
    }
    if let Some(path) = &args.control {
        config.control = ControlSocket::At(path.clone());
    }
    if let Some(workers) = args.synthesis_workers {
        config.synthesis_workers = workers as usize;
    }
    config
}

fn start(
    config: &Config,
    cores: config::Cores,
    policy: PolicyLibrary,
    recorder: Arc<dyn Recorder>,
) -> Result<Engine, CliError> {
    let builder = Engine::builder(cores.main);
    let builder = match cores.fallback {
        Some(core) => builder.fallback_core(core),
        None => builder,
    };
    let builder = match config.dumps_folder() {
        Some(folder) => {
            warn_unless_writable(&folder);
            builder.dumps(folder)
        }
        None => builder,
    };
    let engine = builder
        .policy(policy)
        .workers_per_device(config.workers_per_device as u32)
        .synthesis_workers(config.synthesis_workers as u32)
        .verify_proofs(config.verify_proofs)
        .limits(config.limits.into())
        .trial_decisions(config.trial_decisions)
        .recorder(recorder)
        .start()?;
    Ok(engine)
}

/// Better known now than when there is a dump to be written.
fn warn_unless_writable(folder: &Path) {
    let tried = std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder).map(drop));
    if let Err(error) = tried {
        eprintln!(
            "warning: dumps cannot be written to {} (`dumps` in plugins.ron): {error}; a policy that is quarantined will leave none",
            folder.display()
        );
    }
}

/// The engine's control socket. Proofs are made without one as well.
fn open_control(config: &Config, engine: &Arc<Engine>, args: &ProveArgs) -> Option<control::Server> {
    let work = format!("prove {} to {}", args.work.name(), args.proof.display());
    let described = control::Described { work, config: config.file.clone() };
    let opened = control::Server::open(&config.control, engine.clone(), described);
    opened.unwrap_or_else(|error| {
        eprintln!("warning: {error}; this run cannot be talked to, and goes on");
        None
    })
}

/// An interrupted run that finished what it had begun is done; one with failures is not.
fn exit(run: &RunReport, collected: &Collected) -> Result<Exit, CliError> {
    if run.interrupted {
        eprintln!("interrupted: {} partitions were not begun", collected.cancelled);
    }
    Ok(if collected.failed > 0 {
        collected.worst
    } else if collected.cancelled > 0 && !run.interrupted {
        Exit::NotProved
    } else {
        Exit::Done
    })
}
