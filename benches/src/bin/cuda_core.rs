//! The CUDA core on one card: time of each step, and proofs a second with several tasks at once.
//!
//!     cuda_core LIBRARY [LOG_SIZE...]
//!
//! Proves the demonstration circuit (SHA-256) at about `2^LOG_SIZE` constraints. The first proof of each size is held
//! against the CPU core's; a difference ends the program with exit code 1. Times are medians.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use interlock_core_api::OpenOptions;
use interlock_engine::circuit::FileChunk;
use interlock_engine::circuit::bellpepper::{record, synthesize_witness};
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::loaded::{LoadedCore, LoadedTask};
use interlock_engine::core::{Blinding, Core, CoreTask, ProvingKey};
use interlock_engine::srs::setup::generate;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// A SHA-256 block takes about this many constraints.
const BLOCK_CONSTRAINTS: usize = 27_600;

const ROUNDS: usize = 9;

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

struct Job {
    key: Arc<ProvingKey>,
    witness: Arc<interlock_engine::circuit::Witness>,
    blinding: Blinding,
}

impl Job {
    fn new(log_size: u32) -> Self {
        let blocks = ((1_usize << log_size) / BLOCK_CONSTRAINTS).max(1);
        let bytes = 64 * blocks - 9;
        let chunk: Vec<u8> = (0..bytes).map(|index| (index * 167 + index / 251) as u8).collect();
        let circuit = record(FileChunk::shape(bytes)).expect("the circuit is small");
        let witness =
            synthesize_witness(FileChunk::new(&chunk, bytes).expect("the chunk fits")).expect("complete");
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let srs = generate(&circuit, &mut rng);
        let blinding = Blinding::random(&mut rng);
        Self { key: Arc::new(ProvingKey { circuit, srs }), witness: Arc::new(witness), blinding }
    }

    fn task(&self, core: &LoadedCore) -> LoadedTask {
        core.loaded_task(0, self.key.clone(), self.witness.clone(), self.blinding).expect("sizes fit")
    }

    /// Milliseconds of prepare, stage, compute and finish, and of the steps of compute.
    fn prove(&self, core: &LoadedCore) -> ([f64; 4], Vec<(String, f64)>, Vec<u8>) {
        let mut task = self.task(core);
        let mut times = [0.0; 4];
        let mut timed = |stage: usize, run: &mut dyn FnMut()| {
            let start = Instant::now();
            run();
            times[stage] = milliseconds(start.elapsed());
        };
        timed(0, &mut || task.prepare().expect("prepare"));
        timed(1, &mut || task.stage().expect("stage"));
        timed(2, &mut || task.compute().expect("compute"));
        let steps =
            task.steps().iter().map(|step| (step.name.to_string(), f64::from(step.milliseconds))).collect();
        let start = Instant::now();
        let proof = Box::new(task).finish().expect("finish");
        times[3] = milliseconds(start.elapsed());
        let mut bytes = Vec::new();
        proof.write(&mut bytes).expect("a vector takes all bytes");
        (times, steps, bytes)
    }
}

/// Proofs a second with `workers` threads that prove one after another.
fn throughput(core: &LoadedCore, job: &Job, workers: usize) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| (0..ROUNDS).for_each(|_| drop(job.prove(core))));
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
        let start = Instant::now();
        let job = Job::new(log_size);
        let setup = start.elapsed().as_secs_f64();
        measure(&core, &job, setup);
    }
}

fn measure(core: &LoadedCore, job: &Job, setup_seconds: f64) {
    let circuit = &job.key.circuit;
    let plan = core.plan(&job.key);
    let wide = job.witness.values.iter().filter(|value| {
        let value: &blstrs::Scalar = value;
        *value != blstrs::Scalar::from(0) && *value != blstrs::Scalar::from(1)
    });
    println!(
        "\n{} constraints (domain {}), {} variables, {} of them neither 0 nor 1; setup {setup_seconds:.1} s",
        circuit.num_constraints(),
        circuit.domain_size(),
        circuit.num_variables(),
        wide.count()
    );
    println!("plan: staged {} bytes, extra {} bytes", plan.staged_bytes, plan.compute_extra);
    let start = Instant::now();
    let cpu = CpuCore::new(16 << 30, None).expect("threads");
    let mut task = cpu.task(0, job.key.clone(), job.witness.clone(), job.blinding).expect("sizes fit");
    task.prepare().and_then(|()| task.stage()).and_then(|()| task.compute()).expect("the CPU core proves");
    let mut expected = Vec::new();
    task.finish().expect("computed").write(&mut expected).expect("a vector takes all bytes");
    let cpu_time = milliseconds(start.elapsed());
    let (first, _, proof) = job.prove(core);
    if proof != expected {
        println!("WRONG: the proofs of the CPU core and of the CUDA core differ");
        std::process::exit(1);
    }
    println!("same proof as the CPU core ({cpu_time:.0} ms); key on the card after {:.0} ms", first[0]);
    let runs: Vec<_> = (0..ROUNDS).map(|_| job.prove(core)).collect();
    for (index, name) in ["prepare", "stage", "compute", "finish"].iter().enumerate() {
        println!("  {name:<10} {:8.2} ms", median(runs.iter().map(|run| run.0[index]).collect()));
    }
    for (index, (name, _)) in runs[0].1.iter().enumerate() {
        println!(
            "    {name:<8} {:8.2} ms on the card",
            median(runs.iter().map(|run| run.1[index].1).collect())
        );
    }
    for workers in [1, 2, 4] {
        println!("  {workers} workers: {:8.1} proofs/s", throughput(core, job, workers));
    }
    println!("  most device memory at once: {} bytes", core.usage(0).peak_bytes);
}
