//! The engine on one or more cards under each policy, with a few workers on each: what staging ahead gains, whether all fits,
//! and what another card adds (`--devices`).
//!
//! `--vram-limit` makes a large card a small one. With 512 MiB, a domain of 2^22 has what a card of 16 GiB has for one of
//! 2^27: memory is all in proportion.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use interlock_benches::card::CardOptions;
use interlock_benches::measure::timed;
use interlock_benches::peer::Error;
use interlock_benches::peer::seats::{Batch, SeatOptions};
use interlock_benches::statement::Statement;
use interlock_engine::core::Core;
use interlock_engine::report::start_logging;

/// Proofs a second of the engine on a card, under each policy.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    card: CardOptions,
    /// The cards to use, by the driver's numbers
    #[arg(long, value_delimiter = ',', default_value = "0")]
    devices: Vec<u32>,
    /// About 2^LOG_SIZE constraints
    #[arg(default_values_t = [20, 22], value_parser = clap::value_parser!(u32).range(10..=27))]
    log_sizes: Vec<u32>,
    /// Proofs of each job
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..))]
    proofs: u64,
    /// Jobs under each policy that count, in turns; one more comes first, to warm up
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    #[command(flatten)]
    seats: SeatOptions,
}

fn main() -> ExitCode {
    let _logging = start_logging(None);
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Error> {
    let tasks_at_once = options.seats.most_workers();
    let Some(core) = options.card.open_cards(&options.devices, tasks_at_once, false)? else { return Ok(()) };
    let core: Arc<dyn Core> = Arc::new(core);
    let device = &core.devices()[0];
    println!(
        "{} of {}: {} bytes for tasks on each, keys {:?}",
        core.devices().len(),
        device.name,
        device.capacity_bytes,
        options.card.srs
    );
    for log_size in &options.log_sizes {
        let (statement, setup) = timed(|| Statement::demonstration(*log_size));
        let plan = core.plan(&statement.key);
        println!(
            "\n2^{log_size}: domain {}, {} bytes staged, {} at the peak; setup {:.1} s",
            statement.key.circuit.domain_size(),
            plan.staged_bytes,
            plan.peak_bytes(),
            setup / 1e3
        );
        measure(&core, &statement, options)?;
    }
    Ok(())
}

fn measure(core: &Arc<dyn Core>, statement: &Statement, options: &Options) -> Result<(), Error> {
    let seats = options.seats.start(core)?;
    let proofs = options.proofs as usize;
    let mut batches: Vec<Vec<Batch>> = seats.iter().map(|_| Vec::new()).collect();
    for round in 0..=options.rounds {
        eprintln!("  round {round} of {}", options.rounds);
        for (seat, batches) in seats.iter().zip(&mut batches) {
            let batch = seat.prove(statement, proofs)?;
            seat.tell(&batch, proofs);
            if round > 0 {
                batches.push(batch);
            }
        }
    }
    println!(
        "| policy | workers | proofs/s | lock wait, ms | staged inline | refused | cards busy | peak, MB |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (seat, batches) in seats.iter().zip(&batches) {
        let summary = seat.summary(batches, proofs);
        println!(
            "| {} | {} | {:.1} | {:.1} | {} of {} | {} | {:.0}% | {:.1} |",
            seat.policy,
            seat.workers,
            summary.rate,
            summary.lock_wait_ms,
            summary.staged_inline,
            summary.proofs,
            seat.refused(),
            100.0 * summary.busy,
            seat.peak_bytes() as f64 / 1e6
        );
    }
    Ok(())
}
