//! `core: Cuda(...)` as people meet it when something is wrong, over a stand-in for the driver.

use std::path::Path;
use std::process::Output;

use interlock_tests::libraries::cuda_core;
use serde_json::Value;

use super::support::{CHUNK_BYTES, MULTIPLIER, Workbench, library, prove_multiplier, stderr};

/// The arguments that prove the multiplier.
fn multiplier() -> Vec<&'static str> {
    prove_multiplier(&["--proof", "proof.json", "--public", "public.json"])
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
        ("vram_limit: \"128KiB\"", &["a task needs", "staged", "96 KiB for tasks", "vram_limit"]),
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

/// `ab` of two equal arms on the stand-in card, with 20 jobs a second. What the card of the stand-in
/// does is no proof, so none is verified.
fn ab(bench: &Workbench, more: &[&str], energy: Option<&str>) -> Output {
    let arms = ["ab", "--policies", "two-lock,two-lock"];
    let load = ["--rounds", "2", "--rate", "20", "--json"];
    let mut command = bench.command(&[&arms[..], &MULTIPLIER, &load, more].concat());
    let mut libraries = library("libinterlock_test_driver.so").into_os_string();
    if let Some(cards) = energy {
        libraries.push(":");
        libraries.push(library("libinterlock_test_nvml.so"));
        command.env("INTERLOCK_TEST_NVML", cards);
    }
    command.env("LD_PRELOAD", libraries).output().expect("the program runs")
}

/// A folder for [`ab`].
fn ab_bench(core: &Path) -> Workbench {
    let bench = bench(core, "vram_limit: \"256MiB\"");
    let config = std::fs::read_to_string(bench.path("plugins.ron")).expect("it is there");
    bench.write("plugins.ron", config.replacen('(', "(verify_proofs: false, ", 1));
    bench
}

#[test]
fn joules_of_the_card_are_in_every_report_of_an_experiment() {
    let Some(core) = cuda_core() else { return };
    let bench = ab_bench(&core);
    // Another card that the driver has, and CUDA does not show.
    let cards = "GPU-another:watts=70 GPU-00010203-0405-0607-0809-0a0b0c0d0e00:watts=250";
    let conditions = ["--fail-if", "A.mean_watts > 500.0", "--fail-if", "B.joules_per_proof < 0.1"];
    // About 3 s a run.
    let files = ["-c", "60", "--csv", "runs.csv", "--html", "page.html"];
    let output = ab(&bench, &[&conditions[..], &files].concat(), Some(cards));
    let report = report(&output);
    for arm in report["arms"].as_array().expect("a list") {
        let energy = &arm["figures"]["energy"];
        let watts = energy["mean_watts"].as_f64().expect("it is known");
        assert!((watts / 250.0 - 1.0).abs() < 0.1, "{energy}");
        for round in arm["rounds"].as_array().expect("a list") {
            let number = |value: &Value| value.as_f64().expect("a number");
            let joules = number(&round["energy"]["mean_watts"]) * number(&round["seconds"]);
            let per_proof = joules / number(&round["proofs"]);
            assert!((number(&round["energy"]["joules_per_proof"]) / per_proof - 1.0).abs() < 1e-9, "{round}");
        }
    }
    let by_joules = |comparisons: &Value| {
        let comparisons = comparisons.as_array().expect("a list").iter();
        comparisons.filter(|comparison| comparison["metric"] == "joules_per_proof").count()
    };
    assert_eq!(by_joules(&report["comparisons"]), 1);
    let csv = std::fs::read_to_string(bench.path("runs.csv")).expect("it was written");
    assert!(csv.lines().next().expect("a head").contains(",joules,joules_per_proof,mean_watts,"), "{csv}");
    let page = std::fs::read_to_string(bench.path("page.html")).expect("it was written");
    assert!(page.contains("id=\"joules_per_proof-B-A\""), "the comparison is on the page");
    assert!(page.contains("Joules a proof of each round"), "the rounds are on the page");
    bench.write("first.json", &output.stdout);
    let compared = bench.succeed(&["report", "--compare", "first.json", "first.json", "--json"]);
    let compared: Value = serde_json::from_str(&compared).expect("JSON");
    assert_eq!(by_joules(&compared["comparisons"]), 2, "two arms");
}

#[test]
fn without_the_drivers_library_joules_are_not_told_and_no_condition_may_ask_for_them() {
    let Some(core) = cuda_core() else { return };
    // SAFETY: the library's constructors run in any process that asks for a card's state.
    if unsafe { libloading::Library::new("libnvidia-ml.so.1") }.is_ok() {
        println!("skipped: this machine has a driver");
        return;
    }
    let bench = ab_bench(&core);
    let refused = ab(&bench, &["--fail-if", "A.joules_per_proof > 1.0"], None);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("joules_per_proof"), "{}", stderr(&refused));
    let report = report(&ab(&bench, &["-c", "20"], None));
    let figures = &report["arms"][0]["figures"];
    assert_eq!((&figures["energy"], &figures["energy_unknown"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_run_that_is_too_short_for_joules_says_so_and_leaves_conditions_on_them_open() {
    let Some(core) = cuda_core() else { return };
    let bench = ab_bench(&core);
    let cards = "GPU-00010203-0405-0607-0809-0a0b0c0d0e00:watts=250";
    let arguments = ["-c", "20", "--fail-if", "A.joules_per_proof > 1.0"];
    let output = ab(&bench, &arguments, Some(cards));
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let figures = &report["arms"][0]["figures"];
    assert_eq!(figures["energy"], Value::Null);
    assert!(figures["energy_unknown"].as_str().expect("why").contains("too few to tell energy"), "{figures}");
    assert_eq!(report["conditions"][0]["holds"], Value::Null);
}
