//! Each call that the core makes of the driver fails once, one after another: what was made is given back, and the next
//! attempt goes well.

use std::cell::RefCell;
use std::sync::Arc;

use interlock_core_api::{OpenOptions, Residency};
use interlock_engine::core::loaded::LoadedCore;
use interlock_engine::core::{Blinding, Core, CoreError, ProvingKey};
use rand::rngs::OsRng;

use super::driver::Driver;
use super::support::{SMALL, key, options, witness};

/// `CUDA_ERROR_UNKNOWN`: an error that does not end a context.
const UNKNOWN: i32 = 999;

/// Does `work` with the first call failing, then with the second, until none is left to fail; `check` is run after
/// each. Returns how many calls failed. Whoever looks away from a failure has to get through.
fn each(driver: &Driver, words: &str, mut work: impl FnMut() -> bool, mut check: impl FnMut(u64)) -> u64 {
    for n in 1.. {
        driver.steer(&format!("{words} fail=*:nth={n}:{UNKNOWN}"));
        let went_well = work();
        let met = driver.books().number("nth") > 0;
        driver.steer(words);
        check(n);
        if !met {
            assert!(went_well, "nothing failed at call {n}");
            return n - 1;
        }
        assert!(n < 5_000, "there is no end of calls");
    }
    unreachable!("numbers do not end")
}

#[test]
fn of_opening() {
    let Some(driver) = Driver::start("") else { return };
    // What was opened is dropped once no call fails any more.
    let opened = RefCell::new(None);
    let open =
        || opened.replace(driver.open(&options(Residency::AUTO)).ok()).is_none() && opened.borrow().is_some();
    let check = |_| {
        opened.take();
        driver.assert_clean();
    };
    let failed = each(&driver, "", open, check);
    assert!(failed > 20, "{failed} calls");
    for function in ["cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetAttribute", "cuDeviceGetName"] {
        driver.steer(&format!("fail={function}:nth=1:{UNKNOWN}"));
        assert!(driver.open(&options(Residency::AUTO)).is_err(), "{function}");
        driver.assert_clean();
    }
}

#[test]
fn of_making_a_key_ready() {
    let Some(driver) = Driver::start("") else { return };
    for residency in [Residency::RESIDENT, Residency::STREAMED] {
        // Room for a few keys.
        let core = driver.open(&OpenOptions { key_memory: 128 << 10, ..options(residency) }).expect("opens");
        let before = driver.books().objects();
        // A key of its own each time: what is loaded is not loaded again. Were its memory not given back, the
        // memory for keys would be used up in the end.
        let load = || core.load(&key(SMALL)).is_ok();
        let check = |n| {
            let after = driver.books().objects();
            // Streams and events; pinned memory is kept for tasks.
            assert_eq!((after[3], after[4]), (before[3], before[4]), "call {n}");
        };
        let failed = each(&driver, "", load, check);
        assert!(failed > 5, "{failed} calls");
        drop(core);
        driver.assert_clean();
    }
}

fn run(core: &LoadedCore, key: &Arc<ProvingKey>, staged: bool) -> Result<(), CoreError> {
    let witness = Arc::new(witness(SMALL));
    let mut task = core.task(0, key.clone(), witness, Blinding::random(OsRng))?;
    task.prepare()?;
    if staged {
        task.stage()?;
    }
    task.compute()?;
    task.finish().map(drop)
}

fn of_a_task(words: &str, options: &OpenOptions) {
    let Some(driver) = Driver::start(words) else { return };
    let key = key(SMALL);
    for staged in [true, false] {
        let core = driver.open(options).expect("opens");
        core.load(&key).expect("it is made ready");
        let before = driver.books().objects();
        let work = || run(&core, &key, staged).is_ok();
        let check = |n| {
            let after = driver.books().objects();
            assert_eq!((after[3], after[4]), (before[3], before[4]), "call {n}: streams and events");
            assert_eq!(core.usage(0).held_bytes, 0, "call {n}");
            run(&core, &key, staged).unwrap_or_else(|error| panic!("after call {n} had failed: {error}"));
        };
        let failed = each(&driver, words, work, check);
        assert!(failed > 50, "{failed} calls");
        drop(core);
        driver.assert_clean();
    }
}

#[test]
fn of_a_task_with_its_key_on_the_device() {
    of_a_task("", &options(Residency::RESIDENT));
}

#[test]
fn of_a_task_that_streams_its_key() {
    of_a_task("", &options(Residency::STREAMED));
}

#[test]
fn of_a_task_without_pinned_memory() {
    let refused = "fail=cuMemAllocHost_v2,cuMemHostAlloc,cuMemHostRegister_v2:share=1:2";
    of_a_task(refused, &options(Residency::STREAMED));
}

#[test]
fn of_a_task_that_is_measured() {
    of_a_task("", &OpenOptions { measure_steps: true, ..options(Residency::RESIDENT) });
}
