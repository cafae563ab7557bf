//! A policy that breaks one law, for each law: it is found to break that one and no other.

mod bad;

use std::time::{Duration, Instant};

use interlock_conformance::{Law, Linked, Report, Scenario, Settings, Standing, check, replay};
use interlock_policy_api::Policy;

use bad::*;

fn checked<P: Policy>() -> Report {
    let policy = Linked::<P>::new("").expect("the manifest is good");
    let report = check(&policy, &Settings { scenarios: 400, ..Settings::default() });
    for law in &report.laws {
        if let Standing::Broken(example) = &law.standing {
            let scenario = example.scenario.as_deref().expect("there is no clock");
            let scenario = Scenario::from_ron(scenario).expect("it reads back");
            let again = replay(&policy, &scenario);
            let breaks: Vec<Law> = again.breaks.iter().map(|broken| broken.law).collect();
            assert!(breaks.contains(&law.law), "{}: {:?} {breaks:?}\n{}", P::MANIFEST.name, law, again.trace);
        }
    }
    report
}

#[track_caller]
fn breaks<P: Policy>(expected: &[Law]) -> Report {
    let report = checked::<P>();
    assert_eq!(report.broken().collect::<Vec<_>>(), expected, "\n{report}");
    report
}

#[test]
fn a_policy_that_breaks_none_is_found_to_keep_them_all() {
    breaks::<Honest>(&[]).assert_kept();
}

#[test]
fn a_policy_that_enters_whatever_the_locks_breaks_exclusion() {
    breaks::<Grabs>(&[Law::Exclusion]);
}

#[test]
fn a_policy_that_reserves_what_is_not_free_breaks_overcommit() {
    breaks::<Overcommits>(&[Law::Overcommit]);
}

#[test]
fn a_policy_that_reserves_too_little_gives_verdicts_that_cannot_be_carried_out() {
    breaks::<Stints>(&[Law::Verdicts]);
    breaks::<Invents>(&[Law::Verdicts]);
}

#[test]
fn a_policy_that_waits_for_company_deadlocks_and_idles() {
    breaks::<WaitsForCompany>(&[Law::Deadlock, Law::WorkConservation]);
}

#[test]
fn a_policy_that_lets_in_whoever_fits_breaks_the_bounded_wait() {
    breaks::<WhoeverFits>(&[Law::BoundedWait]);
}

#[test]
fn a_policy_that_says_later_again_and_again_breaks_work_conservation() {
    breaks::<PutsOff>(&[Law::WorkConservation]);
}

#[test]
fn a_policy_that_keeps_to_what_it_said_may_let_the_device_idle() {
    breaks::<Dawdles>(&[]);
}

#[test]
fn a_policy_that_prefers_small_tasks_starves_large_ones() {
    breaks::<SmallFirst>(&[Law::BoundedWait]);
}

#[test]
fn a_policy_that_ranks_upside_down_breaks_priority() {
    breaks::<UpsideDown>(&[Law::Priority]);
}

#[test]
fn a_policy_that_looks_at_a_clock_breaks_determinism() {
    breaks::<ReadsClock>(&[Law::Determinism]);
}

#[test]
fn a_policy_that_counts_its_decisions_breaks_determinism() {
    breaks::<Counts>(&[Law::Determinism]);
}

#[test]
fn a_policy_that_knows_only_todays_stages_and_kinds_breaks_strangers() {
    breaks::<KnowsAll>(&[Law::Strangers]);
    breaks::<KnowsAllFlags>(&[Law::Strangers]);
    breaks::<KnowsAllRecords>(&[Law::Strangers]);
}

#[test]
fn a_policy_that_panics_once_it_has_seen_a_failure_breaks_answers() {
    let report = breaks::<PanicsAfterFailure>(&[Law::Answers]);
    let text = report.to_string();
    // One task and one failure are enough to show it.
    assert_eq!(text.matches("staged:").count(), 1, "{text}");
}

#[test]
fn a_policy_that_panics_at_its_97th_task_is_found_with_a_scenario_of_97() {
    let text = breaks::<PanicsLate>(&[Law::Answers]).to_string();
    assert_eq!(text.matches("staged:").count(), 97, "{text}");
}

#[test]
fn where_the_time_is_up_nothing_is_said_of_laws_that_were_not_tried() {
    let policy = Linked::<Honest>::new("").expect("the manifest is good");
    let settings = Settings { time: Some(Duration::ZERO), ..Settings::default() };
    let report = check(&policy, &settings);
    assert_eq!(report.random, 0, "{report}");
    let standing = |law| report.laws.iter().find(|found| found.law == law).map(|found| &found.standing);
    assert_eq!(standing(Law::Determinism), Some(&Standing::NotChecked), "{report}");
    assert!(report.cut_short.is_some() && report.is_kept(), "{report}");
    assert!(report.to_string().contains("not checked"), "{report}");
}

#[test]
fn a_long_scenario_is_given_up_when_the_time_is_up() {
    let policy = Linked::<SlowLate>::new("").expect("the manifest is good");
    let settings = Settings { time: Some(Duration::from_secs(2)), ..Settings::default() };
    let began = Instant::now();
    let report = check(&policy, &settings);
    // Of the longest scenario alone, the decisions about 2048 tasks at three gates take two minutes.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(report.cut_short.is_some() && report.is_kept(), "{report}");
}

#[test]
fn what_a_clock_decided_is_said_to_be_unsure() {
    let policy = Linked::<OnceByChance>::new("").expect("the manifest is good");
    // On one thread, so that chance falls into the same scenario each time: one whose tasks come in their order.
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let report = alone.install(|| check(&policy, &Settings::default()));
    let text = report.to_string();
    assert_eq!(report.broken().collect::<Vec<_>>(), [Law::Determinism], "{text}");
    assert!(text.contains("need not come again"), "{text}");
    let Some(Standing::Broken(example)) =
        report.laws.iter().find(|law| law.law == Law::Determinism).map(|law| &law.standing)
    else {
        panic!("it was found");
    };
    let scenario = Scenario::from_ron(example.scenario.as_deref().expect("one")).expect("it reads back");
    // A task comes in an event of its own.
    assert!(scenario.tasks.len() <= example.broken.events, "{text}");
    // It had its chance.
    let again = replay(&policy, &scenario);
    assert!(again.breaks.is_empty() && again.to_string().contains("need not come again"), "{again}");
}

#[test]
fn the_shortest_scenario_is_found() {
    let report = breaks::<Grabs>(&[Law::Exclusion]);
    let Some(Standing::Broken(example)) =
        report.laws.iter().find(|law| law.law == Law::Exclusion).map(|law| &law.standing)
    else {
        panic!("it was found");
    };
    // Two tasks come; the first is through Prepare, then the second one comes to the taken lock.
    assert_eq!(example.broken.events, 4, "{report}");
}
