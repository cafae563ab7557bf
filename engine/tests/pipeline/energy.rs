//! Energy of runs, over a stand-in for the driver's management library.

use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use interlock_engine::core::Core;
use interlock_engine::experiment::{
    Arm, ArmRuns, Arrivals, Common, Energy, Jobs, Load, Meter, Metric, RunFigures, Until, run,
};
use interlock_engine::host::PolicyLibrary;
use interlock_engine::interlock::Limits;
use interlock_experiment::Verdict;
use interlock_tests::libraries::library;

use super::job;
use super::scripted::ScriptedCore;

/// The stand-in with these cards and those of other tests.
fn meter(cards: &str) -> Meter {
    // SAFETY: the stand-in does nothing when it is loaded.
    let library = unsafe { libloading::Library::new(library("test-nvml")) }.expect("it is a library");
    let words = CString::new(cards).expect("no zero in it");
    // SAFETY: the type is the function's own, and the words are a C string.
    let status = unsafe {
        let steer = library.get::<unsafe extern "C" fn(*const c_char) -> c_int>(b"interlock_test_nvml_steer");
        steer.expect("the stand-in has it")(words.as_ptr())
    };
    assert_eq!(status, 0, "{cards}");
    let meter = Meter::of_library(&self::library("test-nvml")).expect("it can be opened");
    // What it has counted is kept as long as it is loaded.
    std::mem::forget(library);
    meter
}

/// The figures of a run of so many jobs, each of 0.1 s, one after another, on devices with these UUIDs.
fn figures(meter: Option<&Meter>, uuids: &[&str], jobs: u32) -> RunFigures {
    let core = ScriptedCore::new(&vec![1 << 30; uuids.len()], |call| {
        if call.stage == "Compute" {
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    });
    let core: Arc<dyn Core> = Arc::new(core.with_uuids(uuids));
    let policy = PolicyLibrary::fallback();
    let arm = Arm { policy, options: String::new(), core, fallback_core: None, workers: 1, vram_limit: None };
    let common = Common { synthesis_workers: 1, verify_proofs: true, limits: Limits::DEFAULT };
    let load = Load { jobs, warm_up: 1, arrivals: Arrivals::Closed { in_flight: 1 } };
    let stop = AtomicBool::new(false);
    let until = Until { stop: &stop, deadline: None };
    let names = ["witness 0".to_owned()];
    let jobs = Jobs { make: &|| job(1), names: &names };
    run(&arm, &common, &load, 1, until, jobs, meter).expect("it runs").figures
}

/// Watts; or why they are not known, where that is told.
type Told = Result<f64, Option<&'static str>>;

#[test]
fn what_the_cards_of_an_arm_used_is_told_or_why_it_is_not_known() {
    let meter = meter(
        "GPU-a:watts=120 GPU-b:watts=300 GPU-fails:watts=100,fails=40 GPU-back:watts=100,back=40 \
         GPU-slow:watts=100,step_us=900000 GPU-none:uncounted GPU-dead:fails=1",
    );
    // Runs of 2.4 s and more, but for one.
    let cases: [(&[&str], u32, Told); 9] = [
        (&["GPU-b"], 24, Ok(300.0)),
        (&["GPU-b", "GPU-a"], 24, Ok(420.0)),
        (&["GPU-b"], 3, Err(Some("too few to tell energy"))),
        (&["GPU-fails"], 24, Err(Some("could not be read"))),
        (&["GPU-a", "GPU-back"], 24, Err(Some("went back from"))),
        (&["GPU-slow"], 24, Err(Some("which is too little"))),
        (&["GPU-dead"], 24, Err(Some("could not be read"))),
        (&["GPU-none", "GPU-a"], 24, Err(None)),
        (&["GPU-unheard-of"], 24, Err(None)),
    ];
    std::thread::scope(|scope| {
        for (uuids, jobs, expected) in cases {
            let meter = &meter;
            scope.spawn(move || {
                let figures = figures(Some(meter), uuids, jobs);
                match expected {
                    Ok(watts) => assert_used(&figures, watts),
                    Err(words) => {
                        assert_eq!(figures.energy, None, "{uuids:?}");
                        let told = figures.energy_unknown.as_deref();
                        assert_eq!(told.is_some(), words.is_some(), "{uuids:?}: {told:?}");
                        assert!(words.is_none_or(|words| told.unwrap_or("").contains(words)), "{told:?}");
                    }
                }
            });
        }
    });
}

/// A card that uses the same at all times uses so many watts times seconds.
#[track_caller]
fn assert_used(figures: &RunFigures, watts: f64) {
    let Energy { joules, joules_per_proof, mean_watts } = figures.energy.expect("it is known");
    // A thread may be kept waiting between reading a counter and looking at the clock.
    assert!((mean_watts / watts - 1.0).abs() < 0.1, "{mean_watts} W, not {watts} W");
    assert!((joules / (mean_watts * figures.seconds) - 1.0).abs() < 1e-9, "{joules} J");
    assert!((joules_per_proof / (joules / figures.proofs as f64) - 1.0).abs() < 1e-9, "{joules_per_proof} J");
    assert_eq!(figures.energy_unknown, None);
}

#[test]
fn without_a_driver_no_energy_is_told_and_nothing_else_is_missing() {
    let figures = figures(None, &["GPU-b"], 3);
    assert_eq!((figures.energy, &figures.energy_unknown), (None, &None));
    assert!(figures.proofs >= 3);
}

#[test]
fn arms_are_compared_by_joules_in_the_rounds_in_which_both_are_known() {
    let figures = figures(None, &["GPU-b"], 1);
    let with = |joules_per_proof: Option<f64>| {
        let energy = |joules_per_proof| Energy { joules: 1.0, joules_per_proof, mean_watts: 1.0 };
        RunFigures { energy: joules_per_proof.map(energy), ..figures.clone() }
    };
    let runs = |joules: &[Option<f64>]| ArmRuns {
        rounds: joules.iter().map(|joules| with(*joules)).enumerate().collect(),
        ..ArmRuns::default()
    };
    let baseline = runs(&[Some(100.0), None, Some(110.0), Some(104.0), Some(98.0)]);
    let candidate = runs(&[Some(150.0), Some(1.0), Some(165.0), None, Some(147.0)]);
    let compared = Metric::JoulesPerProof.compare(&baseline, &candidate, 1).expect("there are three rounds");
    assert_eq!((compared.rounds, compared.verdict), (3, Verdict::Worse));
    assert!((compared.ratio.estimate - 1.5).abs() < 1e-9, "{compared:?}");
    assert_eq!(Metric::JoulesPerProof.compare(&baseline, &runs(&[None; 5]), 1), None);
}
