//! The CUDA core on one card: time of each step, and proofs a second with several tasks at once.
//!
//!     cuda_core LIBRARY [LOG_SIZE...]
//!
//! Proves the demonstration circuit (SHA-256) at about `2^LOG_SIZE` constraints. The first proof of each size is held
//! against the CPU core's; a difference ends the program with exit code 1. Times are medians.

use std::path::Path;
use std::time::Instant;

use interlock_benches::measure::{median, milliseconds, timed};
use interlock_benches::statement::Statement;
use interlock_core_api::OpenOptions;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::loaded::LoadedCore;
use interlock_engine::core::{Core, CoreTask};
use interlock_engine::proof::to_bytes;

const ROUNDS: usize = 9;

/// One proof.
struct Run {
    /// Milliseconds of prepare, stage, compute and finish.
    stages: [f64; 4],
    /// Steps of compute, in milliseconds on the card.
    steps: Vec<(String, f64)>,
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
    let steps =
        task.steps().iter().map(|step| (step.name.to_string(), f64::from(step.milliseconds))).collect();
    let (proof, finish) = timed(|| Box::new(task).finish());
    let proof = to_bytes(&proof.expect("finish")).to_vec();
    Run { stages: [prepare, stage, compute, finish], steps, proof }
}

/// Proofs a second with `workers` threads that prove one after another.
fn throughput(core: &LoadedCore, job: &Statement, workers: usize) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| (0..ROUNDS).for_each(|_| drop(prove(job, core))));
        }
    });
    (workers * ROUNDS) as f64 / start.elapsed().as_secs_f64()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(library) = arguments.next() else {
        eprintln!("usage: cuda_core LIBRARY [LOG_SIZE...]");
        std::process::exit(2);
    };
    let sizes: Vec<u32> = arguments.map(|size| size.parse().expect("LOG_SIZE is a number")).collect();
    let options = OpenOptions { tasks_at_once: 4, measure_steps: true, ..OpenOptions::default() };
    let core = match LoadedCore::open("cuda", Path::new(&library), &options) {
        Ok(core) => core,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    println!("device: {}", core.devices()[0].name);
    for log_size in sizes {
        let (job, setup) = timed(|| Statement::demonstration(log_size));
        measure(&core, &job, setup / 1e3);
    }
}

fn measure(core: &LoadedCore, job: &Statement, setup_seconds: f64) {
    let circuit = &job.key.circuit;
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
        std::process::exit(1);
    }
    println!(
        "same proof as the CPU core ({cpu_time:.0} ms); key on the card after {:.0} ms",
        first.stages[0]
    );
    let runs: Vec<_> = (0..ROUNDS).map(|_| prove(job, core)).collect();
    for (index, name) in ["prepare", "stage", "compute", "finish"].iter().enumerate() {
        println!("  {name:<10} {:8.2} ms", median(runs.iter().map(|run| run.stages[index]).collect()));
    }
    for (index, (name, _)) in runs[0].steps.iter().enumerate() {
        println!(
            "    {name:<8} {:8.2} ms on the card",
            median(runs.iter().map(|run| run.steps[index].1).collect())
        );
    }
    for workers in [1, 2, 4] {
        println!("  {workers} workers: {:8.1} proofs/s", throughput(core, job, workers));
    }
    println!("  most device memory at once: {} bytes", core.usage(0).peak_bytes);
}
