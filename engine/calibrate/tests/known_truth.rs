//! Runs that the simulator made, of which the truth is known: calibrated from their timelines alone.

use std::path::Path;
use std::sync::Mutex;

use interlock_arbiter::{PolicySource, Recorder, TimelineEvent};
use interlock_calibrate::{CalibrateError, Comparison, Conditions, Costs, Measured, Note, predict};
use interlock_conformance::Linked;
use interlock_policy_api::Policy;
use interlock_serialized_fallback::SerializedFallback;
use interlock_settings::ByteSize;
use interlock_simulator::{Arrivals, CpuWork, Distribution, Kernels, Scenario, TaskClass, Time, simulate};
use interlock_single_lock::SingleLock;
use interlock_timeline::Timeline;
use interlock_two_lock::TwoLock;
use interlock_vram_token::VramToken;

/// Writes a timeline as the engine does.
struct Csv(Mutex<csv::Writer<Vec<u8>>>);

impl Recorder for Csv {
    fn record(&self, event: &TimelineEvent) {
        self.0.lock().expect("nobody panics").serialize(event).expect("written");
    }
}

fn linked<P: Policy>() -> Linked<P> {
    Linked::new("").expect("a policy that ships")
}

fn policy(name: &str) -> Box<dyn PolicySource> {
    match name {
        "serialized-fallback" => Box::new(linked::<SerializedFallback>()),
        "single-lock" => Box::new(linked::<SingleLock>()),
        "two-lock" => Box::new(linked::<TwoLock>()),
        _ => Box::new(linked::<VramToken>()),
    }
}

/// A run as its timeline tells it, through the file's own format.
fn run(scenario: &Scenario, name: &str) -> Timeline {
    let csv = Csv(Mutex::new(csv::Writer::from_writer(Vec::new())));
    simulate(scenario, &*policy(name), &linked::<SerializedFallback>(), Some(&csv)).expect("it runs");
    let bytes = csv.0.into_inner().expect("nobody panics").into_inner().expect("all of it");
    Timeline::read(Path::new("simulated.csv"), bytes.as_slice()).unwrap_or_else(|error| panic!("{error}"))
}

/// A job of many partitions with times that differ. `device` and `rest` fill in what the tests are about.
fn scenario(device: &str, rest: &str) -> Scenario {
    let text = format!(
        "(seed: 3, host: (cores: 4), devices: [(vram: \"16GiB\"{device})], classes: [(name: \"task\", partitions: 400, \
         staged: \"4GiB\", extra: \"2GiB\", synthesis: (time: LogNormal(mean: \"300ms\", sd: \"50ms\")), \
         prepare: (time: LogNormal(mean: \"400ms\", sd: \"40ms\")), stage: Normal(mean: \"250ms\", sd: \"20ms\"), \
         compute: LogNormal(mean: \"1s\", sd: \"100ms\"), finish: (time: Constant(\"50ms\")), \
         verify: (time: Constant(\"4ms\")))], arrivals: [Closed(class: \"task\", jobs: 1, in_flight: 1)], {rest})"
    );
    Scenario::parse(&text, None).unwrap_or_else(|error| panic!("{error}"))
}

fn card() -> Scenario {
    scenario(", kernels: Shared(throughput: 1.0)", "workers: 3")
}

/// As the CPU core: whatever runs at once slows each other down.
fn on_host() -> Scenario {
    let mut scenario = scenario(", host_cores: 4", "workers: 3");
    scenario.classes[0].prepare.cores = 4.0;
    scenario
}

fn mean(distribution: &Distribution) -> f64 {
    match distribution {
        Distribution::Constant(time) => time.as_secs_f64(),
        Distribution::Samples(times) => {
            times.iter().map(|time| time.as_secs_f64()).sum::<f64>() / times.len() as f64
        }
        other => panic!("{other:?} is not fitted"),
    }
}

/// The class of the only job.
fn fitted(timeline: &Timeline) -> TaskClass {
    let costs = Costs::fit(timeline).expect("it can be fitted");
    let scenario = costs.scenario(&Conditions::of(timeline).expect("told")).expect("a scenario");
    scenario.classes[0].clone()
}

#[track_caller]
fn near(found: f64, truth: f64, tolerance: f64) {
    assert!((found / truth - 1.0).abs() < tolerance, "{found}, the truth is {truth}");
}

#[test]
fn the_means_of_the_stages_are_recovered() {
    for (truth, policy) in
        [(card(), "two-lock"), (card(), "vram-token"), (on_host(), "two-lock"), (on_host(), "single-lock")]
    {
        let class = fitted(&run(&truth, policy));
        let work = |work: &Option<CpuWork>| mean(&work.as_ref().expect("seen").time);
        near(work(&class.synthesis), 0.3, 0.03);
        near(mean(&class.prepare.time), 0.4, 0.03);
        near(mean(&class.stage), 0.25, 0.03);
        near(mean(&class.compute), 1.0, 0.03);
        near(mean(&class.finish.time), 0.05, 0.03);
        near(work(&class.verify), 0.004, 0.03);
        assert_eq!((class.staged, class.extra), (ByteSize(4 << 30), ByteSize(2 << 30)));
    }
}

/// What the simulator gives for the fitted scenario, and what it gave for the true one.
#[track_caller]
fn predicts(fitted_from: &Timeline, truth: &Scenario, name: &str, tolerance: f64) {
    let measured = run(truth, name);
    let costs = Costs::fit(fitted_from).expect("it can be fitted");
    let scenario = costs.scenario(&Conditions::of(&measured).expect("told")).expect("a scenario");
    let fallback = linked::<SerializedFallback>();
    let predicted = predict(&scenario, &*policy(name), &fallback, 10).expect("it runs");
    let comparison = Comparison::new(name, predicted, Measured::of(&measured).expect("proofs"));
    assert!(comparison.proofs_per_s_error.abs() < tolerance, "{comparison:?}");
    assert!(comparison.p95_latency_error.abs() < tolerance, "{comparison:?}");
}

#[test]
fn the_same_run_is_predicted() {
    for name in ["two-lock", "single-lock", "vram-token"] {
        predicts(&run(&card(), name), &card(), name, 0.03);
        predicts(&run(&on_host(), name), &on_host(), name, 0.03);
        let enough = Scenario { host: Default::default(), ..card() };
        predicts(&run(&enough, name), &enough, name, 0.03);
    }
}

#[test]
fn other_policies_and_other_workers_are_predicted() {
    let (card_run, host_run) = (run(&card(), "two-lock"), run(&on_host(), "two-lock"));
    for workers in [1, 2, 4] {
        for name in ["single-lock", "two-lock", "vram-token"] {
            predicts(&card_run, &Scenario { workers, seed: 99, ..card() }, name, 0.05);
            predicts(&host_run, &Scenario { workers, seed: 99, ..on_host() }, name, 0.05);
        }
    }
}

/// Without synthesis a latency begins when a task comes to its device, in a simulated run as in a measured one.
#[test]
fn runs_without_synthesis_are_predicted() {
    let mut bare = card();
    (bare.classes[0].synthesis, bare.classes[0].verify) = (None, None);
    predicts(&run(&bare, "two-lock"), &Scenario { workers: 2, ..bare }, "single-lock", 0.03);
}

/// Stages that use half of the processors slow each other down less: that is seen in their times.
#[test]
fn the_cores_that_a_stage_uses_are_recovered() {
    let mut half = scenario(", host_cores: 2", "workers: 3");
    half.classes[0].prepare.cores = 2.0;
    let timeline = run(&half, "vram-token");
    let costs = Costs::fit(&timeline).expect("it can be fitted");
    let scenario = costs.scenario(&Conditions::of(&timeline).expect("told")).expect("a scenario");
    near(scenario.devices[0].host_cores.expect("on the host"), 2.0, 0.3);
}

/// Tasks that are sometimes alone on the device and sometimes not tell what company costs them.
#[test]
fn what_becomes_of_kernels_of_several_tasks_is_recovered() {
    let kernels = |truth: &str| {
        let mut scenario = scenario(&format!(", kernels: {truth}"), "workers: 4");
        scenario.classes[0].partitions = 1;
        let every = Time::from_secs_f64(1.8);
        scenario.arrivals = vec![Arrivals::Poisson { class: "task".into(), jobs: 600, every }];
        let timeline = run(&scenario, "vram-token");
        let costs = Costs::fit(&timeline).expect("it can be fitted");
        assert!(costs.notes().is_empty());
        let scenario = costs.scenario(&Conditions::of(&timeline).expect("told")).expect("a scenario");
        scenario.devices[0].kernels
    };
    for truth in [0.8, 1.0, 1.4] {
        let Kernels::Shared { throughput } = kernels(&format!("Shared(throughput: {truth:.1})")) else {
            panic!("they do not wait for each other");
        };
        near(throughput, truth, 0.08);
    }
    assert_eq!(kernels("Alone"), Kernels::Alone);
}

/// A run in which nothing was staged cannot tell what an upload takes.
#[test]
fn what_a_run_cannot_tell_is_said() {
    let timeline = run(&card(), "serialized-fallback");
    let costs = Costs::fit(&timeline).expect("it can be fitted");
    assert_eq!(costs.notes(), [Note::NeverStaged, Note::NeverTogether]);
    near(mean(&fitted(&timeline).compute), 1.25, 0.03);
}

#[test]
fn a_timeline_that_does_not_tell_enough_is_refused() {
    let header = "at_ns,event,core,device,worker,job,partition,task,stage,duration_ns,bytes,locks,detail\n";
    let old = format!("{header}10,arrived,cpu,0,0,1,0,1,,,,,\n20,left,cpu,0,0,1,0,1,,,,,\n");
    let old = Timeline::read(Path::new("old.csv"), old.as_bytes()).expect("a timeline");
    assert!(matches!(Costs::fit(&old), Err(CalibrateError::NotTold(_))));
    let mut other = card();
    other.classes[0].staged = ByteSize(5 << 30);
    let costs = Costs::fit(&run(&card(), "two-lock")).expect("it can be fitted");
    let conditions = Conditions::of(&run(&other, "two-lock")).expect("told");
    assert!(matches!(costs.scenario(&conditions), Err(CalibrateError::OtherWork { .. })));
}
