//! Our CUDA core against supraseal-c2's prover on one card, in one process.
//!
//! Both provers get the demonstration circuit (SHA-256) at about `2^LOG_SIZE` constraints, the same witness and the same SRS
//! file. `--help` lists the arguments.
//!
//! Before anything is measured, the proofs of both are held against the CPU core's for the same blinding factors, and
//! verified; a difference ends the program with exit code 1. A machine without a card is skipped, with exit code 0.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use interlock_benches::card::CardOptions;
use interlock_benches::measure::timed;
use interlock_benches::peer::Error;
use interlock_benches::peer::compare::{Case, Comparison, Effort, compare, measure_peer};
use interlock_benches::peer::seats::SeatOptions;
use interlock_benches::peer::supraseal::{Supraseal, is_available};
use interlock_benches::peer::table::{details, summary};
use interlock_engine::core::Core;
use interlock_engine::report::start_logging;

/// The CUDA core against supraseal-c2's prover on one card, in one process.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    card: CardOptions,
    /// About 2^LOG_SIZE constraints
    #[arg(default_values_t = [17, 20, 22], value_parser = clap::value_parser!(u32).range(15..=26))]
    log_sizes: Vec<u32>,
    /// Proofs in each of our batches; supraseal-c2's have four
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..))]
    proofs: u64,
    /// Numbers of our tasks at once, without the engine
    #[arg(long, value_delimiter = ',', default_values_t = [4, 8], value_parser = clap::value_parser!(u32).range(1..=64))]
    at_once: Vec<u32>,
    /// Rounds that count; 15, 9 or 5 unless said, the fewer the larger the circuit
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    #[command(flatten)]
    seats: SeatOptions,
    /// Where everything that is printed goes as JSON, too
    #[arg(long)]
    json: Option<PathBuf>,
}

impl Options {
    fn effort(&self, log_size: u32) -> Effort {
        let rounds = match (self.rounds, log_size) {
            (Some(rounds), _) => rounds,
            (None, ..19) => 15,
            (None, 19..21) => 9,
            (None, _) => 5,
        };
        Effort {
            rounds: rounds as usize,
            proofs: self.proofs as usize,
            at_once: self.at_once.iter().map(|tasks| *tasks as usize).collect(),
            seats: self.seats.clone(),
        }
    }

    fn tasks_at_once(&self) -> u32 {
        self.at_once.iter().copied().fold(self.seats.most_workers(), u32::max)
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    // What our core wants an operator to hear, such as a key that is streamed, comes on standard error.
    let _logging = start_logging(None);
    if !is_available() {
        println!("skipped: supraseal-c2 finds no card, or no driver, on this machine");
        return ExitCode::SUCCESS;
    }
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

/// supraseal-c2 is measured for all sizes before our core is opened, and again in turns with it: our core sets the card's
/// context to sleep, not spin, while it waits, and holds memory. The better figure counts.
fn run(options: &Options) -> Result<(), Error> {
    let directory = tempfile::tempdir()?;
    let mut ready = Vec::new();
    for log_size in &options.log_sizes {
        let case = set_up(*log_size, directory.path())?;
        let (peer, read_ms) = timed(|| Supraseal::open(&case.file));
        let peer = peer?;
        case.check_peer(&peer)?;
        println!("  supraseal-c2: same proof as the CPU core, batches verify; SRS opened in {read_ms:.0} ms");
        let alone = measure_peer(&case, &peer, &options.effort(*log_size))?;
        println!("  alone: {:.2} ms for one, {:.2} ms a proof in a batch", alone.one_ms, alone.batch_ms);
        ready.push((case, peer, alone));
    }
    let Some(core) = options.card.open(options.tasks_at_once(), false)? else { return Ok(()) };
    let core: Arc<dyn Core> = Arc::new(core);
    println!("our core on {}, {} bytes for tasks", core.devices()[0].name, core.devices()[0].capacity_bytes);
    let mut comparisons = Vec::new();
    for (case, peer, alone) in ready {
        core.load(&case.statement.key)?;
        case.check_core(core.as_ref())?;
        let comparison = compare(&case, &peer, alone, &core, &options.effort(case.log_size))?;
        println!("\n{}", details(&comparison));
        comparisons.push(comparison);
        write_json(options.json.as_deref(), core.as_ref(), &comparisons)?;
    }
    println!("{}", summary(&comparisons));
    Ok(())
}

fn set_up(log_size: u32, directory: &Path) -> Result<Case, Error> {
    let (case, all_ms) = timed(|| Case::set_up(log_size, directory));
    let case = case.map_err(|error| format!("2^{log_size}: {error}"))?;
    println!(
        "2^{log_size}: {} constraints, {} public inputs, {} private variables; a query {} + {}, b queries {} + {}; \
         {} bytes of SRS; ready after {:.1} s ({:.1} s of it setup)",
        case.statement.key.circuit.num_constraints(),
        case.inputs.num_inputs,
        case.inputs.num_aux,
        case.inputs.num_inputs,
        case.inputs.a_aux_density.ones,
        case.inputs.b_input_density.ones,
        case.inputs.b_aux_density.ones,
        std::fs::metadata(&case.file)?.len(),
        all_ms / 1e3,
        case.setup_seconds
    );
    Ok(case)
}

/// Written after each size, so that a failure leaves what came before it.
fn write_json(file: Option<&Path>, core: &dyn Core, comparisons: &[Comparison]) -> Result<(), Error> {
    let Some(file) = file else { return Ok(()) };
    let report = serde_json::json!({
        "device": core.devices()[0].name,
        "bytes_for_tasks": core.devices()[0].capacity_bytes,
        "sizes": comparisons,
    });
    std::fs::write(file, serde_json::to_string_pretty(&report)?)
        .map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(())
}
