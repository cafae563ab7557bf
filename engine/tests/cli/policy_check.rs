//! `interlock policy check`, and `interlock policy new` up to a policy that proves.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::running::{MANY, Running, entry, json, write_config};
use super::support::{Workbench, library, prove_chunks, stderr};

const LAWS: [&str; 11] = [
    "answers",
    "verdicts",
    "exclusion",
    "overcommit",
    "deadlock",
    "bounded-wait",
    "work-conservation",
    "priority",
    "determinism",
    "strangers",
    "decision-cost",
];

fn two_lock() -> String {
    library("libinterlock_two_lock.so").display().to_string()
}

fn faulty() -> String {
    library("libinterlock_fixture_faulty.so").display().to_string()
}

/// A budget that a slow machine keeps as well.
const PATIENT: [&str; 2] = ["--decision-budget", "1min"];

#[test]
fn a_policy_that_keeps_the_laws_is_found_to_keep_each_of_them() {
    let bench = Workbench::new();
    for more in [&[][..], &["--trusted", "--options", "(wait_ms: 5)"]] {
        let check = ["policy", "check", &two_lock(), "--scenarios", "40"];
        let text = bench.succeed(&[&check[..], &PATIENT, more].concat());
        for law in LAWS {
            let line = text.lines().find(|line| line.trim_start().starts_with(law)).expect(law);
            assert!(line.contains("kept") && !text.contains("BROKEN"), "{text}");
        }
    }
}

#[test]
fn a_broken_law_is_shown_with_a_scenario_that_replays() {
    let bench = Workbench::new();
    let policy = ["policy", "check", &faulty(), "--trusted", "--options", "(verdict: \"never\")"];
    let output =
        bench.run(&[&policy[..], &PATIENT, &["--scenarios", "20", "--json", "--out", "broken"]].concat());
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let report = json(&output);
    let laws = report["laws"].as_array().expect("a list");
    let broken: Vec<&Value> =
        laws.iter().filter(|law| law["standing"]["broken"].is_object()).map(|law| &law["law"]).collect();
    assert_eq!(broken, ["deadlock", "work-conservation"]);
    let mut written: Vec<String> = fs::read_dir(bench.path("broken"))
        .expect("it was made")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    written.sort();
    assert_eq!(written, ["deadlock.ron", "work-conservation.ron"]);

    let replay =
        |more: &[&str]| bench.run(&[&policy[..], &["--replay", "broken/deadlock.ron"], more].concat());
    let output = replay(&[]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["task 0 comes", "asked: task 0 at Prepare", "Wait for anything", "BROKEN deadlock"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(json(&replay(&["--json"]))["breaks"][0]["law"], "deadlock");
    // Another policy keeps it.
    bench.succeed(&["policy", "check", &two_lock(), "--trusted", "--replay", "broken/deadlock.ron"]);
}

#[test]
fn decisions_above_their_budget_break_the_law_of_cost() {
    let bench = Workbench::new();
    let policy = ["policy", "check", &faulty(), "--trusted", "--options", "(sleep_ms: 1)", "--json"];
    let output = bench.run(&[&policy[..], &["--scenarios", "0", "--decision-budget", "900us"]].concat());
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let report = json(&output);
    let cost = report["laws"].as_array().and_then(|laws| laws.last()).expect("the last one");
    assert_eq!(
        (&cost["law"], cost["standing"]["broken"].is_object()),
        (&"decision-cost".into(), true),
        "{report}"
    );
    assert!(report["cost"]["median_ns"].as_u64() > Some(900_000), "{report}");
}

#[test]
fn the_first_panic_is_shown_and_no_other() {
    let bench = Workbench::new();
    let policy = ["policy", "check", &faulty(), "--trusted", "--options", "(panic_in: \"decide\")"];
    let output = bench.run(&[&policy[..], &PATIENT, &["--scenarios", "20"]].concat());
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let text = stderr(&output);
    assert_eq!(text.matches("panicked at").count(), 1, "{text}");
    assert_eq!(text.matches("told to panic in decide").count(), 1, "{text}");
    assert!(text.contains("the first one is shown") && !text.contains("backtrace"), "{text}");
}

#[test]
fn where_the_time_is_up_it_is_said() {
    let bench = Workbench::new();
    let check = ["policy", "check", &two_lock(), "--time", "0s", "--json"];
    let report: Value = serde_json::from_str(&bench.succeed(&[&check[..], &PATIENT].concat())).expect("JSON");
    assert!(report["cut_short"].as_str().is_some_and(|why| why.contains("the time of 0 s")), "{report}");
    // The cost is measured first.
    assert!(report["cost"]["median_ns"].is_u64(), "{report}");
}

#[test]
fn what_cannot_be_checked_is_an_error() {
    let bench = Workbench::new();
    bench.write("text.so", "no library");
    bench.write(
        "order.ron",
        "(device: \"1GiB\", workers: 1, tasks: [(staged: \"0\", peak: \"0\")], order: [Arrives(0), Arrives(9)])",
    );
    bench.write("bad.ron", "(device: \"1GiB\", workers: 1, tasks: [(staged: \"1GiB\", peak: \"2GiB\")])");
    let library = two_lock();
    for (more, code, part) in [
        (&["policy", "check", "gone.so"][..], 4, "gone.so"),
        (&["policy", "check", "text.so"], 4, "target/release/libNAME.so"),
        (&["policy", "inspect", "text.so"], 4, "target/release/libNAME.so"),
        (&["policy", "check", &library, "--options", "(wait: 5)"], 4, "unknown option `wait`"),
        (&["policy", "check", &library, "--options", "(wait: 5)"], 4, "policy inspect FILE"),
        (&["policy", "check", &library, "--replay", "order.ron"], 3, "entry 1 of `order`, Arrives(9)"),
        (&["policy", "check", &library, "--replay", "order.ron"], 3, "help: "),
        (&["policy", "check", &library, "--replay", "gone.ron"], 3, "gone.ron"),
        (&["policy", "check", &library, "--replay", "bad.ron"], 3, "task 0 is staged with 1GiB"),
        (&["policy", "check", &library, "--replay", "bad.ron", "--seed", "3"], 2, "--seed"),
    ] {
        let output = bench.run(more);
        assert_eq!(output.status.code(), Some(code), "{more:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{more:?}: {}", stderr(&output));
    }
}

#[test]
fn a_new_policy_is_refused_where_it_could_not_be_made() {
    let bench = Workbench::new();
    bench.write("there", "a file");
    let nowhere = bench.path("nowhere").display().to_string();
    for (more, part) in [
        (&["policy", "new", "Bad_Name"][..], "is no name"),
        (&["policy", "new", "serialized-fallback"], "the engine's own"),
        (&["policy", "new", "two-lock"], "ships with Interlock"),
        (&["policy", "new", "there"], "is there already"),
        (&["policy", "new", "mine", "--checkout", &nowhere], "no checkout of Interlock"),
    ] {
        let output = bench.run(more);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{more:?}: {}", stderr(&output));
    }
    assert_eq!(bench.files("mine").len() + bench.files(".interlock").len(), 0, "nothing is left");
}

/// What the new crate's README says, with a target folder that outlives the test so that a second run is quick.
#[test]
fn a_new_policy_is_built_checked_and_proves() {
    let bench = Workbench::new().with_chunk_params().with_multiplier();
    bench.succeed(&["policy", "new", "shortest-first"]);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policy-new");
    for command in ["build", "test"] {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args([command, "--release", "--offline"]).current_dir(bench.path("shortest-first"));
        let output = cargo.env("CARGO_TARGET_DIR", &target).output().expect("cargo runs");
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let library = target.join("release/libinterlock_shortest_first.so");
    let name = library.display().to_string();
    bench.succeed(&[&["policy", "check", &name, "--scenarios", "40"][..], &PATIENT].concat());

    let entries = [entry("two-lock", ""), format!("(name: \"shortest-first\", library: {library:?})")];
    write_config(&bench, "", &entries);
    bench.write("file", b"sixteen bytes ..then a second one and a rest");
    let report = bench.succeed(&prove_chunks(&["--policy", "shortest-first", "--json"]));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let device = &report["devices"][0];
    assert_eq!((&report["proofs"], &device["policy"]), (&3.into(), &"shortest-first".into()));
    assert!(device["counters"]["refusals"].as_object().expect("a map").is_empty(), "{device}");

    let engine = Running::listening(&bench, "run", MANY, &[]);
    bench.succeed(&["policy", "use", "shortest-first", "--wait", "0"]);
    assert_eq!(engine.stop()["devices"][0]["policy"], "shortest-first");
}
