//! Tuning: what the grid finds is what a count by hand finds.

use interlock_conformance::Linked;
use interlock_serialized_fallback::SerializedFallback;
use interlock_simulator::Scenario;
use interlock_simulator::tune::{Axis, Goal, Grid, Point, Tuned, plot, tune};
use interlock_vram_token::VramToken;

/// A second of Prepare and a second of Compute, on a device where two tasks compute at once without hindering each other.
const SCENARIO: &str = r#"(
    devices: [(vram: "16GiB", compute_engines: 2)],
    classes: [(
        name: "porep",
        staged: "1GiB",
        extra: "1GiB",
        prepare: (time: Constant("1s")),
        stage: Constant("1ms"),
        compute: Constant("1s"),
        finish: (time: Constant("1ms")),
    )],
    arrivals: [Closed(class: "porep", jobs: 60, in_flight: 8)],
    synthesis: (workers: 8),
)"#;

fn axis(option: &str, values: &[&str]) -> Axis {
    Axis { option: option.to_owned(), values: values.iter().map(|value| (*value).to_owned()).collect() }
}

fn tuned(goal: Goal, workers: &[u32], axes: Vec<Axis>) -> Tuned {
    let scenario = Scenario::parse(SCENARIO, None).unwrap_or_else(|error| panic!("{error}"));
    let grid = Grid::new(workers.to_vec(), axes).expect("it is a grid");
    let policy = |point: &Point| Linked::<VramToken>::new(&point.ron()).map_err(|error| error.to_string());
    let fallback = Linked::<SerializedFallback>::new("").expect("it has no options");
    tune(&scenario, &grid, goal, 2, &policy, &fallback).expect("it comes to its end")
}

#[test]
fn the_most_proofs_come_when_both_engines_are_fed() {
    let all = tuned(Goal::ProofsPerSecond, &[1, 2, 4], vec![axis("compute_permits", &["1", "2"])]);
    assert_eq!(all.points.len(), 6);
    let best = all.best().expect("some are fit");
    assert_eq!((best.point.workers, best.point.ron().as_str()), (4, "(compute_permits: 2)"));
    // Two engines, a second each: two proofs a second but for the first second and a few milliseconds.
    assert!((1.8..=2.0).contains(&best.figures.proofs_per_s), "{best:?}");
    // One worker alternates between Prepare and Compute.
    let worst = all.points.last().expect("there are points");
    assert_eq!(worst.point.workers, 1);
    assert!((0.49..=0.5).contains(&worst.figures.proofs_per_s), "{worst:?}");
    let configured = all.configured().expect("it was taken");
    assert_eq!((configured.point.workers, configured.point.ron().as_str()), (1, "(compute_permits: 1)"));
}

#[test]
fn what_changes_nothing_stays_as_it_is_configured() {
    let all = tuned(
        Goal::ProofsPerSecond,
        &[4],
        vec![axis("compute_permits", &["2"]), axis("wait_ms", &["1000", "500", "9"])],
    );
    assert_eq!(all.best().expect("fit").point, all.configured);
}

#[test]
fn latency_is_another_goal() {
    let all = tuned(Goal::Latency95, &[1, 8], vec![axis("compute_permits", &["1", "2"])]);
    let latencies: Vec<f64> = all.points.iter().map(|tried| tried.figures.latency_p95_s).collect();
    assert!(latencies.is_sorted(), "{latencies:?}");
    assert!(latencies[0] < latencies[3]);
}

#[test]
fn points_that_the_policy_does_not_take_are_told() {
    let all = tuned(Goal::ProofsPerSecond, &[2], vec![axis("token_share", &["0.75", "1.5"])]);
    assert_eq!((all.points.len(), all.refused.len()), (1, 1));
    assert_eq!(all.refused[0].0.options["token_share"], "1.5");
    assert!(all.refused[0].1.contains("1.5 is no share"), "{:?}", all.refused);
}

#[test]
fn the_picture_has_a_point_for_each_that_was_tried() {
    let all = tuned(Goal::ProofsPerSecond, &[1, 2, 4], vec![axis("compute_permits", &["1", "2"])]);
    let svg = plot(&all).expect("there are points");
    // Points, a legend entry for each number of workers, and two marks.
    assert_eq!(svg.matches("<circle").count(), 6 + 3 + 2, "{svg}");
    for text in ["best", "configured", "1 workers", "4 workers"] {
        assert!(svg.contains(text), "{text}");
    }
}
