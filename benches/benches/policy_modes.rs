//! What a decision costs in the engine's process and in one of its own, and what that does to throughput.
//!
//! `cargo bench -p interlock-benches --bench policy_modes` measures decisions; with `-- throughput ROUNDS [STATEMENT]` it proves jobs under
//! either mode in turns: of `merkle`, 64 proofs of 25 ms, or of `chunk`, 6 proofs of most of a second.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::Criterion;
use interlock_engine::circuit::bellpepper::{record, synthesize_witness};
use interlock_engine::circuit::{Circuit, FileChunk, Witness};
use interlock_engine::core::ProvingKey;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::host::{PolicyLibrary, ProcessSettings, isolation};
use interlock_engine::interlock::{
    Arbiter, ArbiterConfig, Command, Event, Limits, Outcome, PolicyPort, TaskId, TaskSpec,
};
use interlock_engine::pipeline::{Engine, Job, Metered};
use interlock_engine::srs::setup;
use interlock_experiment::{Better, Interval, compare, round_order};
use interlock_policy_api::testing::{request, view};
use interlock_policy_api::{LockView, Stage};
use interlock_tests::fixtures;
use interlock_tests::libraries::verified;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const MODES: [&str; 2] = ["in process", "process"];
const WAITERS: u64 = 16;

fn library(policy: &str, mode: &str) -> PolicyLibrary {
    let verified = verified(policy, "");
    let library = if mode == "process" {
        // This program answers to `policy-host`: see `main`.
        let host = std::env::current_exe().expect("it runs from a file");
        // Other work must not end a measurement.
        let settings = ProcessSettings::new(host).decision(Duration::from_secs(10));
        PolicyLibrary::isolate(verified, settings)
    } else {
        PolicyLibrary::open(verified)
    };
    library.expect("the library is good")
}

/// One question.
fn decide(policy: &mut dyn PolicyPort) {
    let locks = [LockView { permits: 1, free: 1 }, LockView { permits: 1, free: 0 }];
    let (request, view) = (black_box(request(Stage::STAGE)), view(&locks));
    black_box(policy.decide(&request, &view)).expect("it answers");
}

/// A device with one task in Compute and [`WAITERS`] that wait for it.
struct Busy {
    arbiter: Arbiter,
    /// As the engine has it in its seats.
    policy: Metered,
    next: u64,
    computing: TaskId,
    now_ns: u64,
}

impl Busy {
    fn new(mode: &str) -> Self {
        let library = library("two-lock", mode);
        let limits = Limits { refusals: 16, stall_ns: u64::MAX, ..Limits::DEFAULT };
        let config = ArbiterConfig { device: 0, capacity_bytes: 10, workers: 32, limits };
        let arbiter = Arbiter::new(config, library.locks().clone());
        let policy = Metered::new(library.instantiate().expect("it starts"), 0);
        let mut busy = Self { arbiter, policy, next: 0, computing: TaskId(0), now_ns: 0 };
        for _ in 0..=WAITERS {
            busy.arrive();
        }
        busy
    }

    fn step(&mut self, event: Event) {
        self.now_ns += 1_000;
        let mut commands =
            self.arbiter.step(self.now_ns, event, &mut self.policy).expect("the events make sense");
        while let Some(command) = commands.pop() {
            // All stages but Compute end at once.
            match command {
                Command::Run { task, stage: Stage::COMPUTE, .. } => self.computing = task,
                Command::Run { task, .. } => self.step(Event::StageEnded { task, outcome: Outcome::Done }),
                Command::Quarantined(why) => panic!("{why}"),
                _ => {}
            }
        }
    }

    fn arrive(&mut self) {
        let task = TaskId(self.next);
        self.next += 1;
        self.step(Event::Arrived(TaskSpec {
            task,
            job: 0,
            partition: 0,
            priority: 0,
            staged_bytes: 4,
            peak_bytes: 6,
            retry: false,
        }));
    }

    /// A task ends its Compute and leaves, the next one takes its place, and another one arrives: every waiter is asked.
    fn turn(&mut self) {
        self.step(Event::StageEnded { task: self.computing, outcome: Outcome::Done });
        self.arrive();
    }
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("policy");
    for mode in MODES {
        let mut policy = library("two-lock", mode).instantiate().expect("it starts");
        group.bench_function(format!("decide, {mode}"), |bencher| bencher.iter(|| decide(&mut policy)));
        let mut metered = Metered::new(library("two-lock", mode).instantiate().expect("it starts"), 0);
        group.bench_function(format!("decide and meter, {mode}"), |bencher| {
            bencher.iter(|| decide(&mut metered));
        });
        let mut busy = Busy::new(mode);
        group.bench_function(format!("a task through {WAITERS} waiters, {mode}"), |bencher| {
            bencher.iter(|| busy.turn());
        });
        let decisions = |busy: &Busy| busy.policy.stats(0).decisions.count;
        let before = decisions(&busy);
        (0..100).for_each(|_| busy.turn());
        println!("    {} decisions for each task", (decisions(&busy) - before) / 100);
    }
    group.finish();
}

/// Median and 99th percentile of single questions, asked one after the other or after a pause in which the process falls
/// asleep.
fn percentiles() {
    const PAUSE: Duration = Duration::from_millis(1);
    for mode in MODES {
        for (pause, count) in [(None, 100_000), (Some(PAUSE), 3_000)] {
            let mut policy = library("two-lock", mode).instantiate().expect("it starts");
            let mut times: Vec<Duration> = (0..count)
                .map(|_| {
                    pause.into_iter().for_each(std::thread::sleep);
                    let start = Instant::now();
                    decide(&mut policy);
                    start.elapsed()
                })
                .collect();
            times.sort_unstable();
            let at = |percent: usize| times[times.len() * percent / 100];
            let (median, most) = (at(50), at(99));
            let asked = pause.map_or("one after the other".to_owned(), |pause| format!("every {pause:?}"));
            println!("decide, {mode}, {asked}: median {median:?}, p99 {most:?}, {count} questions");
        }
    }
}

/// What is proved: many small proofs, or some of the size that proofs of files have.
fn statement(name: &str) -> (Circuit, Witness, usize) {
    match name {
        "chunk" => {
            let bytes = 32;
            let circuit = record(FileChunk::shape(bytes)).expect("the circuit is well-formed");
            let chunk = FileChunk::new(b"bytes", bytes).expect("the chunk fits");
            (circuit, synthesize_witness(chunk).expect("all values are there"), 6)
        }
        name => {
            let (circuit, witness) = fixtures::circuit(name);
            (circuit, witness, 64)
        }
    }
}

/// Proves the same job under either mode in turns.
fn throughput(rounds: usize, name: &str) {
    let (circuit, witness, partitions) = statement(name);
    let srs = setup::generate(&circuit, ChaCha8Rng::seed_from_u64(1));
    let key = Arc::new(ProvingKey { circuit, srs });
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for arm in round_order(MODES.len(), round) {
            let (mode, times) = (MODES[arm], &mut times[arm]);
            let core = Arc::new(CpuCore::new(1 << 30, Some(1)).expect("a thread"));
            let engine = Engine::builder(core).policy(library("two-lock", mode)).start().expect("it starts");
            let mut job = Job::new(key.clone());
            (0..partitions).for_each(|_| job.push_witness(witness.clone()));
            let start = Instant::now();
            let outcomes = engine.submit(job).expect("taken").wait();
            let time = start.elapsed();
            assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
            println!("round {round}, {mode}: {partitions} proofs in {time:?}");
            times.push(time);
        }
    }
    let seconds = |times: &[Duration]| times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>();
    let pairs: Vec<(f64, f64)> = seconds(&times[0]).into_iter().zip(seconds(&times[1])).collect();
    for (mode, times) in MODES.iter().zip(&mut times) {
        times.sort_unstable();
        let (fastest, median) = (times[0], times[times.len() / 2]);
        println!("{mode}: fastest {fastest:?}, median {median:?}");
    }
    if let Some(compared) = compare(&pairs, Better::Lower, 1) {
        let Interval { estimate, low, high } = compared.ratio;
        println!(
            "time in a process over time in process: {estimate:.4} [{low:.4}, {high:.4}], rounds as pairs"
        );
    }
}

fn main() -> ExitCode {
    if let Some(exit) = isolation::serve_if_asked() {
        return exit;
    }
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "throughput") {
        let rounds = arguments.get(at + 1).and_then(|rounds| rounds.parse().ok()).unwrap_or(5);
        throughput(rounds, arguments.get(at + 2).map_or("merkle", String::as_str));
        return ExitCode::SUCCESS;
    }
    let mut criterion = Criterion::default().configure_from_args();
    decisions(&mut criterion);
    percentiles();
    criterion.final_summary();
    ExitCode::SUCCESS
}
