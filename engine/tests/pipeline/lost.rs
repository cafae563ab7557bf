//! A device is lost: told once, no more tasks for it, and no task lost.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;

use interlock_engine::core::{Core, CoreError};
use interlock_engine::host::PolicyLibrary;
use interlock_engine::pipeline::{
    AttemptError, Engine, Job, Recorder, TaskError, TimelineEvent, TimelineKind,
};

use super::faulty::{key, witness};
use super::scripted::{NAME, ScriptedCore, lost};
use super::{assert_all_proved, cpu, failed, job};

const ROOM: u64 = 1 << 30;

/// Counts what is said about lost devices.
#[derive(Default)]
struct Losses(Mutex<Vec<(Option<u32>, String)>>);

impl Recorder for Losses {
    fn record(&self, event: &TimelineEvent) {
        if event.event == TimelineKind::DeviceLost {
            self.0.lock().unwrap().push((event.device, event.detail.clone()));
        }
    }
}

/// A core of which a device is lost when it first gets to `stage`; counts the calls that come later.
fn losing(devices: usize, device: usize, stage: &'static str) -> (Arc<dyn Core>, Arc<AtomicU32>) {
    let late = Arc::new(AtomicU32::new(0));
    let (gone, counter) = (AtomicBool::new(false), late.clone());
    let core = ScriptedCore::new(&vec![ROOM; devices], move |call| {
        if call.device != device {
            return Ok(());
        }
        if gone.load(Ordering::SeqCst) {
            counter.fetch_add(1, Ordering::SeqCst);
            return Err(lost(device));
        }
        if call.stage == stage {
            gone.store(true, Ordering::SeqCst);
            return Err(lost(device));
        }
        Ok(())
    });
    (Arc::new(core), late)
}

#[test]
fn the_fallback_core_takes_over_whatever_stage_it_happens_in() {
    // The linked policy stages inline.
    for stage in ["Prepare", "Compute", "Finish"] {
        for workers in [1, 3] {
            let (core, late) = losing(1, 0, stage);
            let said = Arc::new(Losses::default());
            let engine = Engine::builder(core)
                .fallback_core(cpu())
                .workers_per_device(workers)
                .recorder(said.clone())
                .start()
                .expect("starts");
            let outcomes = engine.submit(job(8)).expect("taken").wait();
            assert_all_proved(&outcomes, 8);
            // The worker that lost it asked once; the others may have been inside a stage.
            assert!(late.load(Ordering::SeqCst) < workers, "{stage}");
            assert!(outcomes.iter().any(|outcome| outcome.report.core == "cpu"));
            let late_job = engine.submit(job(3)).expect("taken").wait();
            assert_all_proved(&late_job, 3);
            assert!(
                late_job.iter().all(|outcome| outcome.report.core == "cpu" && outcome.report.attempts == 1)
            );
            assert_eq!(*said.0.lock().unwrap(), [(Some(0), "it fell off the bus".to_owned())], "{stage}");
            let devices = engine.devices();
            assert_eq!(devices[0].lost.as_deref(), Some("it fell off the bus"));
            assert_eq!(devices[1].lost, None);
            for snapshot in engine.snapshots() {
                assert!(snapshot.waiting.is_empty() && snapshot.running.is_empty(), "{snapshot:?}");
            }
        }
    }
}

#[test]
fn the_other_device_of_the_core_goes_on() {
    let (core, _) = losing(2, 0, "Compute");
    let engine = Engine::builder(core).start().expect("starts");
    // Without a fallback core: the other device has to prove all of it.
    for _ in 0..3 {
        assert_all_proved(&engine.submit(job(10)).expect("taken").wait(), 10);
    }
    let devices = engine.devices();
    assert!(devices[0].lost.is_some() && devices[1].lost.is_none());
    assert_eq!((devices[0].counters.finished, devices[1].counters.finished), (0, 30));
}

#[test]
fn with_nobody_left_tasks_fail_with_the_cause() {
    let (core, _) = losing(1, 0, "Compute");
    let engine = Engine::builder(core).start().expect("starts");
    for _ in 0..2 {
        let outcomes = engine.submit(job(5)).expect("taken").wait();
        assert_eq!(outcomes.len(), 5);
        for outcome in &outcomes {
            let causes = failed(outcome);
            let said = |cause: &AttemptError| {
                matches!(cause, AttemptError::Core(CoreError::DeviceLost { core: NAME, .. }))
            };
            assert!(causes.len() == 1 && said(&causes[0]), "{causes:?}");
        }
    }
}

#[test]
fn a_task_that_loses_every_device_it_gets_is_stopped_before_the_last() {
    // The witness of the root 3 takes devices down.
    let poison = witness(3);
    let core = ScriptedCore::new(&[ROOM; 3], move |call| {
        if call.stage == "Compute" && *call.witness == poison { Err(lost(call.device)) } else { Ok(()) }
    });
    let engine = Engine::builder(Arc::new(core)).fallback_core(cpu()).start().expect("starts");
    assert_all_proved(&engine.submit(job(20)).expect("taken").wait(), 20);
    assert_eq!(engine.devices().iter().filter(|device| device.lost.is_some()).count(), 2);
}

/// An engine with one task held in Compute and another that waits at its gate; counts who got through Prepare. The first ends with `result` once
/// something is sent.
fn held_engine(
    result: fn() -> Result<(), CoreError>,
) -> (Engine, Job, mpsc::Receiver<()>, mpsc::Sender<()>, Arc<AtomicU32>) {
    let (inside, is_inside) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(Some(gate));
    let prepared = Arc::new(AtomicU32::new(0));
    let counter = prepared.clone();
    let core = ScriptedCore::new(&[ROOM], move |call| {
        if call.stage != "Compute" {
            counter.fetch_add(u32::from(call.stage == "Prepare"), Ordering::SeqCst);
            return Ok(());
        }
        let Some(gate) = gate.lock().unwrap().take() else { return Ok(()) };
        inside.send(()).unwrap();
        // An error says that the test is over.
        let _ = gate.recv();
        result()
    });
    let engine =
        Engine::builder(Arc::new(core)).fallback_core(cpu()).workers_per_device(2).start().expect("starts");
    (engine, job(2), is_inside, go, prepared)
}

/// Waits until a task stands at a gate of the first device.
fn until_one_waits(engine: &Engine) {
    while engine.snapshots()[0].waiting.is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn who_waits_at_a_gate_of_a_lost_device_moves_on() {
    let (engine, job, is_inside, go, prepared) = held_engine(|| Err(lost(0)));
    let handle = engine.submit(job).expect("taken");
    is_inside.recv().expect("it gets there");
    until_one_waits(&engine);
    go.send(()).expect("it waits");
    let outcomes = handle.wait();
    assert_all_proved(&outcomes, 2);
    assert!(outcomes.iter().all(|outcome| outcome.report.core == "cpu" && outcome.report.attempts == 2));
    // One was inside, the other was taken out at its gate, before it or after it was let in.
    let counters = &engine.devices()[0].counters;
    assert_eq!(counters.failed + counters.cancelled, 2);
    assert_eq!(prepared.load(Ordering::SeqCst), 1, "the other one ran nothing");
}

#[test]
fn a_cancelled_job_leaves_its_gates_at_once_and_a_running_stage_ends_first() {
    let (engine, job, is_inside, go, _) = held_engine(|| Ok(()));
    let handle = engine.submit(job).expect("taken");
    is_inside.recv().expect("it gets there");
    until_one_waits(&engine);
    engine.cancel(&handle);
    let mut outcomes = handle.outcomes();
    // While the first still computes.
    let waiter = outcomes.next().expect("two partitions");
    assert!(matches!(waiter.result, Err(TaskError::Cancelled)));
    go.send(()).expect("it waits");
    let runner = outcomes.next().expect("two partitions");
    assert!(matches!(runner.result, Err(TaskError::Cancelled)));
    assert_ne!(waiter.report.partition, runner.report.partition);
}

#[test]
fn a_lost_device_does_not_stand_in_the_way_of_a_switch_or_a_stop() {
    let (core, _) = losing(2, 1, "Compute");
    let engine = Engine::builder(core).fallback_core(cpu()).start().expect("starts");
    assert_all_proved(&engine.submit(job(6)).expect("taken").wait(), 6);
    engine.switch_policy(&PolicyLibrary::fallback()).expect("it takes no options");
    assert_all_proved(&engine.submit(job(6)).expect("taken").wait(), 6);
    let (started, has_started) = mpsc::channel();
    let mut last = Job::new(key());
    last.push_synthesis(move || {
        started.send(())?;
        Ok(witness(2))
    });
    let last = engine.submit(last).expect("taken");
    has_started.recv().expect("it begins");
    engine.stop_handle().stop();
    // Begun before the stop or not: it ends, and so does the engine.
    assert_eq!(last.wait().len(), 1);
    drop(engine);
}
