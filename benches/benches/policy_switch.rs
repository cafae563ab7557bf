//! What switches of the policy cost under load: the same job with no switch, with one each second from a policy to itself (the
//! cost of switching alone), and with one each second through all policies, in turns.
//!
//! `cargo bench -p interlock-benches --bench policy_switch -- ROUNDS`

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use interlock_benches::measure::median;
use interlock_engine::circuit::Witness;
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
/// What sits first, and what each run switches through.
const FIRST: &str = "two-lock";
const RUNS: [(&str, &[&str]); 3] = [
    ("no switch", &[]),
    ("to itself", &[FIRST]),
    ("through all", &["single-lock", "vram-token", "serialized-fallback", FIRST]),
];

/// What one job took.
struct Run {
    proofs_per_second: f64,
    switches: Vec<SwitchReport>,
}

fn library(policy: &str) -> PolicyLibrary {
    PolicyLibrary::open(verified(policy, "")).expect("it is good")
}

/// Proves a job, each second under another one of these policies.
fn run(key: &Arc<ProvingKey>, witness: &Witness, policies: &[&str]) -> Run {
    let libraries: Vec<_> = policies.iter().map(|policy| library(policy)).collect();
    let core = Arc::new(CpuCore::new(1 << 30, Some(1)).expect("a thread"));
    let engine = Engine::builder(core).policy(library(FIRST)).start().expect("it starts");
    let mut job = Job::new(key.clone());
    (0..PARTITIONS).for_each(|_| job.push_witness(witness.clone()));
    let (done, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let engine = &engine;
        let switcher = scope.spawn(move || {
            let mut switches: Vec<Switch> = Vec::new();
            while !libraries.is_empty() && ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
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

/// Mean and longest in milliseconds.
fn times(ns: impl Iterator<Item = u64>) -> String {
    let times: Vec<f64> = ns.map(|ns| ns as f64 / 1e6).collect();
    if times.is_empty() {
        return "none".to_owned();
    }
    let (sum, longest) =
        times.iter().fold((0.0, 0.0_f64), |(sum, longest), time| (sum + time, longest.max(*time)));
    format!("{:.1}, {longest:.1}", sum / times.len() as f64)
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(3);
    let (circuit, witness) = fixtures::circuit("merkle");
    let srs = setup::generate(&circuit, ChaCha8Rng::seed_from_u64(1));
    let key = Arc::new(ProvingKey { circuit, srs });
    let mut runs: [Vec<Run>; RUNS.len()] = Default::default();
    for _ in 0..rounds {
        for ((_, policies), runs) in RUNS.iter().zip(&mut runs) {
            runs.push(run(&key, &witness, policies));
        }
    }
    println!("{PARTITIONS} proofs of the `merkle` circuit, CPU core, 2 workers, {rounds} rounds in turns");
    println!(
        "| each second | switches | proofs/s: slowest, median, fastest | drain, ms: mean, longest | tasks waited | \
         pause, ms: mean, longest |"
    );
    println!("|---|---|---|---|---|---|");
    for ((name, _), runs) in RUNS.iter().zip(&runs) {
        let mut rates: Vec<_> = runs.iter().map(|run| run.proofs_per_second).collect();
        rates.sort_by(f64::total_cmp);
        let switches: Vec<_> = runs.iter().flat_map(|run| &run.switches).collect();
        let swaps: Vec<_> = switches.iter().filter_map(|switch| switch.devices[0].swap).collect();
        println!(
            "| {name} | {} | {:.1}, {:.1}, {:.1} | {} | {} | {} |",
            switches.len(),
            rates[0],
            median(rates.clone()),
            rates[rates.len() - 1],
            times(swaps.iter().map(|swap| swap.drain_ns)),
            swaps.iter().map(|swap| swap.waited).sum::<u64>(),
            times(swaps.iter().filter_map(|swap| swap.pause_ns)),
        );
    }
}
