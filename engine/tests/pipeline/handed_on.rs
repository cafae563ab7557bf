//! Tasks that the main core fails wait for the fallback core: in a line of limited length, and also when the engine
//! stops.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use interlock_engine::core::CoreError;
use interlock_engine::pipeline::{Engine, TaskError};

use super::job;
use super::scripted::{NAME, ScriptedCore};

const ROOM: u64 = 1 << 30;
const WORKERS: u32 = 2;
const SYNTHESIS_WORKERS: u32 = 1;

/// In the fallback core's hands, in its line, and in the hands of workers that wait for a place there.
const MOST_BEGUN: usize = 1 + (WORKERS + SYNTHESIS_WORKERS) as usize + WORKERS as usize;

#[test]
fn what_has_begun_is_finished_after_a_stop_and_is_not_much() {
    let begun = Arc::new(AtomicU32::new(0));
    let counter = begun.clone();
    let card = ScriptedCore::new(&[ROOM], move |call| {
        counter.fetch_add(u32::from(call.stage == "Prepare"), Ordering::SeqCst);
        let message = "it is not feeling well".to_owned();
        Err(CoreError::Device { core: NAME, device: 0, message })
    });
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(Some(gate));
    let fallback = ScriptedCore::new(&[ROOM], move |_| {
        if let Some(gate) = gate.lock().unwrap().take() {
            // An error says that the test is over.
            let _ = gate.recv();
        }
        Ok(())
    });
    let engine = Engine::builder(Arc::new(card))
        .fallback_core(Arc::new(fallback))
        .workers_per_device(WORKERS)
        .synthesis_workers(SYNTHESIS_WORKERS)
        .start()
        .expect("starts");
    let handle = engine.submit(job(40)).expect("taken");
    // Each task has two attempts on the card.
    while begun.load(Ordering::SeqCst) < 2 * MOST_BEGUN as u32 {
        std::thread::yield_now();
    }
    engine.stop_handle().stop();
    go.send(()).expect("it waits");
    let outcomes = handle.wait();
    let (finished, given_up): (Vec<_>, Vec<_>) =
        outcomes.iter().partition(|outcome| outcome.report.attempts > 0);
    assert_eq!((finished.len(), given_up.len()), (MOST_BEGUN, 40 - MOST_BEGUN));
    assert!(finished.iter().all(|outcome| outcome.result.is_ok() && outcome.report.attempts == 3));
    assert!(given_up.iter().all(|outcome| matches!(outcome.result, Err(TaskError::Cancelled))));
}
