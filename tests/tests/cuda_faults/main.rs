//! The CUDA core when the driver fails it: on a stand-in for the driver, without a card.
//!
//! With `INTERLOCK_TEST_DRIVER_FORWARD=/usr/lib/x86_64-linux-gnu/libcuda.so.1` the same tests run on a card: calls are
//! passed on, and only the failures are made up.

mod driver;
mod each_call;
mod engine;
mod support;

use interlock_core_api::{OpenOptions, Residency};
use interlock_engine::core::loaded::LoadCoreFault;
use interlock_engine::core::{Blinding, Core};
use interlock_engine::srs::HBasis;
use rand::rngs::OsRng;

use driver::Driver;
use support::{VRAM, options, sized};

#[test]
fn the_stand_in_has_every_function_that_the_core_links_to() {
    let names = include_str!("../../../cuda/driver-symbols.txt");
    let names = names.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let missing: Vec<_> = names.filter(|name| !driver::has(name)).collect();
    assert!(missing.is_empty(), "{missing:?}: add them to tests/cuda-driver/src/exports");
}

/// A second stand-in takes the place of the real driver.
#[test]
fn calls_can_be_passed_on() {
    if driver::is_real() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder can be made");
    let second = folder.path().join("libreal.so");
    std::fs::copy(interlock_tests::libraries::library("test-driver"), &second).expect("copied");
    let mut test = std::process::Command::new(std::env::current_exe().expect("a test runs from a file"));
    test.args(["tasks_hold", "with_its_key_on_the_device", "any_call"]);
    let output = test.env("INTERLOCK_TEST_DRIVER_FORWARD", &second).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("3 passed"), "{text}");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let Some(driver) = Driver::start("devices=0") else { return };
    if !driver::is_real() {
        let error = driver.open(&OpenOptions::default()).err().expect("there is no device");
        assert!(matches!(error.fault, LoadCoreFault::NoDevice(_)), "{error}");
    }
    driver.steer("");
    let cases = [
        (OpenOptions { devices: vec![99].into(), ..options(Residency::AUTO) }, "device 99: there"),
        (OpenOptions { key_memory: VRAM, ..options(Residency::AUTO) }, "key_memory of 268435456 bytes"),
        (OpenOptions { vram_limit: 1 << 50, ..OpenOptions::default() }, "bytes free"),
    ];
    for (options, words) in cases {
        let error = driver.open(&options).err().expect("it cannot be");
        assert!(error.to_string().contains(words), "{error}");
        driver.assert_clean();
    }
}

#[test]
fn tasks_hold_what_their_plan_says_whatever_the_circuit() {
    let Some(driver) = Driver::start("") else { return };
    for (log_domain, basis) in
        [2, 3, 5, 8, 11, 13, 16, 18].into_iter().zip([HBasis::Monomial, HBasis::OddCoset].into_iter().cycle())
    {
        let (key, witness) = sized(log_domain, basis);
        for (residency, staged) in
            [(Residency::AUTO, true), (Residency::AUTO, false), (Residency::STREAMED, true)]
        {
            let core = driver.open(&options(residency)).expect("opens");
            let plan = core.plan(&key);
            let blinding = Blinding::random(OsRng);
            let mut task = core.task(0, key.clone(), witness.clone(), blinding).expect("made");
            task.prepare().expect("prepares");
            assert_eq!(core.usage(0).peak_bytes, 0);
            if staged {
                task.stage().expect("stages");
                assert_eq!(core.usage(0).held_bytes, plan.staged_bytes, "2^{log_domain}");
            }
            task.compute().expect("computes");
            let usage = core.usage(0);
            let of = format!("2^{log_domain} {basis:?} {residency:?}, staged ahead: {staged}");
            assert_eq!((usage.held_bytes, usage.peak_bytes), (0, plan.peak_bytes()), "{of}");
            task.finish().expect("finishes");
        }
    }
    driver.assert_clean();
}
