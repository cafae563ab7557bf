//! Figures against what can be worked out by hand.

mod support;

use interlock_simulator::simulate_watched;
use support::{POLICIES, assert_near, parse, policy, run, scenario, simulated};

/// The times of `support::scenario`.
const PREPARE: f64 = 3.0;
const STAGE: f64 = 2.0;
const COMPUTE: f64 = 5.0;
const FINISH: f64 = 1.0;
const ALL: f64 = PREPARE + STAGE + COMPUTE + FINISH;

fn closed(jobs: u64, in_flight: u64, workers: u32) -> String {
    format!("workers: {workers}, arrivals: [Closed(class: \"task\", jobs: {jobs}, in_flight: {in_flight})]")
}

#[test]
fn one_worker_takes_the_sum_of_the_stages() {
    for name in POLICIES {
        let figures = run(&scenario(&closed(7, 1, 1)), name);
        assert_eq!((figures.proofs, figures.partitions, figures.failed), (7, 7, 0), "{name}");
        assert_eq!(figures.makespan_s, 7.0 * ALL, "{name}");
        assert_eq!(figures.seconds_per_proof, Some(ALL), "{name}");
    }
}

#[test]
fn one_at_a_time_takes_the_sum_however_many_workers_there_are() {
    let figures = run(&scenario(&closed(7, 7, 7)), "serialized-fallback");
    assert_eq!(figures.makespan_s, 7.0 * ALL);
    // All skip, and all upload inside Compute.
    assert_eq!((figures.skips, figures.inline), (7, 7));
    assert_eq!(figures.stage_s["Compute inline"], STAGE + COMPUTE);
}

#[test]
fn single_lock_is_a_pipeline_of_the_cpu_and_the_device() {
    let jobs = 50;
    let figures = run(&scenario(&closed(jobs, jobs, 3)), "single-lock");
    // The first task prepares, then the device is never idle, then the last one finishes.
    assert_eq!(figures.makespan_s, PREPARE + jobs as f64 * (STAGE + COMPUTE) + FINISH);
    assert_near(figures.device_busy, COMPUTE / (STAGE + COMPUTE), 0.02, "device busy");
}

#[test]
fn two_lock_hides_the_upload_behind_kernels() {
    let jobs = 50;
    let figures = run(&scenario(&closed(jobs, jobs, 3)), "two-lock");
    // As above, but uploads run while another task computes. Three prepare at once at the start: the second is uploaded while the first
    // computes, and then there are no bytes for the third, which has waited for long enough and uploads inside Compute.
    assert_eq!(figures.makespan_s, PREPARE + STAGE + jobs as f64 * COMPUTE + STAGE + FINISH);
    assert_eq!((figures.skips, figures.inline, figures.out_of_memory), (1, 1, 0));
    assert_eq!(figures.devices[0].peak_reserved_bytes, 10 << 30);
    assert_eq!(figures.devices[0].peak_taken_bytes, 10 << 30);
}

#[test]
fn a_card_that_holds_one_task_stages_inline() {
    let small = closed(20, 20, 2) + ", seed: 1";
    let mut scenario = scenario(&small);
    scenario.devices[0].vram = interlock_settings::ByteSize(7 << 30);
    let figures = run(&scenario, "two-lock");
    assert!(figures.skips > 10, "{}", figures.skips);
    assert_eq!(figures.skips, figures.inline);
    assert_eq!(figures.devices[0].peak_taken_bytes, 6 << 30);
}

/// Two cores, and each stage on the device asks for both: whatever overlaps there takes turns, as on the CPU core.
#[test]
fn a_device_that_is_the_host_shares_its_processor() {
    let rest = closed(2, 2, 2) + ", synthesis: (workers: 2), host: (cores: 2)";
    let mut scenario = scenario(&rest);
    scenario.devices[0].vram = interlock_settings::ByteSize(12 << 30);
    scenario.devices[0].host_cores = Some(2.0);
    let figures = run(&scenario, "vram-token");
    // Both prepare, each on a core of its own; both upload and compute, at half the speed; both finish.
    assert_eq!(figures.makespan_s, PREPARE + 2.0 * (STAGE + COMPUTE) + FINISH);
    assert_near(figures.kernels_busy, 2.0 * COMPUTE / figures.makespan_s, 1e-9, "kernels busy");
    // Prepare of the second task costs the first one nothing but half of what it takes.
    let figures = run(&scenario, "serialized-fallback");
    assert_eq!(figures.makespan_s, 2.0 * ALL);
}

#[test]
fn kernels_that_share_an_engine_take_as_long_as_one_after_the_other() {
    let text = |kernels: &str| {
        format!(
            "(devices: [(vram: \"64GiB\", kernels: {kernels})], workers: 2, classes: [(name: \"task\", staged: \"1GiB\", \
             prepare: (time: Constant(\"0s\")), stage: Constant(\"0s\"), compute: Constant(\"5s\"), \
             finish: (time: Constant(\"0s\")))], arrivals: [Closed(class: \"task\", jobs: 20, in_flight: 2)])"
        )
    };
    for (kernels, makespan) in [
        ("Alone", 100.0),
        ("Shared(throughput: 1.0)", 100.0),
        ("Shared(throughput: 0.8)", 125.0),
        ("Shared(throughput: 2.0)", 50.0),
        ("Shared(throughput: 9.0)", 50.0),
    ] {
        let figures = run(&parse(&text(kernels)), "vram-token");
        assert_near(figures.makespan_s, makespan, 1e-9, kernels);
    }
}

#[test]
fn cpu_stages_share_the_cores() {
    let text = "(devices: [(vram: \"64GiB\", count: 4)], host: (cores: 4), workers: 1, synthesis: (workers: 4), \
                classes: [(name: \"task\", staged: \"1GiB\", prepare: (time: Constant(\"3s\"), cores: 4), stage: Constant(\"0s\"), \
                compute: Constant(\"0s\"), finish: (time: Constant(\"0s\")))], \
                arrivals: [Closed(class: \"task\", jobs: 4, in_flight: 4)])";
    let figures = run(&parse(text), "two-lock");
    // Four devices prepare at once, each at a quarter of its speed.
    assert_near(figures.makespan_s, 12.0, 1e-9, "makespan");
}

/// Poisson arrivals, exponential times, one server: the mean time in the system is 1 / (mu - lambda).
#[test]
fn an_m_m_1_queue_waits_as_long_as_the_formula_says() {
    let text = "(seed: 3, devices: [(vram: \"64GiB\")], workers: 1, classes: [(name: \"task\", staged: \"1GiB\", prepare: (time: Constant(\"0s\")), stage: Constant(\"0s\"), \
                compute: Exponential(mean: \"1s\"), finish: (time: Constant(\"0s\")))], \
                arrivals: [Poisson(class: \"task\", jobs: 200000, every: \"2s\")])";
    let figures = run(&parse(text), "single-lock");
    let (mu, lambda) = (1.0, 0.5);
    assert_near(figures.kernels_busy, lambda / mu, 0.01, "utilisation");
    // The time in the system is exponential with mean 2: its median is 2 ln 2, its 95th percentile 2 ln 20.
    let mean = 1.0 / (mu - lambda);
    assert_near(figures.latency_s.mean, mean, 0.02, "mean");
    assert_near(figures.latency_s.median, mean * 2_f64.ln(), 0.03, "median");
    assert_near(figures.latency_s.p95, mean * 20_f64.ln(), 0.03, "p95");
}

/// The same with constant times: Pollaczek and Khinchine give half the wait.
#[test]
fn an_m_d_1_queue_is_half_as_long() {
    let text = "(seed: 3, devices: [(vram: \"64GiB\")], workers: 1, classes: [(name: \"task\", staged: \"1GiB\", \
                prepare: (time: Constant(\"0s\")), stage: Constant(\"0s\"), compute: Constant(\"1s\"), finish: (time: Constant(\"0s\")))], \
                arrivals: [Poisson(class: \"task\", jobs: 200000, every: \"2s\")])";
    let figures = run(&parse(text), "single-lock");
    let (mu, rho) = (1.0, 0.5);
    assert_near(figures.latency_s.mean, 1.0 / mu * (1.0 + rho / (2.0 * (1.0 - rho))), 0.01, "mean");
}

#[test]
fn a_device_wide_call_waits_for_kernels_and_holds_back_what_comes_after() {
    let calls = |at: &str| {
        format!(
            "(devices: [(vram: \"64GiB\")], workers: 2, classes: [(name: \"task\", staged: \"1GiB\", \
             prepare: (time: Constant(\"0s\")), stage: Constant(\"1s\"), compute: Constant(\"5s\"), finish: (time: Constant(\"0s\")){at})], \
             arrivals: [Closed(class: \"task\", jobs: 40, in_flight: 2)])"
        )
    };
    // Without calls the upload is hidden.
    assert_eq!(run(&parse(&calls("")), "two-lock").makespan_s, 1.0 + 40.0 * 5.0);
    // With one in Stage it begins when the kernels of the other task have ended, and nothing is hidden any more.
    let stalled = run(&parse(&calls(", device_wide: (at: [Stage])")), "two-lock");
    assert_eq!(stalled.makespan_s, 40.0 * 6.0);
    // The call's own time comes on top.
    let slower = run(&parse(&calls(", device_wide: (at: [Stage], time: \"500ms\")")), "two-lock");
    assert_eq!(slower.makespan_s, 40.0 * 6.5);
}

#[test]
fn what_a_task_takes_beyond_its_plan_runs_out_of_memory() {
    let mut scenario = scenario(&closed(6, 6, 2));
    let gib = |count: u64| interlock_settings::ByteSize(count << 30);
    scenario.classes[0].actual = Some(interlock_simulator::Bytes { staged: gib(8), extra: gib(1) });
    scenario.classes[0].fallback =
        Some(interlock_simulator::CpuWork::constant(interlock_simulator::Time(60_000_000_000)));
    let figures = run(&scenario, "two-lock");
    assert!(figures.out_of_memory > 0);
    assert_eq!(
        figures.first_out_of_memory_s,
        Some(PREPARE + STAGE),
        "the second upload, when the first has ended"
    );
    assert_eq!(figures.failures, figures.out_of_memory);
    assert_eq!(figures.proofs, 6);
    assert!(figures.devices[0].peak_taken_bytes <= 10 << 30);
}

#[test]
fn a_failed_task_is_tried_inline_and_then_on_the_cpu() {
    let faults = "faults: [AllocationFailure(class: \"task\", probability: 1.0)]";
    let mut scenario = scenario(&format!("{}, {faults}", closed(3, 1, 1)));
    let figures = run(&scenario, "two-lock");
    // Nothing takes over.
    assert_eq!((figures.proofs, figures.failed), (0, 3));
    assert_eq!((figures.failures, figures.retries, figures.fallbacks, figures.inline), (6, 3, 0, 0));
    assert_eq!(figures.seconds_per_proof, None);
    scenario.classes[0].fallback =
        Some(interlock_simulator::CpuWork::constant(interlock_simulator::Time(60_000_000_000)));
    let figures = run(&scenario, "two-lock");
    assert_eq!((figures.proofs, figures.failed, figures.fallbacks), (3, 0, 3));
    assert_eq!(figures.makespan_s, 3.0 * (2.0 * PREPARE + 60.0));
}

#[test]
fn slow_tasks_are_slow_in_all_their_stages() {
    let faults = "faults: [SlowTask(class: \"task\", probability: 1.0, factor: 3.0)]";
    let figures = run(&scenario(&format!("{}, {faults}", closed(2, 1, 1))), "single-lock");
    assert_eq!(figures.makespan_s, 2.0 * 3.0 * ALL);
    let faults = "faults: [SlowTask(class: \"task\", probability: 0.25, factor: 3.0)]";
    let figures = run(&scenario(&format!("{}, {faults}", closed(4_000, 1, 1))), "single-lock");
    assert_near(figures.makespan_s, 4_000.0 * 1.5 * ALL, 0.03, "a quarter of them three times as slow");
}

#[test]
fn a_lost_device_costs_no_task() {
    let text = |fallback: &str, losses: &str| {
        format!(
            "(devices: [(vram: \"10GiB\", count: 2)], workers: 2, classes: [(name: \"task\", staged: \"4GiB\", extra: \"2GiB\", \
             prepare: (time: Constant(\"3s\")), stage: Constant(\"2s\"), compute: Constant(\"5s\"), finish: (time: Constant(\"1s\")) \
             {fallback})], arrivals: [Closed(class: \"task\", jobs: 30, in_flight: 8)], faults: [{losses}])"
        )
    };
    let fallback = ", fallback: (time: Constant(\"60s\"))";
    for name in POLICIES {
        let one = run(&parse(&text("", "DeviceLoss(device: 0, at: \"12s\")")), name);
        assert_eq!((one.proofs, one.failed), (30, 0), "{name}");
        assert_eq!([one.devices[0].lost, one.devices[1].lost], [true, false], "{name}");
        let both = "DeviceLoss(device: 0, at: \"12s\"), DeviceLoss(device: 1, at: \"20s\")";
        let none = run(&parse(&text("", both)), name);
        assert_eq!(none.proofs + none.failed, 30, "{name}");
        assert!(none.failed > 20, "{name}: {}", none.failed);
        let rescued = run(&parse(&text(fallback, both)), name);
        assert_eq!((rescued.proofs, rescued.failed), (30, 0), "{name}");
        assert!(rescued.fallbacks > 20, "{name}: {}", rescued.fallbacks);
    }
}

#[test]
fn jobs_of_a_trace_wait_for_those_before_them() {
    let jobs = "workers: 2, arrivals: [Trace(jobs: [(at: \"0s\", class: \"task\", name: \"a\"), (at: \"1s\", class: \"task\", after: [\"a\"]), \
                (at: \"100s\", class: \"task\", after: [\"a\"])])]";
    let figures = run(&scenario(jobs), "single-lock");
    assert_eq!(figures.makespan_s, 100.0 + ALL);
    // Each is alone on the device.
    assert_eq!((figures.latency_s.median, figures.latency_s.max), (ALL, ALL));
}

#[test]
fn higher_priority_goes_first() {
    let class = |name: &str, priority: i32| {
        format!(
            "(name: \"{name}\", priority: {priority}, staged: \"1GiB\", prepare: (time: Constant(\"0s\")), stage: Constant(\"0s\"), \
             compute: Constant(\"10s\"), finish: (time: Constant(\"0s\")))"
        )
    };
    let text = format!(
        "(devices: [(vram: \"2GiB\")], workers: 1, synthesis: (workers: 1, ahead: 1), classes: [{}, {}], arrivals: [Trace(jobs: [\
         (at: \"0s\", class: \"low\"), (at: \"1s\", class: \"low\"), (at: \"1s\", class: \"low\"), (at: \"2s\", class: \"high\")])])",
        class("low", 0),
        class("high", 5)
    );
    let events = support::Events::default();
    simulated(&parse(&text), "single-lock", Some(&events));
    let order: Vec<u64> = events
        .0
        .into_inner()
        .expect("nobody panics")
        .iter()
        .filter(|event| event.event == interlock_arbiter::TimelineKind::Arrived)
        .filter_map(|event| event.job)
        .collect();
    // The second one has its witness by the time the urgent one comes.
    assert_eq!(order, [1, 2, 4, 3]);
}

#[test]
fn all_figures_are_the_same_again() {
    let rest = "seed: 9, workers: 3, host: (cores: 2), arrivals: [Poisson(class: \"task\", jobs: 300, every: \"4s\")], \
                faults: [AllocationFailure(class: \"task\", probability: 0.05), SlowTask(class: \"task\", probability: 0.1, factor: 2.5)]";
    let mut scenario = scenario(rest);
    scenario.classes[0].compute = interlock_simulator::Distribution::Normal {
        mean: interlock_simulator::Time(3_000_000_000),
        sd: interlock_simulator::Time(900_000_000),
    };
    scenario.classes[0].fallback =
        Some(interlock_simulator::CpuWork::constant(interlock_simulator::Time(9_000_000_000)));
    for name in POLICIES {
        let (first, again) = (support::Events::default(), support::Events::default());
        let figures = simulated(&scenario, name, Some(&first));
        let once_more = simulated(&scenario, name, Some(&again));
        assert_eq!(figures.figures, once_more.figures, "{name}");
        assert_eq!(figures.events, once_more.events, "{name}");
        assert_eq!(first.0.into_inner().ok(), again.0.into_inner().ok(), "{name}");
        // Whether anybody listens makes no difference.
        assert_eq!(figures.figures, run(&scenario, name), "{name}");
    }
    let before = run(&scenario, "two-lock");
    scenario.seed += 1;
    assert_ne!(run(&scenario, "two-lock").makespan_s, before.makespan_s);
}

#[test]
fn a_policy_that_lets_nobody_in_is_replaced() {
    let scenario = scenario(&(closed(4, 4, 2) + ", limits: (stall: \"50ms\")"));
    let fallback = policy("serialized-fallback");
    for restless in [false, true] {
        let simulated =
            interlock_simulator::simulate(&scenario, &support::Never::new(restless), &*fallback, None);
        let figures = simulated.expect("it ends").figures;
        assert_eq!((figures.proofs, figures.quarantines.len()), (4, 1));
        let quarantined = &figures.quarantines[0];
        assert_eq!((quarantined.code, quarantined.at_s), ("stalled", 0.05));
        assert_eq!(quarantined.policy, "never");
        assert_eq!(figures.devices[0].policy, "serialized-fallback");
        assert_eq!(figures.makespan_s, 0.05 + 4.0 * ALL);
    }
}

#[test]
fn a_run_that_no_clock_can_show_is_an_error() {
    let mut scenario = scenario(&closed(4, 1, 1));
    scenario.classes[0].compute =
        interlock_simulator::Distribution::Constant("876000h".parse().expect("a time"));
    let fallback = policy("serialized-fallback");
    let error = interlock_simulator::simulate(&scenario, &*policy("single-lock"), &*fallback, None);
    assert!(matches!(error, Err(interlock_simulator::SimulateError::TooLong)), "{error:?}");
}

#[test]
fn a_long_run_tells_how_far_it_is_and_gives_the_same_figures() {
    let scenario = scenario(&closed(5_000, 4, 3));
    let (policy, fallback) = (policy("two-lock"), policy("serialized-fallback"));
    let mut told = Vec::new();
    let watched =
        simulate_watched(&scenario, &*policy, &*fallback, None, &mut |progress| told.push(progress));
    let watched = watched.expect("it comes to its end");
    assert_eq!(watched.figures, run(&scenario, "two-lock"));
    assert!(
        told.len() > 1 && told.is_sorted_by_key(|progress| (progress.events, progress.now_ns)),
        "{told:?}"
    );
    assert!(told.iter().all(|progress| progress.events < watched.events && progress.partitions_left <= 4));
}
