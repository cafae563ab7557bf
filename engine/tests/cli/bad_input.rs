//! Bad input: one clear error, the right exit code, nothing half-written.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::support::{Workbench, library, prove_multiplier, stderr};

/// Runs `prove` on the multiplier with more arguments; expects this exit code, these words in the error, no output.
#[track_caller]
fn assert_refused(bench: &Workbench, more: &[&str], exit: i32, words: &[&str]) {
    let mut arguments = prove_multiplier(&[]);
    arguments.extend(["--proof", "proof.json", "--public", "public.json"]);
    arguments.extend(more);
    let output = bench.run(&arguments);
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(exit), "{error}");
    for word in words {
        assert!(error.contains(word), "no {word:?} in: {error}");
    }
    assert!(!error.contains("panicked"), "{error}");
    assert!(bench.files("proof").is_empty() && bench.files("public").is_empty(), "{error}");
    assert!(bench.files(".tmp").is_empty());
}

fn damaged(name: &str, damage: impl FnOnce(&mut Vec<u8>)) -> Workbench {
    let bench = Workbench::new().with_multiplier();
    let mut bytes = fs::read(bench.path(name)).expect("a fixture");
    damage(&mut bytes);
    bench.write(name, bytes);
    bench
}

#[test]
fn damaged_files_are_named_with_their_place() {
    for name in ["mul.r1cs", "mul.wtns", "mul.zkey"] {
        let half = damaged(name, |bytes| bytes.truncate(bytes.len() / 2));
        assert_refused(&half, &[], 3, &["error: ", name]);
        let empty = damaged(name, Vec::clear);
        assert_refused(&empty, &[], 3, &[name, "empty"]);
        let foreign = damaged(name, |bytes| bytes[0] ^= 1);
        assert_refused(&foreign, &[], 3, &[name]);
        let missing = Workbench::new().with_multiplier();
        fs::remove_file(missing.path(name)).expect("was there");
        assert_refused(&missing, &[], 3, &[name]);
    }
}

#[test]
fn a_point_off_the_curve_is_found() {
    // The last byte of the file belongs to the last H point.
    let bench = damaged("mul.zkey", |bytes| {
        let at = bytes.windows(4).rposition(|window| window == [10, 0, 0, 0]).unwrap_or(bytes.len());
        let last_point = if at + 12 >= bytes.len() { bytes.len() - 40 } else { at - 40 };
        bytes[last_point] ^= 1;
    });
    assert_refused(&bench, &["--check", "full"], 3, &["mul.zkey"]);
}

#[test]
fn a_witness_that_does_not_satisfy_names_the_constraint() {
    let bench = damaged("mul.wtns", |bytes| {
        let last = bytes.len() - 32;
        bytes[last] ^= 1;
    });
    assert_refused(&bench, &[], 3, &["constraint"]);
}

#[test]
fn unknown_policies_and_missing_libraries_are_named() {
    let bench = Workbench::new().with_multiplier();
    assert_refused(&bench, &["--policy", "best"], 4, &["best", "two-lock"]);
    bench.write("plugins.ron", "(policies: [(name: \"gone\", library: \"libgone.so\")], policy: \"gone\")");
    assert_refused(&bench, &[], 4, &["libgone.so", "not found"]);
}

#[test]
fn a_bad_configuration_says_line_and_column() {
    let bench = Workbench::new().with_multiplier();
    let two_lock = library("libinterlock_two_lock.so");
    let cases = [
        ("(\n  polices: [])".to_owned(), vec!["plugins.ron", "2:", "polices"]),
        ("(\n  workers_per_device: 0)".to_owned(), vec!["plugins.ron", "2:"]),
        (
            format!(
                "(policies: [(name: \"two-lock\", library: {two_lock:?}),\n (name: \"two-lock\", library: {two_lock:?})])"
            ),
            vec!["two-lock", "2:"],
        ),
        (
            format!(
                "(policy: \"two-lock\", policies: [(name: \"two-lock\", library: {two_lock:?},\n options: (no_such: 1))])"
            ),
            vec!["no_such"],
        ),
        (
            format!(
                "(policy: \"two-lock\", policies: [(name: \"two-lock\", library: {two_lock:?}, sha256: \"{}\")])",
                "0".repeat(64)
            ),
            vec!["sha256", "libinterlock_two_lock.so"],
        ),
    ];
    for (config, words) in cases {
        bench.write("plugins.ron", config);
        assert_refused(&bench, &[], 4, &words);
    }
}

#[test]
fn a_library_that_others_may_write_is_refused() {
    let bench = Workbench::new().with_multiplier();
    fs::copy(library("libinterlock_two_lock.so"), bench.path("open.so")).expect("copied");
    fs::set_permissions(bench.path("open.so"), fs::Permissions::from_mode(0o666)).expect("set");
    bench.write(
        "plugins.ron",
        "(policy: \"two-lock\", policies: [(name: \"two-lock\", library: \"./open.so\")])",
    );
    assert_refused(&bench, &[], 4, &["open.so", "writ"]);
}

#[test]
fn outputs_that_would_collide_are_refused_before_any_work() {
    let bench = Workbench::new().with_multiplier();
    fs::create_dir(bench.path("other")).expect("made");
    fs::copy(bench.path("mul.wtns"), bench.path("other/mul.wtns")).expect("copied");
    assert_refused(&bench, &["--witness", "other/mul.wtns"], 2, &["mul"]);
}

#[test]
fn zero_partitions_are_refused() {
    let bench = Workbench::new();
    bench.write("empty", "");
    let output = bench.run(&["prove", "--file", "empty", "--proof", "p", "--public", "i"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("empty"), "{}", stderr(&output));
}

#[test]
fn usage_errors_exit_with_2() {
    let bench = Workbench::new().with_multiplier();
    for arguments in [
        &["prove"][..],
        &["prove", "--r1cs", "mul.r1cs", "--proof", "p", "--public", "i"],
        &["prove", "--file", "f", "--r1cs", "mul.r1cs", "--proof", "p", "--public", "i"],
        &["no-such-command"],
    ] {
        assert_eq!(bench.run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let bench = Workbench::new().with_multiplier();
    bench.write("blocked", "a file, not a folder");
    let mut arguments = prove_multiplier(&[]);
    arguments.extend(["--proof", "blocked/proof.json", "--public", "public.json"]);
    let output = bench.run(&arguments);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("blocked/proof.json"), "{}", stderr(&output));
}

#[test]
fn an_output_never_takes_the_place_of_an_input_another_output_or_a_device() {
    let bench = Workbench::new().with_multiplier();
    let before = fs::read(bench.path("mul.r1cs")).expect("a circuit");
    let run = |proof: &str, more: &[&str]| {
        let mut arguments = prove_multiplier(&[]);
        arguments.extend(["--proof", proof, "--public", "public.json"]);
        arguments.extend(more);
        bench.run(&arguments).status.code()
    };
    std::os::unix::fs::symlink("mul.r1cs", bench.path("link")).expect("linked");
    for input in ["mul.r1cs", "./mul.wtns", "mul.zkey", "link"] {
        assert_eq!(run(input, &[]), Some(2), "{input}");
    }
    assert_eq!(run("public.json", &[]), Some(2));
    assert_eq!(run("proof.json", &["--trace", "./proof.json"]), Some(2));
    assert_eq!(run("/dev/null", &[]), Some(5));
    assert!(!fs::metadata("/dev/null").expect("a device").is_file());
    let setup = bench.run(&["setup", "--r1cs", "mul.r1cs", "--params", "same", "--vkey", "same"]);
    assert_eq!(setup.status.code(), Some(2));
    assert_eq!(fs::read(bench.path("mul.r1cs")).expect("still there"), before);
}

#[test]
fn standard_output_that_cannot_be_written_is_an_error_and_one_that_was_closed_is_not() {
    let bench = Workbench::new();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let output = bench.command(&["policy", "list"]).stdout(full).output().expect("runs");
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = bench.command(&["completions", "bash"]).stdout(writer).output().expect("runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn more_threads_than_any_machine_has_are_refused() {
    let bench = Workbench::new().with_multiplier();
    bench.write("plugins.ron", "(\n core: Cpu(threads: 100000))");
    assert_refused(&bench, &[], 4, &["plugins.ron", "2:", "100000 threads"]);
}
