//! The engine as a whole, over the CPU core and cores that fail: no partition is lost, no wrong proof gets out.

mod energy;
mod experiment;
mod faulty;
mod handed_on;
mod lost;
mod placement;
mod scripted;
mod submit;
mod switching;

use std::sync::Arc;
use std::sync::mpsc;

use faulty::{Fault, FaultyCore, key, power, witness};
use interlock_engine::circuit::WitnessError;
use interlock_engine::core::Core;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::pipeline::{AttemptError, Engine, EngineError, Job, PartitionOutcome, TaskError};
use interlock_engine::proof;

fn cpu() -> Arc<dyn Core> {
    Arc::new(CpuCore::new(1 << 30, Some(1)).expect("a thread"))
}

/// A job of the roots 2, 3, 4, …
fn job(count: u64) -> Job {
    let mut job = Job::new(key());
    for root in 0..count {
        job.push_witness(witness(root + 2));
    }
    job
}

/// Every outcome is a proof of its own statement, by bellperson's verifier.
fn assert_all_proved(outcomes: &[PartitionOutcome], count: usize) {
    assert_eq!(outcomes.len(), count);
    let vk = &key().srs.vk;
    for (index, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.report.partition as usize, index);
        let proved = outcome.result.as_ref().expect("proved");
        assert_eq!(proved.public_inputs, [power(index as u64 + 2)]);
        assert!(proof::verify(vk, &proved.proof, &proved.public_inputs).expect("well formed"));
    }
}

fn failed(outcome: &PartitionOutcome) -> &[AttemptError] {
    match &outcome.result {
        Err(TaskError::Failed { causes }) => causes,
        other => panic!("expected a failure with causes, got {other:?}"),
    }
}

#[test]
fn every_partition_is_proved_with_any_number_of_workers() {
    for workers in 1..=4 {
        let engine =
            Engine::builder(cpu()).workers_per_device(workers).synthesis_workers(2).start().expect("starts");
        let outcomes = engine.submit(job(12)).expect("taken").wait();
        assert_all_proved(&outcomes, 12);
        let device = &engine.devices()[0];
        assert_eq!((device.counters.finished, device.counters.failed), (12, 0));
        assert!(device.counters.refusals.is_empty(), "{:?}", device.counters.refusals);
    }
}

#[test]
fn a_failed_task_is_tried_again_inline() {
    for fault in [Fault::Error, Fault::OutOfMemory, Fault::Panic, Fault::WrongProof] {
        let engine = Engine::builder(Arc::new(FaultyCore::new(fault, 1))).start().expect("starts");
        let outcomes = engine.submit(job(3)).expect("taken").wait();
        assert_all_proved(&outcomes, 3);
        let attempts: u32 = outcomes.iter().map(|outcome| outcome.report.attempts).sum();
        assert_eq!(attempts, 4, "{fault:?}");
        let retried = outcomes.iter().find(|outcome| outcome.report.attempts == 2).expect("one was");
        assert!(retried.report.staged_inline);
    }
}

#[test]
fn a_task_that_fails_twice_goes_to_the_fallback_core() {
    for fault in [Fault::Error, Fault::OutOfMemory, Fault::Panic, Fault::WrongProof] {
        let engine = Engine::builder(Arc::new(FaultyCore::new(fault, u32::MAX)))
            .fallback_core(cpu())
            .start()
            .expect("starts");
        let outcomes = engine.submit(job(3)).expect("taken").wait();
        assert_all_proved(&outcomes, 3);
        assert!(outcomes.iter().all(|outcome| outcome.report.core == "cpu" && outcome.report.attempts == 3));
    }
}

#[test]
fn without_a_fallback_core_it_fails_with_every_cause_and_others_go_on() {
    let engine = Engine::builder(Arc::new(FaultyCore::new(Fault::Error, 2)))
        .workers_per_device(1)
        .start()
        .expect("starts");
    let outcomes = engine.submit(job(3)).expect("taken").wait();
    let failures: Vec<_> = outcomes.iter().filter(|outcome| outcome.result.is_err()).collect();
    assert_eq!(failures.len(), 1);
    assert_eq!(failed(failures[0]).len(), 2);
    assert_eq!(outcomes.iter().filter(|outcome| outcome.result.is_ok()).count(), 2);
}

#[test]
fn a_wrong_proof_never_gets_out() {
    let engine =
        Engine::builder(Arc::new(FaultyCore::new(Fault::WrongProof, u32::MAX))).start().expect("starts");
    let outcomes = engine.submit(job(2)).expect("taken").wait();
    for outcome in &outcomes {
        assert!(failed(outcome).iter().all(|cause| matches!(cause, AttemptError::WrongProof { .. })));
    }
}

#[test]
fn a_witness_that_does_not_satisfy_is_named_by_its_constraint_and_not_tried_again() {
    for verify in [true, false] {
        let mut job = Job::new(key());
        let mut bad = witness(5);
        // Variables: one, the power, the root, three squares. The second square belongs to constraint 1.
        bad.values[4] += blstrs::Scalar::from(1);
        job.push_witness(bad);
        job.push_witness(witness(3));
        let engine = Engine::builder(cpu()).verify_proofs(verify).start().expect("starts");
        let outcomes = engine.submit(job).expect("taken").wait();
        assert!(
            matches!(
                outcomes[0].result,
                Err(TaskError::Witness(WitnessError::Unsatisfied { constraint: 1 }))
            ),
            "{:?}",
            outcomes[0].result
        );
        assert!(outcomes[0].report.attempts <= 1);
        assert!(outcomes[1].result.is_ok());
    }
}

#[test]
fn a_witness_of_another_circuit_is_refused() {
    let mut job = Job::new(key());
    let mut long = witness(5);
    long.values.push(blstrs::Scalar::from(1));
    job.push_witness(long);
    let engine = Engine::builder(cpu()).start().expect("starts");
    let outcomes = engine.submit(job).expect("taken").wait();
    assert!(matches!(
        outcomes[0].result,
        Err(TaskError::Witness(WitnessError::OtherCircuit { expected: 6, found: 7 }))
    ));
}

#[test]
fn a_witness_that_cannot_be_made_fails_alone() {
    let mut job = job(2);
    job.push_synthesis(|| Err("no such file".into()));
    job.push_synthesis(|| panic!("a gadget gave up"));
    let engine = Engine::builder(cpu()).start().expect("starts");
    let outcomes = engine.submit(job).expect("taken").wait();
    assert!(outcomes[0].result.is_ok() && outcomes[1].result.is_ok());
    for outcome in &outcomes[2..] {
        assert!(matches!(outcome.result, Err(TaskError::Synthesis(_))));
    }
}

#[test]
fn an_empty_job_and_zero_workers_are_refused() {
    let engine = Engine::builder(cpu()).start().expect("starts");
    assert!(matches!(engine.submit(Job::new(key())), Err(EngineError::EmptyJob)));
    assert!(matches!(Engine::builder(cpu()).workers_per_device(0).start(), Err(EngineError::NoWorkers(_))));
}

#[test]
fn higher_priority_goes_first() {
    let (began, order) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let engine = Engine::builder(cpu()).workers_per_device(1).start().expect("starts");
    // The first job holds the one synthesis worker until the other jobs are queued.
    let mut first = Job::new(key());
    first.push_synthesis(move || {
        gate.recv()?;
        Ok(witness(2))
    });
    let mut handles = vec![engine.submit(first).expect("taken")];
    for priority in [0, 5, -3, 9] {
        let mut job = Job::new(key()).with_priority(priority);
        let began = began.clone();
        job.push_synthesis(move || {
            began.send(priority)?;
            Ok(witness(2))
        });
        handles.push(engine.submit(job).expect("taken"));
    }
    go.send(()).expect("the first job waits");
    for handle in handles {
        assert!(handle.wait()[0].result.is_ok());
    }
    assert_eq!(order.try_iter().collect::<Vec<_>>(), [9, 5, 0, -3]);
}

#[test]
fn stopping_finishes_what_runs_and_cancels_the_rest() {
    let (started, has_started) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let engine = Engine::builder(cpu()).workers_per_device(1).start().expect("starts");
    let mut job = Job::new(key());
    job.push_synthesis(|| Ok(witness(2)));
    job.push_synthesis(move || {
        started.send(())?;
        gate.recv()?;
        Ok(witness(3))
    });
    for _ in 0..20 {
        job.push_synthesis(|| Ok(witness(4)));
    }
    let handle = engine.submit(job).expect("taken");
    has_started.recv().expect("the second partition begins");
    engine.stop_handle().stop();
    go.send(()).expect("it waits");
    let outcomes = handle.wait();
    assert_eq!(outcomes.len(), 22);
    let cancelled =
        outcomes.iter().filter(|outcome| matches!(outcome.result, Err(TaskError::Cancelled))).count();
    assert!(cancelled >= 20, "{cancelled} of the 20 that had not begun");
    assert!(matches!(engine.submit(Job::new(key())), Err(EngineError::EmptyJob)));
    let mut late = Job::new(key());
    late.push_witness(witness(2));
    assert!(matches!(engine.submit(late), Err(EngineError::Stopped)));
}

#[test]
fn a_cancelled_job_ends_and_others_go_on() {
    let (go, gate) = mpsc::channel::<()>();
    let engine = Engine::builder(cpu()).workers_per_device(1).start().expect("starts");
    let mut held = Job::new(key());
    held.push_synthesis(move || {
        gate.recv()?;
        Ok(witness(2))
    });
    for _ in 0..5 {
        held.push_synthesis(|| Ok(witness(2)));
    }
    let held = engine.submit(held).expect("taken");
    let other = engine.submit(job(2)).expect("taken");
    engine.cancel(&held);
    go.send(()).expect("it waits");
    assert!(held.wait().iter().all(|outcome| matches!(outcome.result, Err(TaskError::Cancelled))));
    assert_all_proved(&other.wait(), 2);
}
