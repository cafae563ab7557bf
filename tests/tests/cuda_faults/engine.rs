//! The engine over a core whose driver fails: every partition is proved, and nothing is held in the end.

use std::sync::Arc;

use interlock_core_api::{OpenOptions, Residency};
use interlock_engine::core::loaded::LoadedCore;

use super::driver::{Driver, is_real};
use super::support::{Record, SMALL, assert_idle, assert_proved, engine, job, key, options};

/// Calls that may wait for the whole device, or that take long: never while a task is on its way.
const NEVER_ON_A_TASKS_PATH: [&str; 17] = [
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemAllocAsync",
    "cuMemFreeAsync",
    "cuMemGetInfo_v2",
    "cuMemAllocHost_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuCtxSynchronize",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyDtoD_v2",
    "cuMemsetD8_v2",
    "cuMemsetD32_v2",
    "cuModuleLoadDataEx",
];

fn open(driver: &Driver, options: &OpenOptions) -> Arc<LoadedCore> {
    Arc::new(driver.open(options).expect("opens"))
}

#[test]
fn wrong_proofs_are_tried_again_and_then_made_by_the_cpu_core() {
    let Some(driver) = Driver::start("") else { return };
    if is_real() {
        println!("skipped: on a card the kernels do something");
        return;
    }
    let core = open(&driver, &options(Residency::AUTO));
    let (key, record) = (key(SMALL), Arc::new(Record::default()));
    let engine = engine(&core, 3, record.clone());
    let outcomes = engine.submit(job(&key, 8)).expect("taken").wait();
    assert_proved(&key, &outcomes, 8);
    for outcome in &outcomes {
        assert_eq!((outcome.report.core, outcome.report.attempts), ("cpu", 3));
        let partition = outcome.report.partition;
        assert_eq!((record.arrivals(partition, 0), record.arrivals(partition, 1)), (2, 1));
    }
    assert_idle(&engine, &core, 1);
    assert!(engine.devices()[0].lost.is_none());
    drop((engine, core));
    driver.assert_clean();
}

#[test]
fn a_thousand_tasks_and_failures_at_random() {
    const WORKERS: u64 = 4;
    for (residency, seed) in [(Residency::RESIDENT, 1), (Residency::STREAMED, 2)] {
        let Some(driver) = Driver::start("") else { return };
        let options = OpenOptions { tasks_at_once: WORKERS as u32, ..options(residency) };
        let core = open(&driver, &options);
        let opened = driver.books();
        let (key, record) = (key(SMALL), Arc::new(Record::default()));
        let engine = engine(&core, WORKERS as u32, record.clone());
        driver.steer(&format!("seed={seed} fail=*:share=0.004:2 fail=*:share=0.004:999"));
        let jobs: Vec<_> = (0..5).map(|_| engine.submit(job(&key, 100)).expect("taken")).collect();
        for job in jobs {
            assert_proved(&key, &job.wait(), 100);
        }
        assert!(driver.books().number("injected") > 100);
        assert_idle(&engine, &core, 1);
        // While it lives: two streams and some events a task, and pinned memory that later tasks use again.
        let [device, pinned, registered, streams, events, modules, contexts] = record.most();
        assert_eq!((device, modules, contexts), (1, opened.number("modules"), 1));
        assert!(streams <= 2 * WORKERS + 1, "{streams} streams");
        assert!(events <= 16 * WORKERS + 1, "{events} events");
        assert!(pinned <= 16 + 6 * WORKERS && registered <= 32, "{pinned} pinned, {registered} registered");
        driver.steer("");
        drop((engine, core));
        driver.assert_clean();
    }
}

#[test]
fn a_device_that_is_lost_at_any_call_is_told_once_and_the_cpu_core_takes_over() {
    let key = key(SMALL);
    for residency in [Residency::RESIDENT, Residency::STREAMED] {
        for call in [1, 3, 10, 30, 70, 150, 400] {
            let Some(driver) = Driver::start("") else { return };
            let core = open(&driver, &options(residency));
            let record = Arc::new(Record::default());
            let engine = engine(&core, 3, record.clone());
            driver.steer(&format!("lose=*:nth={call}:719"));
            let outcomes = engine.submit(job(&key, 6)).expect("taken").wait();
            assert_proved(&key, &outcomes, 6);
            let lost = driver.books().number("nth") > 0;
            assert!(lost, "six tasks make more than {call} calls");
            assert_eq!(record.lost(), [0], "call {call}");
            let reason = engine.devices()[0].lost.clone().expect("it is reported");
            assert!(reason.contains("719"), "{reason}");
            let later = engine.submit(job(&key, 2)).expect("taken").wait();
            assert_proved(&key, &later, 2);
            assert!(later.iter().all(|outcome| (outcome.report.core, outcome.report.attempts) == ("cpu", 1)));
            assert_idle(&engine, &core, 1);
            drop((engine, core));
            driver.assert_clean();
        }
    }
}

#[test]
fn of_two_devices_the_other_one_goes_on() {
    let key = key(SMALL);
    for call in [40, 200, 500] {
        let Some(driver) = Driver::start("devices=2") else { return };
        let options = OpenOptions { devices: vec![0, 1].into(), ..options(Residency::AUTO) };
        let core = match driver.open(&options) {
            Ok(core) => Arc::new(core),
            Err(error) if is_real() => {
                println!("skipped: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let record = Arc::new(Record::default());
        let engine = engine(&core, 2, record.clone());
        driver.steer(&format!("devices=2 lose=*:nth={call}:214"));
        assert_proved(&key, &engine.submit(job(&key, 12)).expect("taken").wait(), 12);
        assert_proved(&key, &engine.submit(job(&key, 6)).expect("taken").wait(), 6);
        let lost = record.lost();
        assert_eq!(lost.len(), 1, "call {call}: {lost:?}");
        assert!(record.took_over().contains(&(1 - lost[0])), "call {call}: {:?}", record.took_over());
        assert!(!record.took_over().contains(&lost[0]), "call {call}");
        let reports = engine.devices();
        let told: Vec<bool> = reports.iter().map(|device| device.lost.is_some()).collect();
        assert_eq!(told, [lost[0] == 0, lost[0] == 1, false]);
        assert_idle(&engine, &core, 2);
        drop((engine, core));
        driver.assert_clean();
    }
}

#[test]
fn nothing_on_a_tasks_path_waits_for_the_whole_device() {
    let key = key(SMALL);
    for residency in [Residency::RESIDENT, Residency::STREAMED] {
        let Some(driver) = Driver::start("") else { return };
        let core = open(&driver, &OpenOptions { tasks_at_once: 3, ..options(residency) });
        let record = Arc::new(Record::default());
        let engine = engine(&core, 3, record.clone());
        let outcomes = engine.submit(job(&key, 20)).expect("taken").wait();
        assert_proved(&key, &outcomes, 20);
        let (before, after) = (record.first_arrival(), driver.books());
        for function in NEVER_ON_A_TASKS_PATH {
            assert_eq!(after.calls(function), before.calls(function), "{function}, {residency:?}");
        }
        assert_eq!(after.number("null_stream"), before.number("null_stream"), "{residency:?}");
        // The books do count, and tasks did run.
        assert!(
            before.calls("cuMemAlloc_v2") > 0
                && after.calls("cuLaunchKernel") > before.calls("cuLaunchKernel")
        );
        drop((engine, core));
        driver.assert_clean();
    }
}
