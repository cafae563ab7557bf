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
        (&["tune", "scenario.ron", "--option", "wait_ms=abc"], 2, "wait_ms=abc: the policy takes"),
        (&["tune", "scenario.ron", "--option", "wait_ms=1,-1"], 2, "wait_ms=-1: the policy takes"),
        (
            &["tune", "scenario.ron", "--policy", "vram-token", "--option", "token_share=1.5"],
            2,
            "token_share=1.5",
        ),
        (&["tune", "scenario.ron", "--workers", "0"], 2, "workers"),
        (&["tune", "scenario.ron", "--plot", "scenario.ron"], 2, "scenario.ron"),
    ] {
        let output = bench.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn usual_values_are_those_that_the_policy_takes() {
    let bench = bench();
    let arguments = [
        "tune",
        "scenario.ron",
        "--policy",
        "vram-token(token_share: 0.75)",
        "--workers",
        "1",
        "--seeds",
        "1",
    ];
    let json = bench.succeed(
        &[&arguments[..], &["--option", "wait_ms=", "--option", "compute_permits=", "--json"]].concat(),
    );
    let tuned: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(tuned["refused"], Value::Array(Vec::new()));
    let shares = tuned["points"].as_array().expect("a list").iter();
    let mut shares: Vec<_> =
        shares.filter_map(|point| point["options"]["token_share"].as_str()?.parse::<f64>().ok()).collect();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    // Parts and multiples of 0.75, but not those above all of the memory.
    assert_eq!(shares, [0.375, 0.5625, 0.75, 0.9375]);
}

#[test]
fn with_nothing_fit_the_figures_come_all_the_same() {
    let bench = bench();
    let fault = "faults: [AllocationFailure(class: \"porep\", probability: 1.0)],\n)";
    bench.write("failing.ron", format!("{}{fault}", SCENARIO.strip_suffix(')').expect("a scenario")));
    let arguments =
        ["tune", "failing.ron", "--workers", "1", "--option", "wait_ms=", "--json", "--plot", "points.svg"];
    let output = bench.run(&arguments);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("no point is fit: there is no picture"), "{}", stderr(&output));
    let tuned: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(tuned["points"][0]["unfit"].is_string(), "{tuned}");
    assert!(!bench.path("points.svg").exists());
}
