//! `interlock calibrate`: a scenario from a run, and what it says beside another run.

use std::fs;

use serde_json::Value;

use super::support::{Workbench, prove_chunks, stderr};

const CONTENT: &[u8] = b"some bytes that are proved in chunks of sixteen";

#[test]
fn a_run_becomes_a_scenario_that_is_held_against_another_run() {
    let bench = Workbench::new().with_chunk_params();
    bench.write("file", CONTENT);
    bench.succeed(&prove_chunks(&["--timeline", "a.csv", "--workers", "2"]));
    bench.succeed(&prove_chunks(&["--timeline", "b.csv", "--workers", "1", "--policy", "single-lock"]));
    bench.succeed(&["calibrate", "a.csv", "-o", "a.ron"]);
    let scenario = fs::read_to_string(bench.path("a.ron")).expect("written");
    assert!(scenario.contains("workers: 2") && scenario.contains("partitions: 3"), "{scenario}");
    assert_eq!(bench.succeed(&["calibrate", "a.csv"]), scenario);

    // The policy is the one that the other run was made under, unless another is named.
    let compared = bench.succeed(&["calibrate", "a.csv", "--against", "b.csv", "--json"]);
    let compared: Value = serde_json::from_str(&compared).expect("JSON");
    assert_eq!(compared["policy"], "single-lock");
    let figures: Value = serde_json::from_str(&bench.succeed(&["report", "b.csv", "--json"])).expect("JSON");
    assert_eq!(compared["measured"]["proofs_per_s"], figures["proofs_per_s"]);
    let table =
        bench.succeed(&["calibrate", "a.csv", "--against", "b.csv", "--policy", "vram-token", "--runs", "3"]);
    assert!(table.starts_with("policy vram-token, 3 simulated runs\n"), "{table}");
    assert!(table.contains("partitions/s") && table.contains("p95 latency"), "{table}");
}

#[test]
fn what_a_run_did_not_show_is_told_and_written_into_the_scenario() {
    let bench = Workbench::new();
    bench.write(
        "scenario.ron",
        "(devices: [(vram: \"16GiB\")], classes: [(name: \"task\", staged: \"4GiB\", prepare: (time: Constant(\"1s\")), \
         stage: Constant(\"1s\"), compute: Constant(\"2s\"), finish: (time: Constant(\"1s\")))], \
         arrivals: [Closed(class: \"task\", jobs: 5, in_flight: 5)])",
    );
    let note = "no task uploaded inside Compute";
    for (policy, says) in [("single-lock", true), ("serialized-fallback", false)] {
        bench.succeed(&["simulate", "scenario.ron", "--policy", policy, "--timeline", "run.csv"]);
        let output = bench.run(&["calibrate", "run.csv"]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stderr(&output).contains(note), says, "{policy}: {}", stderr(&output));
        let scenario = String::from_utf8(output.stdout).expect("text");
        assert_eq!(scenario.contains(&format!("// {note}")), says, "{policy}: {scenario}");
        bench.write("fitted.ron", scenario);
        bench.succeed(&["simulate", "fitted.ron", "--policy", policy]);
    }
}

#[test]
fn what_cannot_be_calibrated_says_why() {
    let bench = Workbench::new();
    let header = "at_ns,event,core,device,worker,job,partition,task,stage,duration_ns,bytes,locks,detail\n";
    bench.write("old.csv", format!("{header}10,arrived,cpu,0,0,1,0,1,,,,,\n20,left,cpu,0,0,1,0,1,,,,,\n"));
    let output = bench.run(&["calibrate", "old.csv"]);
    assert_eq!(output.status.code(), Some(3));
    let said = stderr(&output);
    assert!(said.contains("old.csv: the timeline does not tell") && said.contains("help: "), "{said}");
}
