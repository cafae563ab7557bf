//! Experiments: what is counted, and what becomes of arms that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use interlock_engine::experiment::{
    Arm, Arrivals, Common, Experiment, ExperimentError, Jobs, Load, LoadError, Metric, Rounds, RunError,
    StopReason, Tell, comparisons,
};
use interlock_engine::host::{OptionsText, PolicyLibrary};
use interlock_engine::interlock::Limits;

use super::faulty::{Fault, FaultyCore};
use super::scripted::ScriptedCore;
use super::{Core, cpu, job};

const PARTITIONS: u64 = 3;

fn arm(policy: PolicyLibrary, core: Arc<dyn Core>) -> Arm {
    Arm { policy, options: String::new(), core, fallback_core: None, workers: 2, vram_limit: None }
}

fn good() -> Arm {
    let two_lock = PolicyLibrary::linked(interlock_two_lock::interlock_policy(), &OptionsText::default());
    arm(two_lock.expect("it is good"), cpu())
}

fn with_faulty(options: &str) -> Arm {
    let module = interlock_fixture_faulty::interlock_policy();
    arm(PolicyLibrary::linked(module, &OptionsText::new(options)).expect("it is good"), cpu())
}

fn closed(jobs: u32, warm_up: u32, in_flight: u32) -> Load {
    Load { jobs, warm_up, arrivals: Arrivals::Closed { in_flight } }
}

fn names() -> Vec<String> {
    (0..PARTITIONS).map(|index| format!("witness {index}")).collect()
}

struct Ran {
    rounds: Result<Rounds, ExperimentError>,
    /// Arms in the order in which they ran.
    order: Vec<usize>,
}

fn experiment(arms: &[Arm], load: Load, most_rounds: usize, shortest_run_s: f64) -> Ran {
    let stop = AtomicBool::new(false);
    let experiment = Experiment {
        arms,
        common: Common { synthesis_workers: 1, verify_proofs: true, limits: Limits::DEFAULT },
        load,
        seed: 5,
        // Nothing is ever enough: the rounds decide.
        detect: 1e-9,
        most_rounds,
        shortest_run_s,
        budget: Duration::from_secs(3600),
        meter: None,
        jobs: Jobs { make: &|| job(PARTITIONS), names: &names() },
        stop: &stop,
    };
    let mut order = Vec::new();
    let rounds = experiment.run(&mut |tell| {
        if let Tell::Begins { arm, .. } = tell {
            order.push(arm);
        }
    });
    Ran { rounds, order }
}

#[test]
fn arms_run_in_turns_and_what_was_asked_for_is_measured() {
    let ran = experiment(&[good(), arm(PolicyLibrary::fallback(), cpu())], closed(4, 1, 1), 4, 0.0);
    assert_eq!(ran.order, [0, 1, 1, 0, 0, 1, 1, 0]);
    let rounds = ran.rounds.expect("it is long enough");
    assert_eq!((rounds.rounds, rounds.stopped), (4, StopReason::Rounds));
    for runs in &rounds.arms {
        assert_eq!(runs.failed, None);
        let numbers: Vec<usize> = runs.rounds.iter().map(|(round, _)| *round).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        for (_, figures) in &runs.rounds {
            // One job at a time: the window has all proofs of the jobs that are measured, and no other.
            assert_eq!(figures.proofs, 4 * PARTITIONS);
            assert_eq!(figures.latencies_s.len(), 4);
            assert!(figures.latencies_s.is_sorted() && figures.latencies_s[0] > 0.0);
            assert!(figures.latencies_s.iter().sum::<f64>() <= figures.seconds, "one after the other");
            assert!((figures.proofs_per_s * figures.seconds - figures.proofs as f64).abs() < 1e-6);
            assert_eq!(figures.refused, 0);
            assert!(figures.peak_reserved_bytes > 0);
            assert!(figures.device_busy > 0.0 && figures.device_busy <= 1.0);
            assert!(
                figures
                    .locks
                    .values()
                    .all(|lock| lock.held_s > 0.0 && lock.held_s <= figures.seconds * 1.001)
            );
        }
        let last = runs.last.as_ref().expect("it is kept");
        assert!(!last.timeline.spans.is_empty());
        assert!(last.window_ns.0 < last.window_ns.1);
    }
    let compared = comparisons(&rounds, Metric::ProofsPerSecond);
    assert_eq!(compared.len(), 3);
    assert!(compared[0].primary && compared[0].metric == "proofs_per_s" && compared[0].rounds == 4);
    assert_eq!((compared[0].baseline.as_str(), compared[0].candidate.as_str()), ("A", "B"));
}

#[test]
fn with_more_jobs_on_their_way_the_window_has_at_least_what_was_asked_for() {
    let ran = experiment(&[good(), good()], closed(6, 3, 3), 2, 0.0);
    for runs in &ran.rounds.expect("it is long enough").arms {
        for (_, figures) in &runs.rounds {
            assert_eq!(figures.latencies_s.len(), 6);
            // Jobs of the warm-up may end before the window, those on their way at its end are not all proved.
            assert!(
                figures.proofs >= 3 * PARTITIONS && figures.proofs <= 12 * PARTITIONS,
                "{}",
                figures.proofs
            );
        }
    }
}

#[test]
fn jobs_of_an_open_loop_are_measured_from_when_they_came() {
    let load = Load { jobs: 5, warm_up: 2, arrivals: Arrivals::Poisson { jobs_per_s: 200.0 } };
    let ran = experiment(&[good(), good()], load, 2, 0.0);
    let rounds = ran.rounds.expect("it is long enough");
    for runs in &rounds.arms {
        assert_eq!(runs.failed, None);
        for (_, figures) in &runs.rounds {
            assert_eq!(figures.latencies_s.len(), 5);
            assert!(figures.proofs >= 5 * PARTITIONS);
        }
    }
    assert_eq!(comparisons(&rounds, Metric::Latency95)[0].metric, "latency_p95_s");
}

#[test]
fn an_arm_whose_policy_is_quarantined_fails_and_the_others_go_on() {
    let ran = experiment(&[good(), with_faulty("(verdict: \"unknown\")"), good()], closed(2, 0, 1), 3, 0.0);
    let rounds = ran.rounds.expect("it is long enough");
    assert!(matches!(&rounds.arms[1].failed, Some(RunError::Quarantined { code, .. }) if code == "refusals"));
    assert_eq!(ran.order.iter().filter(|arm| **arm == 1).count(), 1, "not again");
    assert_eq!((rounds.arms[0].rounds.len(), rounds.arms[2].rounds.len()), (3, 3));
    let compared = comparisons(&rounds, Metric::ProofsPerSecond);
    assert!(compared.iter().all(|compared| compared.candidate == "C" && compared.baseline == "A"));
}

#[test]
fn an_arm_that_makes_no_proof_fails() {
    let bad = arm(PolicyLibrary::fallback(), Arc::new(FaultyCore::new(Fault::WrongProof, u32::MAX)));
    let ran = experiment(&[bad, good()], closed(2, 0, 1), 5, 0.0);
    let rounds = ran.rounds.expect("it is long enough");
    let Some(RunError::Load(LoadError::NoProof { partition, .. })) = &rounds.arms[0].failed else {
        panic!("{:?}", rounds.arms[0].failed);
    };
    assert!(names().contains(partition), "{partition}");
    assert_eq!((rounds.rounds, rounds.stopped), (1, StopReason::ArmsFailed));
    assert!(comparisons(&rounds, Metric::ProofsPerSecond).is_empty());
}

#[test]
fn work_that_is_too_short_says_how_much_would_do() {
    // No run of two jobs takes an hour.
    let ran = experiment(&[good(), good()], closed(2, 0, 1), 5, 3600.0);
    let Err(ExperimentError::Short(short)) = ran.rounds else { panic!("it is too short") };
    let needed = 2.0 * 3600.0 / short.seconds;
    assert!(short.jobs as f64 >= needed && short.jobs as f64 <= 1.3 * needed + 1.0, "{short:?}");
}

#[test]
fn an_experiment_that_is_stopped_ends_with_what_it_has() {
    let stop = AtomicBool::new(false);
    let arms = [good(), good()];
    let experiment = Experiment {
        arms: &arms,
        common: Common { synthesis_workers: 1, verify_proofs: true, limits: Limits::DEFAULT },
        load: closed(2, 0, 1),
        seed: 1,
        detect: 1e-9,
        most_rounds: 1000,
        shortest_run_s: 0.0,
        budget: Duration::from_secs(3600),
        meter: None,
        jobs: Jobs { make: &|| job(PARTITIONS), names: &names() },
        stop: &stop,
    };
    let rounds = experiment.run(&mut |tell| {
        if matches!(tell, Tell::Begins { round: 2, .. }) {
            stop.store(true, Ordering::SeqCst);
        }
    });
    let rounds = rounds.expect("it is long enough");
    assert_eq!(rounds.stopped, StopReason::Stopped);
    for runs in &rounds.arms {
        assert_eq!(
            (runs.rounds.len(), &runs.failed),
            (2, &None),
            "the run that was given up counts for nobody"
        );
    }
}

#[test]
fn a_device_that_is_lost_takes_its_arm_out() {
    let lost = ScriptedCore::new(&[1 << 30, 1 << 30], |call| match call {
        call if call.device == 1 && call.stage == "Compute" => Err(super::scripted::lost(1)),
        _ => Ok(()),
    });
    let ran = experiment(
        &[good(), arm(PolicyLibrary::fallback(), Arc::new(lost)), good()],
        closed(4, 0, 2),
        2,
        0.0,
    );
    let rounds = ran.rounds.expect("it is long enough");
    assert!(
        matches!(&rounds.arms[1].failed, Some(RunError::Lost { device: 1, .. })),
        "{:?}",
        rounds.arms[1].failed
    );
}

/// An experiment of arms whose tasks take for ever once `rounds` rounds were run, and its error or what it came to.
fn without_time(quick_rounds: u32, budget: Duration) -> Result<Rounds, ExperimentError> {
    // Four Computes of a round: two arms, a job each of one partition, and its warm-up.
    let computes = Arc::new(AtomicU32::new(0));
    let slow = ScriptedCore::new(&[1 << 30], move |call| {
        if call.stage == "Compute" && computes.fetch_add(1, Ordering::SeqCst) >= 4 * quick_rounds {
            std::thread::sleep(budget);
        }
        Ok(())
    });
    let core: Arc<dyn Core> = Arc::new(slow);
    let arms = [arm(PolicyLibrary::fallback(), core.clone()), arm(PolicyLibrary::fallback(), core)];
    let stop = AtomicBool::new(false);
    let experiment = Experiment {
        arms: &arms,
        common: Common { synthesis_workers: 1, verify_proofs: true, limits: Limits::DEFAULT },
        load: closed(1, 1, 1),
        seed: 1,
        detect: 1e-9,
        most_rounds: 1000,
        shortest_run_s: 0.0,
        budget,
        meter: None,
        jobs: Jobs { make: &|| job(1), names: &names() },
        stop: &stop,
    };
    experiment.run(&mut |_| {})
}

#[test]
fn a_run_that_is_under_way_when_the_time_is_over_is_broken_off() {
    // Two rounds of tiny proofs take a fraction of that; if they did not, no third one would be begun.
    let rounds = without_time(2, Duration::from_secs(5)).expect("two rounds were run before");
    assert_eq!((rounds.rounds, rounds.stopped), (2, StopReason::Budget));
    assert!(rounds.arms.iter().all(|runs| runs.failed.is_none() && runs.rounds.len() >= 2));
    assert_eq!(without_time(0, Duration::from_millis(100)).err(), Some(ExperimentError::NoTime { round: 1 }));
}
