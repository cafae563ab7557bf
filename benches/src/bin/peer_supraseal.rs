//! Our CUDA core against supraseal-c2's prover on one card, in one process.
//!
//!     peer_supraseal LIBRARY [LOG_SIZE...] [--proofs N] [--json FILE]
//!
//! LIBRARY is the CUDA core. Both provers get the demonstration circuit (SHA-256) at about `2^LOG_SIZE` constraints (17, 20
//! and 22 unless said), the same witness and the same SRS file. `--proofs` (4 unless said) is how many proofs our batches
//! have; supraseal-c2's batch has four circuits.
//!
//! Before anything is measured, the proofs of both are held against the CPU core's for the same blinding factors, and
//! verified; a difference ends the program with exit code 1. A machine without a card is skipped, with exit code 0.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use interlock_benches::measure::timed;
use interlock_benches::peer::Error;
use interlock_benches::peer::compare::{AT_ONCE, Case, Comparison, Effort, compare, measure_peer};
use interlock_benches::peer::supraseal::{Supraseal, is_available};
use interlock_benches::peer::table::{details, summary};
use interlock_core_api::OpenOptions;
use interlock_engine::core::Core;
use interlock_engine::core::loaded::LoadedCore;
use interlock_engine::report::start_logging;

const USAGE: &str = "usage: peer_supraseal LIBRARY [LOG_SIZE...] [--proofs N] [--json FILE]";

/// What our core may hold on the card, keys and tasks together.
const VRAM_LIMIT: u64 = 16 << 30;

/// What the command line says.
struct Options {
    library: PathBuf,
    sizes: Vec<u32>,
    proofs: usize,
    json: Option<PathBuf>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Error> {
        let (mut library, mut sizes, mut proofs, mut json) = (None, Vec::new(), AT_ONCE, None);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--proofs" => proofs = value()?.parse()?,
                "--json" => json = Some(value()?.into()),
                flag if flag.starts_with('-') => return Err(format!("unknown argument {flag}").into()),
                _ if library.is_none() => library = Some(argument.into()),
                size => sizes.push(size.parse().map_err(|_| format!("LOG_SIZE {size} is no number"))?),
            }
        }
        if sizes.is_empty() {
            sizes = vec![17, 20, 22];
        }
        if let Some(size) = sizes.iter().find(|size| !(15..=26).contains(*size)) {
            return Err(format!("LOG_SIZE {size} is not between 15 and 26").into());
        }
        if proofs == 0 {
            return Err("--proofs is 0".into());
        }
        let library = library.ok_or("no LIBRARY")?;
        Ok(Self { library, sizes, proofs, json })
    }

    fn effort(&self, log_size: u32) -> Effort {
        let rounds = match log_size {
            ..19 => 15,
            19..21 => 9,
            _ => 5,
        };
        Effort { rounds, proofs: self.proofs }
    }
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("peer_supraseal: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
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
    if !options.library.is_file() {
        return Err(format!("{}: there is no such library", options.library.display()).into());
    }
    let directory = tempfile::tempdir()?;
    let mut ready = Vec::new();
    for log_size in &options.sizes {
        let case = set_up(*log_size, directory.path())?;
        let (peer, read_ms) = timed(|| Supraseal::open(&case.file));
        let peer = peer?;
        case.check_peer(&peer)?;
        println!("  supraseal-c2: same proof as the CPU core, batches verify; SRS opened in {read_ms:.0} ms");
        let alone = measure_peer(&case, &peer, options.effort(*log_size))?;
        println!("  alone: {:.2} ms for one, {:.2} ms a proof in a batch", alone.one_ms, alone.batch_ms);
        ready.push((case, peer, alone));
    }
    let core = open(&options.library)?;
    let mut comparisons = Vec::new();
    for (case, peer, alone) in ready {
        core.load(&case.statement.key)?;
        case.check_core(core.as_ref())?;
        let comparison = compare(&case, &peer, alone, &core, options.effort(case.log_size))?;
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

fn open(library: &Path) -> Result<Arc<dyn Core>, Error> {
    let options =
        OpenOptions { vram_limit: VRAM_LIMIT, tasks_at_once: AT_ONCE as u32, ..OpenOptions::default() };
    let core = LoadedCore::open("cuda", library, &options)?;
    println!("our core on {}, vram_limit {} GiB", core.devices()[0].name, VRAM_LIMIT >> 30);
    Ok(Arc::new(core))
}

/// Written after each size, so that a failure leaves what came before it.
fn write_json(file: Option<&Path>, core: &dyn Core, comparisons: &[Comparison]) -> Result<(), Error> {
    let Some(file) = file else { return Ok(()) };
    let report = serde_json::json!({
        "device": core.devices()[0].name,
        "vram_limit": VRAM_LIMIT,
        "sizes": comparisons,
    });
    std::fs::write(file, serde_json::to_string_pretty(&report)?)
        .map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(())
}
