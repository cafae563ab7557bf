//! The scenarios that ship, held against what was published about the machine that they describe. `scenarios/README.md` has the sources.

mod support;

use std::path::Path;

use interlock_arbiter::PolicySource;
use interlock_conformance::Linked;
use interlock_simulator::{PolicyFigures, Scenario, simulate};
use interlock_two_lock::TwoLock;
use interlock_vram_token::VramToken;
use support::{assert_near, policy, run};

/// How far a figure may be from the published one.
const TOLERANCE: f64 = 0.1;

fn shipped(name: &str) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name).with_extension("ron");
    Scenario::read(&file).unwrap_or_else(|error| panic!("{error}"))
}

fn seconds_per_proof(figures: &PolicyFigures) -> f64 {
    assert_eq!(figures.failed, 0, "{}", figures.name);
    figures.seconds_per_proof.expect("there are proofs")
}

fn run_with(scenario: &Scenario, policy: &dyn PolicySource) -> PolicyFigures {
    let fallback = support::policy("serialized-fallback");
    simulate(scenario, policy, &*fallback, None).expect("it runs").figures
}

#[test]
fn one_worker() {
    let figures = run(&shipped("one-worker"), "single-lock");
    assert_near(seconds_per_proof(&figures), 32.1, TOLERANCE, "seconds a proof");
    assert_near(figures.stage_s["Compute"], 1.82, TOLERANCE, "kernels");
    assert_near(figures.stage_s["Stage"], 0.018, TOLERANCE, "pre-staging");
}

#[test]
fn two_workers_with_little_load_and_in_steady_state() {
    let little = seconds_per_proof(&run(&shipped("two-workers-5"), "single-lock"));
    assert_near(little, 41.0, TOLERANCE, "five proofs");
    let steady = seconds_per_proof(&run(&shipped("two-workers-20"), "single-lock"));
    assert_near(steady, 38.0, TOLERANCE, "twenty proofs");
    // Not only near: more load is better, by as much.
    assert!((2.0..5.0).contains(&(little - steady)), "{little} and {steady}");
}

#[test]
fn two_locks_without_a_ledger_run_out_of_memory() {
    let figures = run(&shipped("two-lock-crash"), "two-lock");
    assert!(figures.out_of_memory > 0);
    assert_near(figures.first_out_of_memory_s.expect("it runs out"), 41.1, TOLERANCE, "time of the crash");
    // What the ledger is for: the same tasks with an honest plan.
    for name in support::POLICIES {
        assert_eq!(run(&shipped("two-lock-three-proofs"), name).out_of_memory, 0, "{name}");
    }
}

#[test]
fn two_locks_that_look_at_the_free_memory_stage_inline() {
    let one = run(&shipped("two-lock-one-proof"), "two-lock");
    assert_near(seconds_per_proof(&one), 72.5, TOLERANCE, "one proof");
    assert!((3.3..3.9).contains(&one.stage_s["Compute inline"]), "{}", one.stage_s["Compute inline"]);
    // All but the first partition find the card taken.
    assert_eq!((one.skips, one.inline, one.fallbacks), (9, 9, 0));
    let three = run(&shipped("two-lock-three-proofs"), "two-lock");
    assert_near(three.latency_s.mean, 102.0, TOLERANCE, "mean latency of three proofs");
}

#[test]
fn what_other_policies_would_have_given_on_that_card() {
    let seconds =
        |scenario: &str, policy: &dyn PolicySource| seconds_per_proof(&run_with(&shipped(scenario), policy));
    let patient = Linked::<TwoLock>::new("(wait_ms: 4000)").expect("good options");
    let generous = Linked::<VramToken>::new("(token_share: 1.0, wait_ms: 4000)").expect("good options");
    let kernels = 10.0 * 1.824;
    // The card holds one task: who waits for it is as fast as who takes turns, who does not wait uploads inline.
    assert_near(seconds("card-16gb", &*policy("single-lock")), kernels, 0.02, "single-lock");
    assert_near(seconds("card-16gb", &patient), kernels, 0.02, "two-lock that waits");
    assert_near(seconds("card-16gb", &generous), kernels, 0.02, "vram-token that waits");
    assert_near(seconds("card-16gb", &*policy("two-lock")), kernels + 10.0 * 1.78, 0.02, "two-lock");
    // It holds the next task too: the upload is hidden.
    let hidden = seconds("card-16gb-frugal", &*policy("two-lock"));
    assert!(hidden < seconds("card-16gb-frugal", &*policy("single-lock")), "{hidden}");
    assert_near(hidden, kernels, 0.005, "two-lock with a frugal core");
    // And calls that act on the whole device take that away again.
    assert!(seconds("card-16gb-device-wide", &*policy("two-lock")) > hidden + 0.18);
}

#[test]
fn all_scenarios_that_ship_can_be_read_and_are_written_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let scenarios: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|extension| extension == "ron")).collect();
    assert!(scenarios.len() >= 9, "{scenarios:?}");
    for file in scenarios {
        let scenario = Scenario::read(&file).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(Scenario::parse(&scenario.to_ron(), None).ok(), Some(scenario), "{}", file.display());
    }
}
