//! Switches on a live engine: who sits afterwards, what a failed trial comes to, and that no partition is lost.

use std::sync::Arc;
use std::time::Duration;

use interlock_engine::core::Core;
use interlock_engine::host::{OptionsText, PolicyLibrary};
use interlock_engine::interlock::Limits;
use interlock_engine::pipeline::{Engine, RestoreError, Switch, SwitchPhase, SwitchReport};
use interlock_policy_api::abi::PolicyModuleRef;
use proptest::prelude::*;

use super::scripted::ScriptedCore;
use super::{assert_all_proved, cpu, job};

/// Longer than any test runs, unless something hangs.
const LONG: Duration = Duration::from_secs(120);
/// Where dumps go: not to the user's own.
const DUMPS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/dumps");
const LIMITS: Limits = Limits { refusals: 3, stall_ns: 50_000_000, ..Limits::DEFAULT };

fn linked(module: PolicyModuleRef, options: &str) -> PolicyLibrary {
    PolicyLibrary::linked(module, &OptionsText::new(options)).expect("it is good")
}

/// The policies that ship.
fn good() -> [PolicyLibrary; 4] {
    [
        PolicyLibrary::fallback(),
        linked(interlock_single_lock::interlock_policy(), ""),
        linked(interlock_two_lock::interlock_policy(), ""),
        linked(interlock_vram_token::interlock_policy(), ""),
    ]
}

fn faulty(options: &str) -> PolicyLibrary {
    linked(interlock_fixture_faulty::interlock_policy(), options)
}

fn two_lock() -> PolicyLibrary {
    good()[2].clone()
}

fn engine(core: Arc<dyn Core>, trial_decisions: u64) -> Engine {
    Engine::builder(core)
        .policy(two_lock())
        .workers_per_device(3)
        .limits(LIMITS)
        .dumps(DUMPS)
        .trial_decisions(trial_decisions)
        .start()
        .expect("starts")
}

fn seated(engine: &Engine) -> Vec<String> {
    engine.devices().into_iter().map(|device| device.policy).collect()
}

/// The end of a switch; the engine has enough to do for it.
#[track_caller]
fn decided(switch: &Switch) -> SwitchReport {
    let report = switch.wait_decided(LONG);
    assert!(report.phase.is_final(), "{report:?}");
    report
}

fn use_and_pass(engine: &Engine, policy: &PolicyLibrary) {
    let switch = engine.switch_policy(policy).expect("it is good");
    assert_all_proved(&engine.submit(job(6)).expect("taken").wait(), 6);
    assert_eq!(decided(&switch).phase, SwitchPhase::Passed);
}

fn name(policy: &PolicyLibrary) -> String {
    policy.name().to_owned()
}

#[test]
fn a_new_policy_is_on_trial_until_it_has_decided_enough() {
    let engine = engine(cpu(), 10);
    assert!(engine.last_switch().is_none());
    let [_, single_lock, ..] = good();
    let switch = engine.switch_policy(&single_lock).expect("it is good");
    // Nothing is under way: it is seated at once, and nobody waited.
    let report = switch.report();
    assert_eq!((report.number, &report.phase, report.decisions), (1, &SwitchPhase::OnTrial, 0));
    let device = &report.devices[0];
    assert_eq!((device.from.as_str(), device.seated.as_str()), ("two-lock", "single-lock"));
    let swap = device.swap.expect("it is seated");
    assert_eq!((swap.waited, swap.pause_ns), (0, None));
    // A task takes four verdicts at least; alone it waits for nobody.
    assert_all_proved(&engine.submit(job(1)).expect("taken").wait(), 1);
    assert_eq!(switch.report().phase, SwitchPhase::OnTrial);
    assert!((4..10).contains(&switch.report().decisions), "{:?}", switch.report());
    assert_all_proved(&engine.submit(job(6)).expect("taken").wait(), 6);
    let report = decided(&switch);
    assert_eq!(report.phase, SwitchPhase::Passed);
    assert!(report.decisions >= report.trial_decisions && report.trial_decisions == 10);
    // The first job's proof; those of the second may come after the end of the trial.
    assert!(report.after.expect("it went on").proofs >= 1);
    assert_eq!(engine.last_switch().map(|report| report.number), Some(1));
}

#[test]
fn without_a_trial_a_switch_is_final_at_once() {
    let engine = engine(cpu(), 0);
    let switch = engine.switch_policy(&faulty("(verdict: \"unknown\")")).expect("it starts");
    assert_eq!(switch.report().phase, SwitchPhase::Passed);
    assert_all_proved(&engine.submit(job(6)).expect("taken").wait(), 6);
    assert_eq!(seated(&engine), ["serialized-fallback"]);
}

#[test]
fn one_refused_verdict_on_trial_brings_back_who_sat_before() {
    for verdict in ["unknown", "endless", "past", "greedy", "stingy", "skip"] {
        let engine = engine(cpu(), 1_000);
        let first = engine.submit(job(6)).expect("taken");
        let switch = engine.switch_policy(&faulty(&format!("(verdict: {verdict:?})"))).expect("it starts");
        let second = engine.submit(job(6)).expect("taken");
        let report = decided(&switch);
        let SwitchPhase::RolledBack { device: 0, reason } = &report.phase else { panic!("{report:?}") };
        assert!(reason.contains("was refused"), "{reason}");
        assert!(report.devices[0].back.is_some(), "{report:?}");
        assert_all_proved(&first.wait(), 6);
        assert_all_proved(&second.wait(), 6);
        assert_eq!(seated(&engine), ["two-lock"], "{verdict}");
        assert!(engine.devices()[0].quarantine.is_none(), "one is enough on trial");
    }
}

#[test]
fn hooks_that_panic_and_a_policy_that_lets_nobody_in_fail_their_trial() {
    for (options, reason) in [
        ("(panic_in: \"decide\")", "panic"),
        ("(panic_in: \"rank\")", "panic"),
        ("(panic_in: \"observe\")", "panic"),
        ("(verdict: \"never\")", "it let nobody in"),
    ] {
        let engine = engine(cpu(), 1_000);
        let switch = engine.switch_policy(&faulty(options)).expect("it starts");
        assert_all_proved(&engine.submit(job(6)).expect("taken").wait(), 6);
        let report = decided(&switch);
        assert!(
            matches!(&report.phase, SwitchPhase::RolledBack { reason: found, .. } if found.contains(reason)),
            "{options}: {report:?}"
        );
        assert_eq!(seated(&engine), ["two-lock"], "{options}");
        // The tasks waited from the first drain to the first grant after the second.
        assert!(report.devices[0].back.is_some_and(|back| back.waited > 0 && back.pause_ns.is_some()));
    }
}

#[test]
fn all_devices_go_back_when_the_policy_fails_on_one() {
    let core = ScriptedCore::new(&[1 << 30, 1 << 30], |_| Ok(()));
    let engine = engine(Arc::new(core), 1_000);
    // All tasks go to device 1: nothing happens on device 0.
    let switch = engine.switch_policy(&faulty("(verdict: \"unknown\", device: 1)")).expect("it starts");
    assert_eq!(seated(&engine), ["faulty", "faulty"]);
    assert_all_proved(&engine.submit(job(6)).expect("taken").wait(), 6);
    let report = decided(&switch);
    assert!(matches!(report.phase, SwitchPhase::RolledBack { device: 1, .. }), "{report:?}");
    assert_eq!(seated(&engine), ["two-lock", "two-lock"]);
    assert!(report.devices.iter().all(|device| device.seated == "two-lock" && device.from == "two-lock"));
}

#[test]
fn a_policy_that_cannot_be_made_changes_nothing() {
    let engine = engine(cpu(), 10);
    assert!(engine.switch_policy(&faulty("(panic_in: \"create\")")).is_err());
    assert!(engine.last_switch().is_none());
    assert_eq!(seated(&engine), ["two-lock"]);
    assert_all_proved(&engine.submit(job(3)).expect("taken").wait(), 3);
}

#[test]
fn restore_goes_back_and_forth() {
    let engine = engine(cpu(), 10);
    assert!(matches!(engine.restore_policy(), Err(RestoreError::NoOther)));
    let [_, single_lock, _, vram_token] = good();
    use_and_pass(&engine, &single_lock);
    use_and_pass(&engine, &vram_token);
    for expected in ["single-lock", "vram-token", "single-lock"] {
        let switch = engine.restore_policy().expect("there is one");
        assert_all_proved(&engine.submit(job(6)).expect("taken").wait(), 6);
        assert_eq!(decided(&switch).phase, SwitchPhase::Passed);
        assert_eq!(seated(&engine), [expected]);
    }
}

#[test]
fn restore_after_a_quarantine_goes_past_whoever_was_quarantined() {
    // Its first verdict is good, which is all of the trial, and it is refused for ever at the next gate.
    let engine = engine(cpu(), 1);
    use_and_pass(&engine, &good()[1]);
    use_and_pass(&engine, &faulty("(verdict: \"stingy\")"));
    assert_eq!(seated(&engine), ["serialized-fallback"]);
    engine.restore_policy().expect("there is one");
    assert_eq!(seated(&engine), ["single-lock"]);
    assert_all_proved(&engine.submit(job(6)).expect("taken").wait(), 6);
    engine.restore_policy().expect("the first one");
    assert_eq!(seated(&engine), ["two-lock"]);
}

#[test]
fn restore_after_a_rollback_says_that_it_is_done() {
    let engine = engine(cpu(), 10);
    use_and_pass(&engine, &good()[1]);
    let switch = engine.switch_policy(&faulty("(verdict: \"unknown\")")).expect("it starts");
    assert_all_proved(&engine.submit(job(6)).expect("taken").wait(), 6);
    decided(&switch);
    let error = engine.restore_policy().expect_err("it sits there");
    assert!(matches!(&error, RestoreError::RolledBack { policy } if policy == "single-lock"), "{error}");
}

#[test]
fn restore_takes_a_policy_on_trial_out() {
    let engine = engine(cpu(), 1_000);
    let on_trial = engine.switch_policy(&good()[1]).expect("it is good");
    engine.restore_policy().expect("there is one");
    assert_eq!(seated(&engine), ["two-lock"]);
    assert_eq!(decided(&on_trial).phase, SwitchPhase::Superseded { by: "two-lock".into() });
}

#[test]
fn a_later_switch_takes_the_place_of_one_on_trial_and_keeps_its_way_back() {
    let engine = engine(cpu(), 1_000);
    let first = engine.switch_policy(&good()[1]).expect("it is good");
    let second = engine.switch_policy(&faulty("(verdict: \"unknown\")")).expect("it starts");
    assert_eq!(decided(&first).phase, SwitchPhase::Superseded { by: "faulty".into() });
    assert_all_proved(&engine.submit(job(6)).expect("taken").wait(), 6);
    assert!(matches!(decided(&second).phase, SwitchPhase::RolledBack { .. }));
    assert_eq!(seated(&engine), ["two-lock"], "single-lock has not passed its trial");
}

#[test]
fn a_switch_that_is_forgotten_has_its_end() {
    let engine = engine(cpu(), 1_000);
    let first = engine.switch_policy(&good()[1]).expect("it is good");
    for _ in 0..40 {
        engine.switch_policy(&good()[1]).expect("it is good");
    }
    assert!(first.report().phase.is_final());
}

/// Something that happens to an engine under load.
#[derive(Clone, Debug)]
enum Act {
    Submit(u64),
    Use(PolicyLibrary),
    Restore,
    AwaitOne,
}

fn act() -> impl Strategy<Value = Act> {
    const BAD: [&str; 8] = ["unknown", "never", "endless", "past", "greedy", "stingy", "grab", "skip"];
    const PANICS: [&str; 6] = ["decide", "rank", "place", "observe", "stats", "destroy"];
    prop_oneof![
        3 => (1..6_u64).prop_map(Act::Submit),
        3 => prop::sample::select(good().to_vec()).prop_map(Act::Use),
        2 => prop::sample::select(&BAD).prop_map(|verdict| Act::Use(faulty(&format!("(verdict: {verdict:?})")))),
        1 => prop::sample::select(&PANICS).prop_map(|hook| Act::Use(faulty(&format!("(panic_in: {hook:?})")))),
        2 => Just(Act::Restore),
        3 => Just(Act::AwaitOne),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_switches_under_load_lose_nothing(
        acts in prop::collection::vec(act(), 1..24),
        devices in 1..3_usize,
        trial_decisions in prop::sample::select(&[0, 1, 5, 40, 1_000]),
    ) {
        let core = ScriptedCore::new(&vec![1 << 20; devices], |_| Ok(()));
        let engine = engine(Arc::new(core), trial_decisions);
        let mut waited = Vec::new();
        let mut submitted = Vec::new();
        for act in acts {
            match act {
                Act::Submit(count) => {
                    submitted.push((count, engine.submit(job(count)).expect("taken")));
                    waited.push(Vec::new());
                }
                Act::Use(policy) => {
                    let switch = engine.switch_policy(&policy).expect("it can be made");
                    prop_assert_eq!(switch.report().policy, name(&policy));
                }
                Act::Restore => drop(engine.restore_policy()),
                Act::AwaitOne => {
                    if let Some((_, handle)) = submitted.last() {
                        let done = waited.last_mut().expect("one for each");
                        if done.len() < handle.partitions() {
                            done.extend(handle.outcomes().next());
                        }
                    }
                }
            }
        }
        for ((count, handle), mut outcomes) in submitted.into_iter().zip(waited) {
            let left = count as usize - outcomes.len();
            outcomes.extend(handle.outcomes().take(left));
            outcomes.sort_by_key(|outcome| outcome.report.partition);
            assert_all_proved(&outcomes, count as usize);
        }
        let devices = engine.devices();
        prop_assert!(devices.iter().all(|device| device.counters.failed == 0));
        if let Some(last) = engine.last_switch() {
            // A quarantine after the trial seats the fallback, which is no part of the switch.
            let agrees = last.devices.iter().zip(&devices).all(|(said, found)| {
                said.seated == found.policy || found.policy == "serialized-fallback"
            });
            prop_assert!(agrees, "{:?} {:?}", last, devices);
        }
    }
}
