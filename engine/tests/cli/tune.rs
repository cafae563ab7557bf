//! `interlock tune`: the best point of a grid, for people and programs.

use serde_json::Value;

use super::support::{Workbench, stderr};

/// A card that holds two tasks, and work that keeps more than one worker busy.
const SCENARIO: &str = "(
    devices: [(vram: \"16GiB\")],
    workers: 1,
    classes: [(
        name: \"porep\",
        staged: \"4GiB\",
        prepare: (time: Constant(\"2s\")),
        stage: Constant(\"20ms\"),
        compute: Constant(\"2s\"),
        finish: (time: Constant(\"20ms\")),
    )],
    arrivals: [Closed(class: \"porep\", jobs: 20, in_flight: 4)],
)";

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.write("scenario.ron", SCENARIO);
    bench
}

#[test]
fn more_workers_are_found_to_be_better_where_they_are() {
    let bench = bench();
    let arguments =
        ["tune", "scenario.ron", "--policy", "two-lock", "--workers", "2", "--option", "wait_ms="];
    let json = bench.succeed(&[&arguments[..], &["--json", "--plot", "points.svg"]].concat());
    let tuned: Value = serde_json::from_str(&json).expect("JSON");
    let points = tuned["points"].as_array().expect("a list");
    let workers: Vec<_> = points.iter().map(|point| point["workers"].as_u64()).collect();
    assert_eq!(workers, [Some(2), Some(1)], "the scenario's one worker is tried as well, and is worse");
    assert_eq!(tuned["configured"]["workers"], 1);
    // Prepare of one task under Compute of the other: two seconds a proof instead of four.
    let rates: Vec<f64> =
        points.iter().filter_map(|point| point["figures"]["proofs_per_s"].as_f64()).collect();
    assert!(rates[0] > 0.45 && rates[1] < 0.26, "{rates:?}");
    assert!(std::fs::read_to_string(bench.path("points.svg")).expect("it was written").starts_with("<svg"));
    let text = bench.succeed(&arguments);
    assert!(text.contains("workers_per_device: 2,") && text.contains("<- configured"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let bench = bench();
    bench.write("negative.ron", SCENARIO.replace("4GiB", "-4GiB"));
    for (arguments, code, says) in [
        (&["tune", "none.ron"][..], 3, "none.ron"),
        (&["tune", "negative.ron"], 3, "negative.ron:6:"),
        (&["tune", "scenario.ron", "--policy", "none"], 4, "no policy is named"),
        (&["tune", "scenario.ron", "--option", "permits=1"], 2, "has no option `permits`"),
        (&["tune", "scenario.ron", "--option", "wait_ms"], 2, "NAME=V,W"),
        (&["tune", "scenario.ron", "--workers", "0"], 2, "workers"),
        (&["tune", "scenario.ron", "--plot", "scenario.ron"], 2, "scenario.ron"),
    ] {
        let output = bench.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{arguments:?}: {}", stderr(&output));
    }
}
