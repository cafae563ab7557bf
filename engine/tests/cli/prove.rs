//! `prove`, `verify`, `setup`, and what they print.

use std::fs;

use interlock_engine::circuit::file_chunk::FileChunk;
use interlock_engine::format::Input;
use interlock_engine::proof;
use serde_json::Value;

use super::support::{CHUNK_BYTES, POLICIES, Workbench, prove_chunks, prove_multiplier};

const CONTENT: &[u8] = b"sixteen bytes ..then a second one and a rest";

#[test]
fn chunks_of_a_file_are_proved_under_each_policy_with_one_to_four_workers() {
    let bench = Workbench::new().with_chunk_params();
    bench.write("file", CONTENT);
    for policy in POLICIES {
        for workers in ["1", "2", "3", "4"] {
            let text = bench.succeed(&prove_chunks(&[
                "--vkey",
                "vkey.json",
                "--policy",
                policy,
                "--workers",
                workers,
                "--json",
            ]));
            let report: Value = serde_json::from_str(&text).expect("JSON alone on standard output");
            assert_eq!(
                (&report["policy"], &report["proofs"], &report["failed"]),
                (&policy.into(), &3.into(), &0.into())
            );
            let device = &report["devices"][0];
            assert_eq!(device["policy"], policy);
            assert!(device["counters"]["refusals"].as_object().expect("a map").is_empty(), "{device}");
            assert!(
                device["counters"]["peak_reserved_bytes"].as_u64() >= report["plan"]["staged_bytes"].as_u64()
            );
            for (index, chunk) in CONTENT.chunks(CHUNK_BYTES).enumerate() {
                let (proof, public) = (format!("proof.{index}.json"), format!("public.{index}.json"));
                bench.succeed(&["verify", "--vkey", "vkey.json", "--proof", &proof, "--public", &public]);
                // The digest, computed without the circuit.
                let inputs =
                    proof::read_public(&Input::open(bench.path(&public)).expect("opens")).expect("reads");
                assert_eq!(inputs, FileChunk::public_inputs(chunk, CHUNK_BYTES).expect("fits"));
                fs::remove_file(bench.path(&proof)).expect("was there");
            }
        }
    }
}

#[test]
fn a_proof_does_not_hold_for_other_inputs() {
    let bench = Workbench::new().with_multiplier();
    bench.succeed(&prove_multiplier(&["--proof", "p", "--public", "i"]));
    bench.succeed(&["verify", "--vkey", "vkey.json", "--proof", "p", "--public", "i"]);
    let other = fs::read_to_string(bench.path("i")).expect("text").replace(|c: char| c.is_ascii_digit(), "1");
    bench.write("other", other);
    let output = bench.run(&["verify", "--vkey", "vkey.json", "--proof", "p", "--public", "other"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn several_witnesses_become_files_named_after_them_and_a_bad_one_fails_alone() {
    let bench = Workbench::new().with_multiplier();
    let good = fs::read(bench.path("mul.wtns")).expect("a witness");
    bench.write("a.wtns", &good);
    bench.write("b.wtns", &good[..good.len() - 1]);
    bench.write("c.wtns", &good);
    let output = bench.run(&[
        "prove",
        "--r1cs",
        "mul.r1cs",
        "--zkey",
        "mul.zkey",
        "--witness",
        "a.wtns",
        "b.wtns",
        "c.wtns",
        "--proof",
        "proof.json",
        "--public",
        "public.json",
    ]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("b.wtns"), "{output:?}");
    assert_eq!(bench.files("proof"), ["proof.a.json", "proof.c.json"]);
    assert_eq!(bench.files("public"), ["public.a.json", "public.c.json"]);
    for name in ["a", "c"] {
        let (proof, public) = (format!("proof.{name}.json"), format!("public.{name}.json"));
        bench.succeed(&["verify", "--vkey", "vkey.json", "--proof", &proof, "--public", &public]);
    }
}

#[test]
fn setup_makes_an_srs_that_proves_and_says_that_its_secret_existed_here() {
    let bench = Workbench::new().with_multiplier();
    let output = bench.run(&["setup", "--r1cs", "mul.r1cs", "--params", "s.params", "--vkey", "s.json"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("toxic waste"));
    bench.succeed(&[
        "prove",
        "--r1cs",
        "mul.r1cs",
        "--params",
        "s.params",
        "--check",
        "full",
        "--witness",
        "mul.wtns",
        "--proof",
        "p",
        "--public",
        "i",
        "--proof-format",
        "bellperson",
    ]);
    assert_eq!(fs::metadata(bench.path("p")).expect("written").len(), 192);
    bench.succeed(&["verify", "--vkey", "s.json", "--proof", "p", "--public", "i"]);
}

#[test]
fn every_line_of_timeline_and_trace_says_whose_it_is() {
    let bench = Workbench::new().with_chunk_params();
    bench.write("file", CONTENT);
    bench.succeed(&[
        "prove",
        "--file",
        "file",
        "--chunk-bytes",
        "16",
        "--params",
        "chunk.params",
        "--proof",
        "p",
        "--public",
        "i",
        "--workers",
        "2",
        "--timeline",
        "out/events/t.csv",
        "--trace",
        "out/t.json",
    ]);
    let mut reader = csv::Reader::from_path(bench.path("out/events/t.csv")).expect("opens");
    let header = reader.headers().expect("a header").clone();
    let column = |name| header.iter().position(|field| field == name).expect("the column");
    let (mut left, mut begin) = (0, Vec::new());
    for record in reader.records() {
        let record = record.expect("well formed");
        if ["engine", "host", "device", "submitted"].contains(&&record[column("event")]) {
            let fields =
                ["event", "bytes", "count", "policy", "priority"].map(|name| record[column(name)].to_owned());
            begin.push(fields.map(|field| {
                if field.len() > 4 && field.parse::<u64>().is_ok() { "BYTES".into() } else { field }
            }));
            continue;
        }
        for name in ["at_ns", "event", "worker", "job", "partition"] {
            assert!(!record[column(name)].is_empty(), "{name} of {record:?}");
        }
        left += u32::from(&record[column("event")] == "left");
    }
    assert_eq!(left, 3);
    let processors = std::thread::available_parallelism().expect("known").to_string();
    let expected = [
        ["engine", "", "1", "", ""],
        ["host", "", &processors, "", ""],
        ["device", "BYTES", "2", "two-lock", ""],
        ["submitted", "BYTES", "3", "", "0"],
    ];
    assert_eq!(begin, expected);
    let trace: Value =
        serde_json::from_slice(&fs::read(bench.path("out/t.json")).expect("written")).expect("JSON");
    let begun = |name: &str| {
        let events = trace.as_array().expect("an array").iter();
        let spans = events.filter(|event| event["ph"] == "B" && event["name"] == name);
        spans
            .inspect(|event| {
                assert!(
                    event["args"]["partition"].is_string() || event["args"]["partition"].is_number(),
                    "{event}"
                )
            })
            .count()
    };
    assert_eq!((begun("Compute"), begun("Finish"), begun("synthesis")), (3, 3, 3));
    assert!(begun("gate") >= 9);
}

#[test]
fn private_inputs_that_circom_optimised_away_need_no_wire() {
    let bench = Workbench::new().with_multiplier();
    let mut circuit = fs::read(bench.path("mul.r1cs")).expect("a circuit");
    // Section 1, 64 bytes: field length, prime, wires, outputs, public inputs, then private inputs.
    let header = [1, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0];
    let at = circuit.windows(12).position(|window| window == header).expect("a header") + 12;
    circuit[at + 4 + 32 + 12] += 9;
    bench.write("mul.r1cs", circuit);
    bench.succeed(&prove_multiplier(&["--proof", "p", "--public", "i"]));
    bench.succeed(&["verify", "--vkey", "vkey.json", "--proof", "p", "--public", "i"]);
}

#[test]
fn policies_are_listed_and_inspected() {
    let bench = Workbench::new();
    let list: Value = serde_json::from_str(&bench.succeed(&["policy", "list", "--json"])).expect("JSON");
    let names: Vec<_> = list.as_array().expect("a list").iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, POLICIES);
    for entry in list.as_array().expect("a list") {
        let file = entry["status"]["file"].as_str().expect("a file");
        let inspection: Value =
            serde_json::from_str(&bench.succeed(&["policy", "inspect", file, "--json"])).expect("JSON");
        assert_eq!(inspection["manifest"], entry["status"]["manifest"]);
        assert!(
            bench.succeed(&["policy", "inspect", file]).contains(entry["name"].as_str().expect("a name"))
        );
    }
    assert!(bench.succeed(&["policy", "list"]).contains("* two-lock"));
}

#[test]
fn completions_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(Workbench::new().succeed(&["completions", shell]).contains("interlock"));
    }
}
