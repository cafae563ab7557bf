//! What a submission sees to before the first task: room, and a key that is ready.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use interlock_engine::core::CoreError;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::pipeline::{Engine, EngineError, Job};

use super::faulty::{key, witness};
use super::scripted::{NAME, ScriptedCore, lost};
use super::{assert_all_proved, cpu, job};

const ROOM: u64 = 1 << 30;

#[test]
fn a_job_that_fits_no_device_is_refused_with_the_numbers() {
    let plan = cpu().plan(&key());
    for (capacities, fits) in [
        (vec![64], false),
        (vec![64, plan.peak_bytes() - 1], false),
        (vec![64, plan.peak_bytes()], true),
        (vec![plan.peak_bytes()], true),
    ] {
        let core = ScriptedCore::new(&capacities, |_| Ok(()));
        let engine = Engine::builder(Arc::new(core)).fallback_core(cpu()).start().expect("starts");
        let error = match engine.submit(job(4)) {
            Ok(handle) => {
                assert!(fits);
                assert_all_proved(&handle.wait(), 4);
                // The small device got none of them, nor did the fallback core.
                let finished: Vec<u64> =
                    engine.devices().iter().map(|device| device.counters.finished).collect();
                assert_eq!(finished[capacities.len() - 1], 4, "{finished:?}");
                continue;
            }
            Err(error) => error,
        };
        assert!(!fits);
        let largest = *capacities.last().expect("a device");
        match &error {
            EngineError::TooLarge { core: NAME, plan: needed, capacity_bytes, device } => {
                assert_eq!((*needed, *capacity_bytes), (plan, largest));
                assert_eq!(*device, format!("card {}", capacities.len() - 1));
            }
            other => panic!("{other:?}"),
        }
        let text = error.to_string();
        for number in [plan.peak_bytes(), plan.staged_bytes, plan.compute_extra, largest] {
            assert!(text.contains(&number.to_string()), "{text}");
        }
    }
}

#[test]
fn a_fallback_core_without_room_is_one_more_cause() {
    let core = ScriptedCore::new(&[ROOM], |_| {
        Err(CoreError::Device { core: NAME, device: 0, message: "no".to_owned() })
    });
    let small = Arc::new(CpuCore::new(64, Some(1)).expect("a thread"));
    let engine = Engine::builder(Arc::new(core)).fallback_core(small).start().expect("starts");
    let outcomes = engine.submit(job(1)).expect("taken").wait();
    let causes = super::failed(&outcomes[0]);
    assert_eq!(causes.len(), 3);
    assert!(causes[2].to_string().contains("there are 64 B for tasks"), "{}", causes[2]);
}

#[test]
fn a_key_is_ready_before_its_first_task_and_a_failure_of_that_costs_nothing() {
    let failures: [fn() -> Result<(), CoreError>; 3] = [
        || Ok(()),
        || Err(CoreError::OutOfMemory { core: NAME, what: "a key".into(), bytes: 1 }),
        || panic!("the card is on fire"),
    ];
    for load in failures {
        let loads = Arc::new(AtomicU32::new(0));
        let (counted, seen) = (loads.clone(), loads.clone());
        let core = ScriptedCore::new(&[ROOM], move |_| {
            assert!(seen.load(Ordering::SeqCst) > 0, "a task came before its key");
            Ok(())
        })
        .on_load(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            load()
        });
        let engine = Engine::builder(Arc::new(core)).start().expect("starts");
        assert_all_proved(&engine.submit(job(3)).expect("taken").wait(), 3);
        assert_eq!(loads.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn a_device_that_is_lost_while_a_key_is_made_ready_gets_no_task() {
    let core = ScriptedCore::new(&[ROOM; 2], |call| if call.device == 1 { Err(lost(1)) } else { Ok(()) })
        .on_load(|_| Err(lost(1)));
    let engine = Engine::builder(Arc::new(core)).start().expect("starts");
    let outcomes = engine.submit(job(6)).expect("taken").wait();
    assert_all_proved(&outcomes, 6);
    assert!(outcomes.iter().all(|outcome| outcome.report.attempts == 1 && outcome.report.device == 0));
    assert!(engine.devices()[1].lost.is_some());
}

#[test]
fn other_jobs_go_on_while_a_key_is_made_ready() {
    let (loading, is_loading) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let slow = key();
    let slow_key = slow.clone();
    let core = ScriptedCore::new(&[ROOM], |_| Ok(())).on_load(move |key| {
        if Arc::ptr_eq(key, &slow_key) {
            loading.send(()).unwrap();
            gate.lock().unwrap().recv().unwrap();
        }
        Ok(())
    });
    let engine = Engine::builder(Arc::new(core)).start().expect("starts");
    std::thread::scope(|scope| {
        let held = scope.spawn(|| {
            let mut job = Job::new(slow);
            job.push_witness(witness(2));
            engine.submit(job).expect("taken").wait()
        });
        is_loading.recv().expect("it is made ready");
        assert_all_proved(&engine.submit(job(3)).expect("taken").wait(), 3);
        go.send(()).expect("it waits");
        assert_all_proved(&held.join().expect("it ends"), 1);
    });
}
