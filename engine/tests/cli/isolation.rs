//! Policies in processes of their own, with the program as their host.

use std::fs;

use serde_json::Value;

use super::support::{POLICIES, Workbench, prove_chunks, stderr};

/// A workbench whose policies all run in processes of their own, under these limits.
fn isolated(limits: &str) -> Workbench {
    let bench = Workbench::new();
    let config = fs::read_to_string(bench.path("plugins.ron")).expect("there is one");
    let config = config.replace("(name:", "(isolation: Process, name:");
    let config = config.replacen('(', &format!("(limits: ({limits}), "), 1);
    bench.write("plugins.ron", config);
    bench
}

#[test]
fn each_shipped_policy_proves_from_its_own_process() {
    let bench = isolated("decision_ms: 10000").with_chunk_params();
    bench.write("file", b"sixteen bytes ..then a second one and a rest");
    for policy in POLICIES {
        let output =
            bench.command(&prove_chunks(&[])).args(["--policy", policy, "--json"]).output().expect("it runs");
        assert!(output.status.success(), "{policy}: {}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON alone on standard output");
        let device = &report["devices"][0];
        assert_eq!((&report["proofs"], &device["policy"]), (&3.into(), &policy.into()));
        assert_eq!(device["quarantine"], Value::Null, "{device}");
        assert!(device["counters"]["refusals"].as_object().expect("a map").is_empty(), "{device}");
    }
}

#[test]
fn the_list_says_where_each_policy_runs() {
    let text = isolated("decision_ms: 50").succeed(&["policy", "list"]);
    assert_eq!(text.matches("; process)").count(), POLICIES.len(), "{text}");
    let text = isolated("decision_ms: 50").succeed(&["policy", "list", "--json"]);
    let entries: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert!(entries.iter().all(|entry| entry["isolation"] == "Process"), "{text}");
    let text = Workbench::new().succeed(&["policy", "list"]);
    assert_eq!(text.matches("; in process)").count(), POLICIES.len(), "{text}");
}

#[test]
fn the_process_is_not_among_the_commands() {
    let bench = Workbench::new();
    assert!(!bench.succeed(&["--help"]).contains("policy-host"));
    let output = bench.run(&["policy-host"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("for an engine"), "{}", stderr(&output));
}
