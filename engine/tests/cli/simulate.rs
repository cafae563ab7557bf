//! `interlock simulate`: figures for people and programs, files, bad scenarios.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::support::{POLICIES, Workbench, stderr};

/// A card that holds one task, and work for it.
const SCENARIO: &str = "(
    seed: 3,
    devices: [(vram: \"16GiB\")],
    classes: [(
        name: \"porep\",
        partitions: 2,
        staged: \"12GiB\",
        prepare: (time: Exponential(mean: \"1s\")),
        stage: Constant(\"20ms\"),
        compute: Constant(\"2s\"),
        finish: (time: Constant(\"500ms\")),
    )],
    arrivals: [Closed(class: \"porep\", jobs: 10, in_flight: 2)],
)";

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.write("scenario.ron", SCENARIO);
    bench
}

fn figures(bench: &Workbench, more: &[&str]) -> Value {
    let arguments = [&["simulate", "scenario.ron", "--json"], more].concat();
    serde_json::from_str(&bench.succeed(&arguments)).expect("JSON")
}

fn names(figures: &Value) -> Vec<&str> {
    let policies = figures["policies"].as_array().expect("a list");
    policies.iter().map(|policy| policy["name"].as_str().expect("a name")).collect()
}

#[test]
fn policies_come_from_the_configuration() {
    let bench = bench();
    assert_eq!(names(&figures(&bench, &[])), POLICIES);
    let two = figures(&bench, &["--policy", "two-lock", "--policy", "two-lock(wait_ms: 9000)"]);
    assert_eq!(names(&two), ["two-lock", "two-lock(wait_ms: 9000)"]);
    // With time enough nobody gives up staging ahead.
    assert!(two["policies"][0]["skips"].as_u64() > Some(0));
    assert_eq!(two["policies"][1]["skips"], 0);
    fs::write(bench.path("plugins.ron"), "(policies: [])").expect("written");
    assert_eq!(names(&figures(&bench, &[])), ["serialized-fallback"]);
}

#[test]
fn figures_are_complete_and_the_same_again() {
    let bench = bench();
    let first = figures(&bench, &["--policy", "single-lock"]);
    let policy = &first["policies"][0];
    for name in ["seconds_per_proof", "proofs_per_s", "lock_wait_s", "device_busy"] {
        assert!(policy[name].as_f64().is_some_and(|figure| figure > 0.0), "{name}: {policy}");
    }
    for name in ["out_of_memory", "skips", "fallbacks"] {
        assert_eq!(policy[name], 0, "{name}");
    }
    assert_eq!((&policy["proofs"], &policy["partitions"]), (&10.into(), &20.into()));
    assert_eq!(figures(&bench, &["--policy", "single-lock"]), first);
    let other = figures(&bench, &["--policy", "single-lock", "--seed", "4"]);
    assert_eq!(other["seed"], 4);
    assert_ne!(other["policies"][0]["makespan_s"], policy["makespan_s"]);
}

#[test]
fn people_get_a_table_and_the_speed_on_standard_error() {
    let bench = bench();
    let output = bench.run(&["simulate", "scenario.ron"]);
    assert!(stderr(&output).contains("events"), "{}", stderr(&output));
    let table = String::from_utf8(output.stdout).expect("text");
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().expect("a line").split_whitespace().collect();
    assert_eq!(head, [&["policy"], &POLICIES[..]].concat());
    let width = table.lines().next().map(str::len);
    let (rows, words): (Vec<_>, Vec<_>) = table.lines().partition(|line| Some(line.len()) == width);
    assert!(rows.iter().any(|row| row.starts_with("seconds a job")), "{table}");
    // Two partitions a job: it is said what is counted.
    assert!(words.len() == 1 && words[0].starts_with("a job here is all its partitions"), "{table}");
}

#[test]
fn each_policy_gets_files_of_its_own() {
    let bench = bench();
    let files = ["--timeline", "events.csv", "--trace", "trace.json"];
    let one = ["--policy", "two-lock", "--policy", "vram-token(token_share: 1.0)"];
    figures(&bench, &[&files[..], &one].concat());
    assert_eq!(bench.files("events"), ["events.two-lock.csv", "events.vram-token_token_share__1.0_.csv"]);
    assert_eq!(bench.files("trace"), ["trace.two-lock.json", "trace.vram-token_token_share__1.0_.json"]);
    let timeline = fs::read_to_string(bench.path("events.two-lock.csv")).expect("a timeline");
    assert!(timeline.starts_with("at_ns,event,core,"), "{timeline}");
    assert_eq!(timeline.matches(",verified,").count(), 0);
    assert_eq!(timeline.matches(",left,").count(), 20);
    let trace: Vec<Value> =
        serde_json::from_slice(&fs::read(bench.path("trace.two-lock.json")).expect("a trace")).expect("JSON");
    assert!(trace.iter().any(|span| span["name"] == "Compute"));
    // One policy: the name as it was given.
    figures(&bench, &["--policy", "two-lock", "--timeline", "alone.csv"]);
    assert_eq!(bench.files("alone"), ["alone.csv"]);
    // A folder that is not there is made, as for every output.
    figures(
        &bench,
        &["--policy", "two-lock", "--timeline", "new/a/events.csv", "--trace", "new/b/trace.json"],
    );
    assert!(bench.path("new/a/events.csv").is_file() && bench.path("new/b/trace.json").is_file());
}

#[test]
fn bad_scenarios_exit_with_3_and_say_where() {
    let bench = bench();
    for (from, to, place, words) in [
        ("jobs: 10", "jobs: 0", ":13:45", "at least 1"),
        ("\"20ms\"", "\"-20ms\"", ":9:25", "negative"),
        ("staged: \"12GiB\"", "staged: \"17GiB\"", ":7:17", "larger"),
        ("seed: 3", "sed: 3", ":2:5", "sed"),
    ] {
        bench.write("bad.ron", SCENARIO.replace(from, to));
        let output = bench.run(&["simulate", "bad.ron"]);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains(&format!("bad.ron{place}: ")) && error.contains(words), "{error}");
        assert!(error.contains("help: ") && !error.contains("panicked"), "{error}");
        assert!(output.stdout.is_empty());
    }
    let missing = bench.run(&["simulate", "missing.ron"]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(stderr(&missing).contains("missing.ron"), "{}", stderr(&missing));
}

#[test]
fn bad_policies_exit_with_4_and_bad_outputs_before_any_work() {
    let bench = bench();
    let exit = |more: &[&str]| {
        let output = bench.run(&[&["simulate", "scenario.ron"], more].concat());
        (output.status.code(), stderr(&output))
    };
    let (code, error) = exit(&["--policy", "best"]);
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("two-lock"), "{error}");
    let (code, error) = exit(&["--policy", "two-lock(wait: 1)"]);
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("wait_ms"), "{error}");
    assert_eq!(exit(&["--policy", "two-lock", "--policy", "two-lock"]).0, Some(2));
    assert_eq!(exit(&["--timeline", "scenario.ron", "--policy", "two-lock"]).0, Some(2));
    assert_eq!(exit(&["--timeline", "same", "--trace", "same"]).0, Some(2));
    let (code, error) = exit(&["--timeline", "scenario.ron/events.csv", "--policy", "two-lock"]);
    assert_eq!(code, Some(5), "{error}");
    assert!(error.contains("scenario.ron/events.csv"), "{error}");
    let (code, error) = exit(&["--trace", "/dev/full", "--policy", "two-lock"]);
    assert_eq!(code, Some(5), "{error}");
    assert_eq!(fs::read_to_string(bench.path("scenario.ron")).expect("still there"), SCENARIO);
}

#[test]
fn a_scenario_of_which_nothing_is_proved_exits_with_1_and_its_figures() {
    let bench = bench();
    let fault = "faults: [AllocationFailure(class: \"porep\", probability: 1.0)],\n)";
    let failing = format!("{}{fault}", SCENARIO.strip_suffix(')').expect("a scenario"));
    bench.write("failing.ron", failing);
    let output = bench.run(&["simulate", "failing.ron", "--policy", "two-lock", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("no job was proved"), "{}", stderr(&output));
    let figures: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let policy = &figures["policies"][0];
    assert_eq!((&policy["proofs"], &policy["failed"]), (&0.into(), &10.into()));
}

#[test]
fn scenarios_that_ship_run() {
    let bench = bench();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("simulator/scenarios");
    let files = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let scenarios: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|end| end == "ron")).collect();
    assert!(!scenarios.is_empty());
    for scenario in scenarios {
        let table = bench.succeed(&["simulate", scenario.to_str().expect("a path")]);
        assert!(table.contains("seconds a job"), "{table}");
    }
}
