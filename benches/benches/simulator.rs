//! How many events the simulator works off in a second.
//!
//! `cargo bench -p interlock-benches --bench simulator`

use std::process::ExitCode;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use interlock_engine::host::{PolicyLibrary, isolation};
use interlock_simulator::{Scenario, simulate};
use interlock_tests::libraries::verified;

const POLICIES: [&str; 3] = ["single-lock", "two-lock", "vram-token"];

/// Jobs of ten partitions, as many in flight as there are device workers, times at random.
fn scenario(jobs: u64, devices: u32, workers: u32) -> Scenario {
    let in_flight = u64::from(devices * workers);
    let text = format!(
        "(devices: [(vram: \"16GiB\", count: {devices})], workers: {workers}, synthesis: (workers: {in_flight}), classes: [(\
         name: \"porep\", partitions: 10, staged: \"4403MiB\", extra: \"6349MiB\", synthesis: (time: Exponential(mean: \"4s\")), \
         prepare: (time: Normal(mean: \"818ms\", sd: \"50ms\")), stage: Constant(\"18ms\"), \
         compute: LogNormal(mean: \"1.824s\", sd: \"100ms\"), finish: (time: Constant(\"499ms\")), \
         verify: (time: Constant(\"3ms\")))], \
         arrivals: [Closed(class: \"porep\", jobs: {jobs}, in_flight: {in_flight})])"
    );
    Scenario::parse(&text, None).unwrap_or_else(|error| panic!("{error}"))
}

fn library(policy: &str) -> PolicyLibrary {
    PolicyLibrary::open(verified(policy, "")).expect("it is good")
}

fn events(criterion: &mut Criterion) {
    let fallback = PolicyLibrary::fallback();
    let mut group = criterion.benchmark_group("simulator");
    for (devices, workers) in [(1, 2), (1, 16), (8, 4)] {
        let scenario = scenario(2_000, devices, workers);
        for policy in POLICIES {
            let policy = library(policy);
            let run = || simulate(&scenario, &policy, &fallback, None).expect("it runs").events;
            group.throughput(Throughput::Elements(run()));
            let name = format!("{}, {devices} devices of {workers} workers", PolicyLibrary::name(&policy));
            group.bench_function(name, |bencher| bencher.iter(run));
        }
    }
    group.finish();
}

/// One long run of each policy, as `interlock simulate` does it.
fn long_runs() {
    let scenario = scenario(20_000, 1, 2);
    for policy in POLICIES {
        let policy = library(policy);
        let begun = Instant::now();
        let events = simulate(&scenario, &policy, &PolicyLibrary::fallback(), None).expect("it runs").events;
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{}: {events} events in {seconds:.3} s: {:.0} a second",
            PolicyLibrary::name(&policy),
            events as f64 / seconds
        );
    }
}

fn main() -> ExitCode {
    if let Some(exit) = isolation::serve_if_asked() {
        return exit;
    }
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    events(&mut criterion);
    long_runs();
    criterion.final_summary();
    ExitCode::SUCCESS
}
