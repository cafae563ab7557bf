//! The engine under policies from their libraries, good and bad: every partition ends in a proof that bellperson's
//! verifier accepts, whatever the policy does.

use std::sync::Arc;

use interlock_engine::core::ProvingKey;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::host::{OptionsText, PolicyLibrary, Verified};
use interlock_engine::interlock::{Limits, Quarantine, Refusal};
use interlock_engine::pipeline::{DeviceReport, Engine, Job, PartitionOutcome};
use interlock_engine::{proof, srs::setup};
use interlock_tests::fixtures;
use interlock_tests::libraries::library;
use rand::rngs::OsRng;

/// Where dumps go: not to the user's own.
const DUMPS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/dumps");
const PARTITIONS: usize = 12;
const LIMITS: Limits = Limits { refusals: 4, stall_ns: 100_000_000, ..Limits::DEFAULT };

fn policy(name: &str, options: &str) -> PolicyLibrary {
    let verified = Verified::file(&library(name), None, None, &OptionsText::new(options));
    PolicyLibrary::open(verified.expect("the library is good")).expect("the library is good")
}

fn key() -> Arc<ProvingKey> {
    let (circuit, _) = fixtures::circuit("multiplier");
    let srs = setup::generate(&circuit, OsRng);
    Arc::new(ProvingKey { circuit, srs })
}

fn job(key: &Arc<ProvingKey>, partitions: usize) -> Job {
    let mut job = Job::new(key.clone());
    for _ in 0..partitions {
        job.push_witness(fixtures::circuit("multiplier").1);
    }
    job
}

/// An engine whose device holds one task that computes and one that is staged, not more.
fn engine(policy: PolicyLibrary, key: &ProvingKey, workers: u32) -> Engine {
    use interlock_engine::core::Core;
    let plan = CpuCore::new(0, Some(1)).expect("a thread").plan(key);
    let core = CpuCore::new(plan.peak_bytes() + plan.staged_bytes, Some(1)).expect("a thread");
    Engine::builder(Arc::new(core))
        .policy(policy)
        .workers_per_device(workers)
        .dumps(DUMPS)
        .limits(LIMITS)
        .start()
        .expect("starts")
}

#[track_caller]
fn assert_proved(key: &ProvingKey, outcomes: &[PartitionOutcome], what: &str) {
    assert_eq!(outcomes.len(), PARTITIONS, "{what}");
    for outcome in outcomes {
        let proved = outcome.result.as_ref().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(
            proof::verify(&key.srs.vk, &proved.proof, &proved.public_inputs).expect("well formed"),
            "{what}"
        );
    }
}

fn device(engine: &Engine) -> DeviceReport {
    engine.devices().remove(0)
}

#[test]
fn each_shipped_policy_proves_everything_and_has_nothing_refused() {
    let key = key();
    for name in ["serialized-fallback", "single-lock", "two-lock", "vram-token"] {
        for workers in 1..=4 {
            let engine = engine(policy(name, ""), &key, workers);
            let outcomes = engine.submit(job(&key, PARTITIONS)).expect("taken").wait();
            assert_proved(&key, &outcomes, name);
            let device = device(&engine);
            assert_eq!(device.policy, name);
            assert!(device.counters.refusals.is_empty(), "{name}: {:?}", device.counters.refusals);
            assert!(device.counters.peak_reserved_bytes <= device.capacity_bytes);
        }
    }
}

#[test]
fn verdicts_that_cannot_be_carried_out_end_in_quarantine_and_every_proof() {
    let key = key();
    let cases = [
        ("unknown", Refusal::UnknownKind),
        ("endless", Refusal::EndlessWait),
        ("past", Refusal::EndlessWait),
        ("greedy", Refusal::TooManyBytes),
        ("stingy", Refusal::TooFewBytes),
        ("skip", Refusal::SkipNotAllowed),
    ];
    for (verdict, refusal) in cases {
        let engine = engine(policy("fixture-faulty", &format!("(verdict: \"{verdict}\")")), &key, 3);
        let outcomes = engine.submit(job(&key, PARTITIONS)).expect("taken").wait();
        assert_proved(&key, &outcomes, verdict);
        let device = device(&engine);
        assert_eq!(device.policy, "serialized-fallback", "{verdict}");
        let expected = Quarantine::TooManyRefusals { last: refusal, limit: LIMITS.refusals };
        assert_eq!(device.quarantine.map(|found| found.reason), Some(expected), "{verdict}");
        assert!(device.counters.refusals[&refusal] >= u64::from(LIMITS.refusals), "{verdict}");
    }
}

#[test]
fn a_panic_in_each_function_costs_no_proof() {
    let key = key();
    for (function, quarantined) in [
        ("decide", true),
        ("rank", true),
        ("observe", true),
        ("place", false),
        ("stats", false),
        ("destroy", false),
    ] {
        let engine = engine(policy("fixture-faulty", &format!("(panic_in: \"{function}\")")), &key, 3);
        let outcomes = engine.submit(job(&key, PARTITIONS)).expect("taken").wait();
        assert_proved(&key, &outcomes, function);
        assert_eq!(device(&engine).quarantine.is_some(), quarantined, "{function}");
    }
}

#[test]
fn a_policy_that_lets_nobody_in_is_found_by_the_watchdog() {
    let key = key();
    let engine = engine(policy("fixture-faulty", "(verdict: \"never\")"), &key, 3);
    let outcomes = engine.submit(job(&key, PARTITIONS)).expect("taken").wait();
    assert_proved(&key, &outcomes, "never");
    let device = device(&engine);
    let why = device.quarantine.expect("it was quarantined").reason;
    assert!(matches!(why, Quarantine::Stalled { idle_ns } if idle_ns >= LIMITS.stall_ns));
    assert_eq!(device.policy, "serialized-fallback");
}

#[test]
fn a_policy_that_always_enters_cannot_overcommit_the_device() {
    let key = key();
    let engine = engine(policy("fixture-faulty", "(verdict: \"grab\")"), &key, 4);
    let outcomes = engine.submit(job(&key, PARTITIONS)).expect("taken").wait();
    assert_proved(&key, &outcomes, "grab");
    let device = device(&engine);
    assert!(device.counters.peak_reserved_bytes <= device.capacity_bytes);
}

#[test]
fn policies_are_switched_under_load_and_a_bad_one_leaves_the_old_one_seated() {
    let key = key();
    let engine = engine(policy("two-lock", ""), &key, 3);
    let bad = policy("fixture-faulty", "(panic_in: \"create\")");
    let mut handles = vec![engine.submit(job(&key, PARTITIONS)).expect("taken")];
    for name in ["vram-token", "single-lock", "serialized-fallback", "two-lock", "single-lock"] {
        handles.push(engine.submit(job(&key, PARTITIONS)).expect("taken"));
        let first = handles[handles.len() - 2].outcomes().next();
        assert!(first.is_some_and(|outcome| outcome.result.is_ok()), "the engine is under load");
        engine.switch_policy(&policy(name, "")).expect("the policy is good");
        engine.switch_policy(&bad).expect_err("it panics when it is made");
    }
    let last = handles.pop().expect("there are several");
    assert_proved(&key, &last.wait(), "the last job");
    let device = device(&engine);
    assert_eq!(device.policy, "single-lock");
    assert_eq!((device.quarantine, device.counters.failed), (None, 0));
    assert!(device.counters.refusals.is_empty());
}
