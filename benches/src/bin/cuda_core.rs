//! The CUDA core on one card: time of each step, and proofs a second with several tasks at once.
//!
//! Proves the demonstration circuit (SHA-256) at about `2^LOG_SIZE` constraints. The first proof of each size is held
//! against the CPU core's; a difference ends the program with exit code 1. Times are medians. `--trace` keeps when the card did
//! what for several tasks at once, by the card's clock, for chrome://tracing or Perfetto; `--help` lists the arguments.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use clap::Parser;
use interlock_benches::card::CardOptions;
use interlock_benches::measure::{median, milliseconds, timed};
use interlock_benches::statement::Statement;
use interlock_core_api::StepRecord;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::loaded::LoadedCore;
use interlock_engine::core::{Core, CoreTask};
use interlock_engine::proof::to_bytes;

const ROUNDS: usize = 9;

/// Tasks at once whose proofs a second are measured.
const WORKERS: [usize; 4] = [1, 2, 4, 8];

/// The CUDA core on one card, step by step.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    card: CardOptions,
    /// About 2^LOG_SIZE constraints
    #[arg(default_values_t = [17, 20, 22])]
    log_sizes: Vec<u32>,
    /// Where to keep when the card did what
    #[arg(long)]
    trace: Option<PathBuf>,
}

/// One proof.
struct Run {
    /// Milliseconds of prepare, stage, compute and finish.
    stages: [f64; 4],
    /// What the card did.
    steps: Vec<StepRecord>,
    proof: Vec<u8>,
}

fn prove(job: &Statement, core: &LoadedCore) -> Run {
    let mut task =
        core.loaded_task(0, job.key.clone(), job.witness.clone(), job.blinding).expect("sizes fit");
    let (prepared, prepare) = timed(|| task.prepare());
    prepared.expect("prepare");
    let (staged, stage) = timed(|| task.stage());
    staged.expect("stage");
    let (computed, compute) = timed(|| task.compute());
    computed.expect("compute");
    let steps = task.steps();
    let (proof, finish) = timed(|| Box::new(task).finish());
    let proof = to_bytes(&proof.expect("finish")).to_vec();
    Run { stages: [prepare, stage, compute, finish], steps, proof }
}

/// Proofs a second with `workers` threads that prove one after another, and what the card did for each.
fn throughput(core: &LoadedCore, job: &Statement, workers: usize) -> (f64, Vec<Vec<StepRecord>>) {
    let steps = Mutex::new(vec![Vec::new(); workers]);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let steps = &steps;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let run = prove(job, core);
                    steps.lock().expect("no thread has panicked")[worker].extend(run.steps);
                }
            });
        }
    });
    let rate = (workers * ROUNDS) as f64 / start.elapsed().as_secs_f64();
    (rate, steps.into_inner().expect("no thread has panicked"))
}

/// Steps as trace events: a process for each size, a thread for each worker.
fn trace_events(log_size: u32, steps: &[Vec<StepRecord>]) -> impl Iterator<Item = serde_json::Value> {
    let of_worker = move |(worker, steps): (usize, &Vec<StepRecord>)| {
        let event = move |step: &StepRecord| {
            serde_json::json!({
                "name": step.name.as_str(), "ph": "X", "pid": log_size, "tid": worker,
                "ts": f64::from(step.start_milliseconds) * 1e3, "dur": f64::from(step.milliseconds) * 1e3,
            })
        };
        steps.iter().map(event).collect::<Vec<_>>()
    };
    steps.iter().enumerate().flat_map(of_worker)
}

fn write_trace(file: &Path, events: &[serde_json::Value]) -> std::io::Result<()> {
    std::fs::write(file, serde_json::json!({ "traceEvents": events }).to_string())
}

fn main() -> ExitCode {
    let options = Options::parse();
    let core = match options.card.open(WORKERS[WORKERS.len() - 1] as u32, true) {
        Ok(Some(core)) => core,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            println!("FAILED: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("device: {}, {} bytes for tasks", core.devices()[0].name, core.devices()[0].capacity_bytes);
    let mut events = Vec::new();
    for log_size in options.log_sizes {
        let (job, setup) = timed(|| Statement::demonstration(log_size));
        let Some(steps) = measure(&core, &job, setup / 1e3) else { return ExitCode::FAILURE };
        events.extend(trace_events(log_size, &steps));
    }
    if let Some(file) = options.trace
        && let Err(error) = write_trace(&file, &events)
    {
        println!("FAILED: {}: {error}", file.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Nothing if a proof is wrong; else what the card did for the most tasks at once.
fn measure(core: &LoadedCore, job: &Statement, setup_seconds: f64) -> Option<Vec<Vec<StepRecord>>> {
    let circuit = &job.key.circuit;
    if let Err(error) = core.load(&job.key) {
        println!("FAILED: {error}");
        return None;
    }
    let plan = core.plan(&job.key);
    println!(
        "\n{} constraints (domain {}), {} variables, {} of them neither 0 nor 1; setup {setup_seconds:.1} s",
        circuit.num_constraints(),
        circuit.domain_size(),
        circuit.num_variables(),
        job.wide_values()
    );
    println!("plan: staged {} bytes, extra {} bytes", plan.staged_bytes, plan.compute_extra);
    let start = Instant::now();
    let cpu = CpuCore::new(16 << 30, None).expect("threads");
    let expected = to_bytes(&job.prove(&cpu).expect("the CPU core proves"));
    let cpu_time = milliseconds(start.elapsed());
    let first = prove(job, core);
    if first.proof != expected {
        println!("WRONG: the proofs of the CPU core and of the CUDA core differ");
        return None;
    }
    println!(
        "same proof as the CPU core ({cpu_time:.0} ms); ours took {:.1} ms the first time",
        first.stages.iter().sum::<f64>()
    );
    let runs: Vec<_> = (0..ROUNDS).map(|_| prove(job, core)).collect();
    for (index, name) in ["prepare", "stage", "compute", "finish"].iter().enumerate() {
        println!("  {name:<10} {:8.2} ms", median(runs.iter().map(|run| run.stages[index]).collect()));
    }
    for (index, step) in runs[0].steps.iter().enumerate() {
        let times = runs.iter().map(|run| f64::from(run.steps[index].milliseconds)).collect();
        println!("    {:<8} {:8.2} ms on the card", step.name, median(times));
    }
    let mut last = Vec::new();
    for workers in WORKERS {
        let (rate, steps) = throughput(core, job, workers);
        println!("  {workers} workers: {rate:8.1} proofs/s");
        last = steps;
    }
    println!("  most device memory at once: {} bytes", core.usage(0).peak_bytes);
    Some(last)
}
