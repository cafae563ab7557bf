//! The laws of policies, held against the four policies that ship, and against those that do wrong on purpose: each is found to
//! break exactly the laws that it breaks.

use std::time::Duration;

use interlock_conformance::{Law, Report, Scenario, Settings, Standing, check, replay};
use interlock_engine::host::{PolicyLibrary, ProcessSettings};
use interlock_tests::libraries::verified;

fn here(policy: &str, options: &str) -> PolicyLibrary {
    PolicyLibrary::open(verified(policy, options)).expect("the library is good")
}

fn apart(policy: &str, options: &str) -> PolicyLibrary {
    let settings = ProcessSettings::new(env!("CARGO_BIN_EXE_interlock-test-policy-host"));
    PolicyLibrary::isolate(verified(policy, options), settings.decision(Duration::from_secs(2)))
        .expect("the library is good")
}

fn broken(report: &Report) -> Vec<Law> {
    report.broken().collect()
}

/// Each broken law's scenario, read back and run again, breaks that law.
#[track_caller]
fn assert_replayable(policy: &PolicyLibrary, report: &Report) {
    for law in &report.laws {
        let Standing::Broken(example) = &law.standing else { continue };
        let scenario = example.scenario.as_deref().expect("no law about time was checked");
        let scenario = Scenario::from_ron(scenario).expect("it reads back");
        let breaks: Vec<Law> = replay(policy, &scenario).breaks.iter().map(|broken| broken.law).collect();
        assert!(breaks.contains(&law.law), "{}: {breaks:?}", law.law);
    }
}

#[test]
fn the_four_policies_that_ship_keep_every_law() {
    for policy in ["serialized-fallback", "single-lock", "two-lock", "vram-token"] {
        check(&here(policy, ""), &Settings::default()).assert_kept();
    }
}

/// What each option of `faulty` breaks. It has no locks, so that its honest answers let small tasks pass a large one for ever; and it
/// ranks by arrival alone.
#[test]
fn each_fault_breaks_the_laws_it_breaks() {
    use Law::*;
    let honest = [BoundedWait, Priority];
    let also = |laws: &[Law]| [&honest[..], laws].concat();
    let table: [(&str, Vec<Law>); 21] = [
        ("(verdict: \"honest\")", also(&[])),
        ("(verdict: \"unknown\")", vec![Verdicts]),
        ("(verdict: \"never\")", vec![Deadlock, WorkConservation]),
        ("(verdict: \"endless\")", vec![Verdicts]),
        ("(verdict: \"past\")", vec![Verdicts]),
        ("(verdict: \"greedy\")", vec![Overcommit]),
        ("(verdict: \"stingy\")", vec![Verdicts]),
        ("(verdict: \"grab\")", vec![Overcommit]),
        ("(verdict: \"skip\")", vec![Verdicts]),
        ("(verdict: \"exabytes\")", vec![Overcommit]),
        // It never gets beyond the device that it chooses for the first task, nor beyond its first answer, which is Skip.
        ("(verdict: \"garbage\")", vec![Verdicts]),
        ("(verdict: \"flips\")", vec![Verdicts, Determinism]),
        ("(verdict: \"hold\")", vec![Deadlock, WorkConservation]),
        ("(verdict: \"starve\")", also(&[Deadlock, WorkConservation])),
        ("(panic_in: \"decide\")", vec![Answers]),
        ("(panic_in: \"rank\")", vec![Answers]),
        ("(panic_in: \"place\")", vec![Answers]),
        ("(panic_in: \"observe\")", vec![Answers]),
        ("(panic_in: \"stats\")", also(&[Answers])),
        ("(device: 2)", vec![Verdicts]),
        ("(habit: \"leak\")", also(&[])),
    ];
    let mut wrong = Vec::new();
    for (options, mut expected) in table {
        expected.sort_unstable();
        let policy = here("fixture-faulty", options);
        let report = check(&policy, &Settings::default());
        if broken(&report) != expected {
            wrong.push(format!("{options}: expected {expected:?}\n{report}"));
        } else {
            assert_replayable(&policy, &report);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Crashes, hangs and worse, in a process of its own: the check goes on to its end, and says so.
#[test]
fn each_deed_breaks_answers() {
    for deed in ["segfault", "abort", "exit 7", "fork", "run", "scribble", "claim ahead"] {
        let report =
            check(&apart("fixture-hostile", &format!("(deed: {deed:?}, after: 2)")), &Settings::default());
        assert_eq!(broken(&report), [Law::Answers], "{deed}\n{report}");
        assert!(report.stopped.is_some(), "{deed}\n{report}");
    }
}
