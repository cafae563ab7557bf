//! SIGINT and SIGTERM: what runs is finished and written, the rest is not begun, exit code 0.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::support::{Workbench, prove_chunks};

/// Sends a signal by its name, as a person would.
fn kill(signal: &str, process: u32) {
    let status = Command::new("kill").args(["-s", signal, &process.to_string()]).status().expect("kill runs");
    assert!(status.success());
}

#[test]
fn a_signal_ends_the_run_with_what_was_begun() {
    for signal in ["INT", "TERM"] {
        let bench = Workbench::new().with_chunk_params();
        bench.write("file", [7; 16 * 400]);
        let mut command = bench.command(&prove_chunks(&["--vkey", "vkey.json", "--json"]));
        let program = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        // The first proof is the sign that the run is under way.
        while bench.files("proof.").is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        kill(signal, program.id());
        let output = program.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("a whole report");
        assert_eq!(report["interrupted"], true);
        let proofs = bench.files("proof.");
        assert_eq!(report["proofs"], proofs.len());
        assert!(proofs.len() < 400, "the run was over before the signal came");
        for proof in proofs {
            let public = proof.replace("proof", "public");
            bench.succeed(&["verify", "--vkey", "vkey.json", "--proof", &proof, "--public", &public]);
        }
    }
}
