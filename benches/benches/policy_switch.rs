//! What switches of the policy cost under load: the same job with no switch and with one each second, in turns.
//!
//! `cargo bench -p interlock-benches --bench policy_switch -- ROUNDS`

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use interlock_benches::measure::median;
use interlock_engine::core::ProvingKey;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::host::PolicyLibrary;
use interlock_engine::pipeline::{Engine, Job, Switch, SwitchPhase, SwitchReport};
use interlock_engine::srs::setup;
use interlock_tests::fixtures;
use interlock_tests::libraries::verified;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const PARTITIONS: usize = 256;
const EVERY: Duration = Duration::from_secs(1);
const POLICIES: [&str; 4] = ["single-lock", "vram-token", "serialized-fallback", "two-lock"];

/// What one job took.
struct Run {
    proofs_per_second: f64,
    switches: Vec<SwitchReport>,
}

fn library(policy: &str) -> PolicyLibrary {
    PolicyLibrary::open(verified(policy, "")).expect("it is good")
}

/// Proves a job; with `switching`, under another policy each second.
fn run(key: &Arc<ProvingKey>, witness: &interlock_engine::circuit::Witness, switching: bool) -> Run {
    let libraries = POLICIES.map(library);
    let core = Arc::new(CpuCore::new(1 << 30, Some(1)).expect("a thread"));
    let engine = Engine::builder(core).policy(library("two-lock")).start().expect("it starts");
    let mut job = Job::new(key.clone());
    (0..PARTITIONS).for_each(|_| job.push_witness(witness.clone()));
    let (done, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let engine = &engine;
        let switcher = scope.spawn(move || {
            let mut switches: Vec<Switch> = Vec::new();
            while switching && ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let library = &libraries[switches.len() % libraries.len()];
                switches.push(engine.switch_policy(library).expect("it is good"));
            }
            switches
        });
        let start = Instant::now();
        let outcomes = engine.submit(job).expect("taken").wait();
        let seconds = start.elapsed().as_secs_f64();
        drop(done);
        assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
        let switches = switcher.join().expect("no panic");
        let switches: Vec<_> = switches.iter().map(Switch::report).collect();
        assert!(switches.iter().all(|switch| !matches!(switch.phase, SwitchPhase::RolledBack { .. })));
        Run { proofs_per_second: PARTITIONS as f64 / seconds, switches }
    })
}

fn milliseconds(ns: Option<u64>) -> f64 {
    ns.unwrap_or(0) as f64 / 1e6
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(3);
    let (circuit, witness) = fixtures::circuit("merkle");
    let srs = setup::generate(&circuit, ChaCha8Rng::seed_from_u64(1));
    let key = Arc::new(ProvingKey { circuit, srs });
    let mut runs: [Vec<Run>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (switching, runs) in [false, true].into_iter().zip(&mut runs) {
            runs.push(run(&key, &witness, switching));
        }
    }
    println!("{PARTITIONS} proofs of the `merkle` circuit, CPU core, 2 workers, {rounds} rounds in turns");
    println!(
        "| switches | proofs/s: slowest, median, fastest | drain, ms: mean, longest | pause, ms: mean, longest |"
    );
    println!("|---|---|---|---|");
    for runs in &runs {
        let mut rates: Vec<_> = runs.iter().map(|run| run.proofs_per_second).collect();
        rates.sort_by(f64::total_cmp);
        let switches: Vec<_> = runs.iter().flat_map(|run| &run.switches).collect();
        let swaps: Vec<_> = switches.iter().filter_map(|switch| switch.devices[0].swap).collect();
        let drains: Vec<_> = swaps.iter().map(|swap| milliseconds(Some(swap.drain_ns))).collect();
        let pauses: Vec<_> = swaps.iter().filter(|swap| swap.waited > 0).collect();
        let pauses: Vec<_> = pauses.iter().map(|swap| milliseconds(swap.pause_ns)).collect();
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len().max(1) as f64;
        let longest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
        println!(
            "| {} | {:.2}, {:.2}, {:.2} | {:.1}, {:.1} | {:.1}, {:.1} |",
            switches.len(),
            rates[0],
            median(rates.clone()),
            rates[rates.len() - 1],
            mean(&drains),
            longest(&drains),
            mean(&pauses),
            longest(&pauses),
        );
    }
}
