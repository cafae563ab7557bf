//! What the engine says about the policies that sat on its devices, held against what the policies counted themselves.

use std::sync::Arc;

use interlock_engine::core::ProvingKey;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::host::PolicyLibrary;
use interlock_engine::interlock::{Limits, Refusal};
use interlock_engine::pipeline::{DevicePolicyStats, Engine, Job, PolicyStats};
use interlock_engine::report;
use interlock_engine::srs::setup;
use interlock_tests::fixtures;
use interlock_tests::libraries::verified;
use rand::rngs::OsRng;

/// Where dumps go: not to the user's own.
const DUMPS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/dumps");
const PARTITIONS: usize = 8;
const LIMITS: Limits = Limits { refusals: 4, stall_ns: 100_000_000, ..Limits::DEFAULT };

fn policy(name: &str, options: &str) -> PolicyLibrary {
    PolicyLibrary::open(verified(name, options)).expect("the library is good")
}

fn engine(policy: PolicyLibrary) -> (Engine, impl Fn(&Engine)) {
    let (circuit, witness) = fixtures::circuit("multiplier");
    let srs = setup::generate(&circuit, OsRng);
    let key = Arc::new(ProvingKey { circuit, srs });
    let core = CpuCore::new(1 << 30, Some(1)).expect("a thread");
    let engine =
        Engine::builder(Arc::new(core)).policy(policy).workers_per_device(3).dumps(DUMPS).limits(LIMITS);
    let prove = move |engine: &Engine| {
        let mut job = Job::new(key.clone());
        (0..PARTITIONS).for_each(|_| job.push_witness(witness.clone()));
        let outcomes = engine.submit(job).expect("taken").wait();
        assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
    };
    (engine.start().expect("starts"), prove)
}

fn device(engine: &Engine) -> DevicePolicyStats {
    let mut devices = engine.policy_stats();
    assert_eq!(devices.len(), 1);
    let device = devices.remove(0);
    let json = serde_json::to_string(&device).expect("it can be written");
    assert_eq!(serde_json::from_str::<DevicePolicyStats>(&json).expect("and read"), device);
    device
}

/// How many tasks were let in at each gate.
fn let_in(stats: &PolicyStats) -> [u64; 4] {
    let waits = &stats.waits;
    [&waits.prepare, &waits.stage, &waits.compute, &waits.finish].map(|gate| gate.count)
}

#[track_caller]
fn assert_consistent(stats: &PolicyStats) {
    let verdicts = stats.verdicts;
    let answers = verdicts.enter + verdicts.wait + verdicts.skip + verdicts.unknown + verdicts.none;
    let decisions = &stats.decisions;
    assert_eq!(decisions.count, answers);
    assert_eq!(decisions.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), answers);
    assert!(decisions.p50_ns <= decisions.p90_ns && decisions.p90_ns <= decisions.p99_ns);
    assert!(decisions.p99_ns <= decisions.max_ns);
    assert!(decisions.buckets.windows(2).all(|pair| pair[0].below_ns < pair[1].below_ns));
    assert!(decisions.buckets.last().is_none_or(|last| decisions.max_ns < last.below_ns));
}

#[test]
fn decisions_are_those_that_the_policy_counted() {
    let (engine, prove) = engine(policy("fixture-hostile", ""));
    prove(&engine);
    let device = device(&engine);
    let [stats] = &device.policies[..] else { panic!("one policy sat there: {device:?}") };
    assert_consistent(stats);
    assert_eq!((stats.policy.policy.as_str(), stats.seated, stats.times_seated), ("hostile", true, 1));
    assert_eq!(stats.decisions.count, stats.counters["decisions"]);
    assert_eq!(let_in(stats), [PARTITIONS as u64; 4]);
    assert_eq!(stats.verdicts.enter, 4 * PARTITIONS as u64, "it enters what it may, and skips nothing");
    assert!(stats.refusals.is_empty() && stats.quarantine.is_none());
    assert!(stats.decisions.p50_ns > 0);
}

#[test]
fn each_policy_has_its_own_figures_and_goes_on_with_them_when_it_comes_back() {
    let (engine, prove) = engine(policy("two-lock", ""));
    prove(&engine);
    let before = device(&engine).policies.remove(0);
    for next in ["single-lock", "two-lock"] {
        engine.switch_policy(&policy(next, "")).expect("it is good");
        prove(&engine);
    }
    let stats = device(&engine);
    let names: Vec<_> =
        stats.policies.iter().map(|stats| (stats.policy.policy.as_str(), stats.seated)).collect();
    assert_eq!(names, [("single-lock", false), ("two-lock", true)]);
    stats.policies.iter().for_each(assert_consistent);
    let [single, two] = &stats.policies[..] else { panic!("two policies") };
    assert_eq!((single.times_seated, two.times_seated), (1, 2));
    assert_eq!((let_in(single)[0], let_in(two)[0]), (PARTITIONS as u64, 2 * PARTITIONS as u64));
    assert!(two.decisions.count > before.decisions.count && two.seated_ns > before.seated_ns);
}

#[test]
fn what_was_refused_and_why_it_is_out_of_its_seat_is_told_also_later() {
    let (engine, prove) = engine(policy("fixture-faulty", "(verdict: \"greedy\")"));
    prove(&engine);
    let device = device(&engine);
    let [faulty, fallback] = &device.policies[..] else { panic!("two policies sat there: {device:?}") };
    assert_consistent(faulty);
    assert!(!faulty.seated && fallback.seated);
    let refused = faulty.refusals[&Refusal::TooManyBytes];
    assert!(refused >= u64::from(LIMITS.refusals));
    assert_eq!(faulty.verdicts.enter, refused, "all it says is Enter, and all of it is refused");
    let quarantine = faulty.quarantine.as_ref().expect("it was quarantined");
    assert_eq!((quarantine.policy.as_str(), quarantine.code.as_str()), ("faulty", "refusals"));
    assert_eq!(faulty.counters.keys().collect::<Vec<_>>(), ["observed"]);
    assert_eq!((fallback.policy.policy.as_str(), &fallback.quarantine), ("serialized-fallback", &None));
    assert_eq!(let_in(faulty), [0; 4]);
    assert_eq!(let_in(fallback)[3], PARTITIONS as u64);
    let text = report::render_policies(std::slice::from_ref(&device));
    for part in ["faulty 0.1.0", "serialized-fallback", "in the seat", "refusals", "observed = ", "refused"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
