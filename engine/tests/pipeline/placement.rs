//! Where tasks go when there are several devices: what has not arrived yet counts, what has ended does not.

use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};

use interlock_engine::core::{Core, CoreError};
use interlock_engine::pipeline::{Engine, Job, PartitionOutcome, TaskError};

use super::faulty::{key, witness};
use super::scripted::{NAME, ScriptedCore};
use super::{assert_all_proved, cpu, job};

const ROOM: u64 = 1 << 30;

/// Holds whoever comes until it is opened.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let is_open = self.is_open.lock().unwrap();
        drop(self.changed.wait_while(is_open, |is_open| !*is_open).unwrap());
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

/// A core on which every task is held in Prepare until the gate is open.
fn held(devices: usize) -> (Arc<dyn Core>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let passed = gate.clone();
    let core = ScriptedCore::new(&vec![ROOM; devices], move |call| {
        if call.stage == "Prepare" {
            passed.pass();
        }
        Ok(())
    });
    (Arc::new(core), gate)
}

/// A job of `count` partitions; what is sent tells that the witness of the last one is being made. With one synthesis worker all others
/// have been sent to a device by then.
fn told_of_the_last(count: u64) -> (Job, mpsc::Receiver<()>) {
    let (begun, has_begun) = mpsc::channel();
    let mut job = job(count - 1);
    job.push_synthesis(move || {
        begun.send(())?;
        Ok(witness(count + 1))
    });
    (job, has_begun)
}

/// How many of the outcomes come from each device.
fn by_device(outcomes: &[PartitionOutcome], devices: u32) -> Vec<usize> {
    let on = |device| outcomes.iter().filter(|outcome| outcome.report.device == device).count();
    (0..devices).map(on).collect()
}

/// A task alone goes to the first of devices that are equally loaded.
fn assert_all_are_free(engine: &Engine) {
    for _ in 0..3 {
        let outcomes = engine.submit(job(1)).expect("taken").wait();
        assert_all_proved(&outcomes, 1);
        assert_eq!(outcomes[0].report.device, 0);
    }
}

#[test]
fn what_waits_for_a_worker_counts_as_load() {
    let (core, gate) = held(4);
    let engine = Engine::builder(core).workers_per_device(1).start().expect("starts");
    // Four run, four wait for a worker, and the last one has the last place.
    let (job, has_begun) = told_of_the_last(9);
    let job = engine.submit(job).expect("taken");
    has_begun.recv().expect("there are places for all");
    gate.open();
    let outcomes = job.wait();
    assert_all_proved(&outcomes, 9);
    assert_eq!(by_device(&outcomes[..8], 4), [2; 4]);
    assert_all_are_free(&engine);
}

#[test]
fn tasks_that_are_placed_at_the_same_time_see_each_other() {
    let (core, gate) = held(4);
    let engine = Engine::builder(core).workers_per_device(2).synthesis_workers(8).start().expect("starts");
    let handle = engine.submit(job(8)).expect("taken");
    // Nobody gets past Prepare, and there are workers for all: they are where they were placed.
    let all_here = || {
        let tasks = engine
            .snapshots()
            .iter()
            .map(|device| device.waiting.len() + device.running.len())
            .sum::<usize>();
        tasks == 8
    };
    while !all_here() {
        std::thread::yield_now();
    }
    gate.open();
    let outcomes = handle.wait();
    assert_all_proved(&outcomes, 8);
    assert_eq!(by_device(&outcomes, 4), [2; 4]);
}

#[test]
fn a_task_that_was_cancelled_or_went_elsewhere_counts_no_more() {
    let (core, gate) = held(2);
    let engine = Engine::builder(core).workers_per_device(1).start().expect("starts");
    let (job, has_begun) = told_of_the_last(5);
    let handle = engine.submit(job).expect("taken");
    has_begun.recv().expect("there are places for all");
    engine.cancel(&handle);
    gate.open();
    let outcomes = handle.wait();
    assert!(outcomes.iter().all(|outcome| matches!(outcome.result, Err(TaskError::Cancelled))));
    assert_all_are_free(&engine);

    // Both attempts at the witness of the root 9 fail: it goes to the fallback core.
    let bad = witness(9);
    let core = ScriptedCore::new(&[ROOM; 2], move |call| {
        if call.stage == "Compute" && *call.witness == bad {
            let (core, device) = (NAME, call.device);
            return Err(CoreError::Device { core, device, message: "it gave up".to_owned() });
        }
        Ok(())
    });
    let engine = Engine::builder(Arc::new(core)).fallback_core(cpu()).start().expect("starts");
    let mut job = Job::new(key());
    job.push_witness(witness(9));
    let outcomes = engine.submit(job).expect("taken").wait();
    assert_eq!((outcomes[0].report.core, outcomes[0].report.attempts), ("cpu", 3));
    assert_all_are_free(&engine);
}
