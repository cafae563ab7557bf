//! `interlock report`: the page of a run, and what it says when there is none to make.

use std::fs;

use serde_json::Value;

use super::support::{Workbench, prove_chunks, stderr};

const CONTENT: &[u8] = b"some bytes that are proved in chunks of sixteen";

#[test]
fn a_run_becomes_a_page_with_its_figures() {
    let bench = Workbench::new().with_chunk_params();
    bench.write("file", CONTENT);
    let report = bench.succeed(&prove_chunks(&["--timeline", "t.csv", "--json"]));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let figures = bench.succeed(&["report", "t.csv", "--json"]);
    let figures: Value = serde_json::from_str(&figures).expect("JSON");
    assert_eq!(figures["proofs"], report["proofs"]);
    assert_eq!(figures["unfinished"], 0);
    // The report of the run measures each stage by itself: the same spans, seen from the worker.
    let compute =
        figures["activities"].as_array().expect("a list").iter().find(|times| times["name"] == "Compute");
    let spans = compute.expect("it computed")["total_ns"].as_u64().expect("a time");
    let partitions = report["partitions"].as_array().expect("a list").iter();
    let runs: u64 = partitions.map(|line| line["compute"]["run_ns"].as_u64().expect("a time")).sum();
    assert!(spans >= runs, "{spans} {runs}");
    let page = fs::read_to_string(bench.path("t.html")).expect("written");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("under two-lock"));
}

#[test]
fn what_is_no_timeline_is_refused_with_its_place() {
    let bench = Workbench::new();
    bench.write("trace.json", "[]\n");
    let output = bench.run(&["report", "trace.json", "-o", "page.html"]);
    assert_eq!(output.status.code(), Some(3));
    let said = stderr(&output);
    assert!(said.contains("trace.json:1: not a timeline") && said.contains("help: "), "{said}");
    assert!(!bench.path("page.html").exists());
    let output = bench.run(&["report", "none.csv"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("none.csv: cannot be read"), "{}", stderr(&output));
}

#[test]
fn a_page_does_not_replace_its_timeline() {
    let bench = Workbench::new();
    bench.write("t.csv", "at_ns\n");
    let output = bench.run(&["report", "t.csv", "-o", "t.csv"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read(bench.path("t.csv")).expect("still there"), b"at_ns\n");
}
