//! `core: Cuda(...)` as people meet it when something is wrong, over a stand-in for the driver.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use super::support::{CHUNK_BYTES, Workbench, library, prove_multiplier, stderr};

/// The arguments that prove the multiplier.
fn multiplier() -> Vec<&'static str> {
    prove_multiplier(&["--proof", "proof.json", "--public", "public.json"])
}

/// The CUDA core's library, or nothing, with a line that says why.
fn cuda_core() -> Option<PathBuf> {
    let file = std::env::var_os("INTERLOCK_CUDA_CORE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/libinterlock_cuda.so"),
        PathBuf::from,
    );
    if !file.exists() {
        println!("skipped: {} has not been built", file.display());
        return None;
    }
    Some(file)
}

/// A folder with the multiplier and a configuration with this core.
fn bench(core: &Path, settings: &str) -> Workbench {
    let bench = Workbench::new().with_multiplier();
    let config = std::fs::read_to_string(bench.path("plugins.ron")).expect("it is there");
    let core = format!(", core: Cuda(library: {core:?}, {settings}))");
    let config = config.trim_end().strip_suffix(')').expect("a struct").to_owned() + &core;
    bench.write("plugins.ron", config);
    bench
}

/// The program with the stand-in in the driver's place.
fn run(bench: &Workbench, arguments: &[&str], driver: &str) -> Output {
    let mut command = bench.command(arguments);
    command.env("LD_PRELOAD", library("libinterlock_test_driver.so")).env("INTERLOCK_TEST_DRIVER", driver);
    command.output().expect("the program runs")
}

/// `prove` of the multiplier, likewise.
fn prove(bench: &Workbench, more: &[&str], driver: &str) -> Output {
    run(bench, &[&multiplier()[..], more].concat(), driver)
}

#[track_caller]
fn assert_refused(output: &Output, words: &[&str]) {
    let error = stderr(output);
    assert_eq!(output.status.code(), Some(4), "{error}");
    for word in words {
        assert!(error.contains(word), "no {word:?} in: {error}");
    }
    assert!(!error.contains("panicked") && error.lines().count() <= 2, "{error}");
}

#[track_caller]
fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// How often these words stand in what was logged.
fn said(output: &Output, words: &str) -> usize {
    stderr(output).matches(words).count()
}

#[test]
fn without_a_device_the_cpu_core_stands_in_and_that_is_said_once() {
    let Some(core) = cuda_core() else { return };
    let bench = bench(&core, "");
    let output = prove(&bench, &["--json"], "devices=0");
    let report = report(&output);
    assert_eq!((&report["core"], &report["proofs"]), (&"cpu".into(), &1.into()));
    assert_eq!(said(&output, "this machine has no CUDA device"), 1, "{}", stderr(&output));
}

#[test]
fn without_a_driver_the_cpu_core_stands_in_and_that_is_said_once() {
    let Some(core) = cuda_core() else { return };
    // SAFETY: the driver's constructors run in any process that uses a card.
    if unsafe { libloading::Library::new("libcuda.so.1") }.is_ok() {
        println!("skipped: this machine has a driver");
        return;
    }
    let bench = bench(&core, "");
    let mut command = bench.command(&multiplier());
    let output = command.arg("--json").output().expect("the program runs");
    assert_eq!(report(&output)["core"], "cpu");
    assert_eq!(said(&output, "this machine has no CUDA driver"), 1, "{}", stderr(&output));
}

#[test]
fn settings_that_cannot_be_are_named_with_their_numbers() {
    let Some(core) = cuda_core() else { return };
    let cases: [(&str, &[&str]); 4] = [
        ("devices: [7]", &["device 7: there is one, number 0"]),
        ("vram_limit: \"64MiB\", key_memory: \"64MiB\"", &["key_memory of 67108864 bytes", "67108864 bytes"]),
        ("vram_limit: \"8GiB\"", &["8589934592", "bytes free"]),
        ("vram_limit: \"128KiB\"", &["a task needs", "staged", "96.0 KiB (98304 B) for tasks", "vram_limit"]),
    ];
    for (settings, words) in cases {
        let bench = bench(&core, settings);
        assert_refused(&prove(&bench, &[], ""), words);
        assert!(bench.files("proof").is_empty(), "{settings}");
    }
}

#[test]
fn files_that_are_no_core_for_this_engine_are_refused_in_a_line() {
    for (file, words) in [
        ("libinterlock_fixture_foreign_core.so", "its functions or records have another layout"),
        ("libinterlock_two_lock.so", "it has no symbol"),
    ] {
        let output = prove(&bench(&library(file), ""), &[], "");
        assert_refused(&output, &[file, "not a core for this engine", words, "rebuild"]);
    }
    let bench = bench(Path::new("mul.r1cs"), "");
    assert_refused(&prove(&bench, &[], ""), &["mul.r1cs"]);
    let whole = std::fs::read(library("libinterlock_two_lock.so")).expect("it is there");
    for length in [whole.len() / 2, whole.len() - 4_000, 100, 0] {
        let cut = self::bench(Path::new("cut.so"), "");
        let file = cut.write("cut.so", &whole[..length]);
        std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("it is ours");
        assert_refused(&prove(&cut, &[], ""), &["core library", "cut.so"]);
    }
    let missing = self::bench(Path::new("/nowhere/libinterlock_cuda.so"), "");
    assert_refused(&prove(&missing, &[], ""), &["/nowhere/libinterlock_cuda.so", "not found"]);
}

#[test]
fn pinned_memory_that_is_refused_is_said_once_and_the_proof_is_made() {
    let Some(core) = cuda_core() else { return };
    let chunk_bytes = CHUNK_BYTES.to_string();
    let arguments = [
        "prove",
        "--file",
        "data",
        "--chunk-bytes",
        &chunk_bytes,
        "--params",
        "chunk.params",
        "--proof",
        "proof.json",
        "--public",
        "public.json",
        "--json",
    ];
    for residency in ["Resident", "Streamed"] {
        let bench = bench(&core, &format!("vram_limit: \"256MiB\", srs: {residency}")).with_chunk_params();
        bench.write("data", "a chunk");
        let refused = "fail=cuMemAllocHost_v2,cuMemHostAlloc,cuMemHostRegister_v2:share=1:2";
        let output = run(&bench, &arguments, refused);
        assert_eq!(report(&output)["proofs"], 1);
        assert_eq!(said(&output, "pinned host memory could not be had"), 1, "{}", stderr(&output));
        let streamed = usize::from(residency == "Streamed");
        assert_eq!(said(&output, "could not be pinned"), streamed, "{}", stderr(&output));
    }
}

#[test]
fn a_lost_device_is_in_the_log_once_and_in_both_reports() {
    let Some(core) = cuda_core() else { return };
    let bench = bench(&core, "vram_limit: \"256MiB\"");
    let lost = "lose=cuLaunchKernel:nth=40:719";
    let output = prove(&bench, &["--json"], lost);
    let report = report(&output);
    assert_eq!((&report["proofs"], &report["partitions"][0]["core"]), (&1.into(), &"cpu".into()));
    let reason = report["devices"][0]["lost"].as_str().expect("it is told");
    assert!(reason.contains("CUDA error 719"), "{reason}");
    assert!(report["devices"][1]["lost"].is_null());
    assert_eq!(said(&output, "device lost"), 1, "{}", stderr(&output));
    assert_eq!(said(&output, "the fallback core takes over"), 1, "{}", stderr(&output));
    let text = prove(&bench, &[], lost);
    assert!(String::from_utf8_lossy(&text.stdout).contains("the device was lost: "), "{text:?}");
}
