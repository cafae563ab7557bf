//! Who may write `plugins.ron`, and `interlock policy pin`, as people meet them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use super::support::{POLICIES, Workbench, stderr};

fn mode(bench: &Workbench, name: &str, mode: u32) {
    fs::set_permissions(bench.path(name), fs::Permissions::from_mode(mode)).expect("ours");
}

#[test]
fn a_configuration_that_others_may_write_counts_only_when_it_is_named() {
    let bench = Workbench::new();
    mode(&bench, "plugins.ron", 0o666);
    let output = bench.run(&["policy", "list"]);
    assert_eq!(output.status.code(), Some(4));
    let text = stderr(&output);
    assert!(text.contains("plugins.ron: mode 0666") && text.contains("--config"), "{text}");
    let output = bench.run(&["policy", "list", "--config", "plugins.ron"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("mode 0666"), "the log warns: {}", stderr(&output));
    mode(&bench, "plugins.ron", 0o644);
    let output = bench.run(&["policy", "list"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn a_configuration_in_a_folder_that_others_may_write_is_not_found() {
    let bench = Workbench::new();
    mode(&bench, "", 0o777);
    let output = bench.run(&["policy", "list"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("(mode 0777)"), "{}", stderr(&output));
}

#[test]
fn a_configuration_of_another_user_says_what_to_do() {
    let bench = Workbench::new();
    if chown(bench.path("plugins.ron"), Some(4_242), None).is_err() {
        eprintln!("left out: only root can give a file away");
        return;
    }
    let output = bench.run(&["policy", "list"]);
    assert_eq!(output.status.code(), Some(4));
    let text = stderr(&output);
    assert!(text.contains("owned by user 4242") && text.contains("--config"), "{text}");
    assert!(bench.run(&["policy", "list", "--config", "plugins.ron"]).status.success());
    // With the owner named, the log says nothing any more.
    let config = fs::read_to_string(bench.path("plugins.ron")).expect("there");
    fs::write(bench.path("plugins.ron"), config.replacen('(', "(trust: (owners: [4242]), ", 1))
        .expect("ours");
    let output = bench.run(&["policy", "list", "--config", "plugins.ron"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn a_configuration_may_come_from_a_pipe_when_it_is_named() {
    let bench = Workbench::new();
    let mut command = bench.command(&["policy", "list", "--config", "/dev/stdin"]);
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut input, b"()").expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(String::from_utf8_lossy(&output.stdout).contains("serialized-fallback"));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn a_program_for_policies_that_others_may_write_is_refused() {
    let bench = Workbench::new();
    let host = bench.write("host", b"#!/bin/sh\n");
    mode(&bench, "host", 0o777);
    let config = fs::read_to_string(bench.path("plugins.ron")).expect("there");
    let config = config.replace("(name:", "(isolation: Process, name:");
    bench.write("plugins.ron", config.replacen('(', &format!("(policy_host: {host:?}, "), 1));
    bench.write("file", b"sixteen bytes ...");
    let bench = bench.with_chunk_params();
    let output = bench.run(&super::support::prove_chunks(&[]));
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("policy_host") && stderr(&output).contains("mode 0777"));
}

#[test]
fn pins_are_written_printed_and_shown() {
    let bench = Workbench::new();
    let before = fs::read_to_string(bench.path("plugins.ron")).expect("there");
    let printed = bench.succeed(&["policy", "pin", "--all", "--print"]);
    assert_eq!(fs::read_to_string(bench.path("plugins.ron")).expect("there"), before);
    assert_eq!(printed.lines().count(), POLICIES.len());
    let text = bench.succeed(&["policy", "pin", "two-lock", "vram-token"]);
    let after = fs::read_to_string(bench.path("plugins.ron")).expect("there");
    for policy in ["two-lock", "vram-token"] {
        let line =
            printed.lines().find_map(|line| line.strip_prefix(&format!("{policy}: "))).expect("printed");
        assert!(after.contains(&format!("(name: \"{policy}\", {line}, library")), "{after}");
        let digits = line.trim_start_matches("sha256: ").trim_matches('"');
        assert!(text.contains(digits), "{text}");
    }
    assert_eq!(after.matches("sha256").count(), 2);
    let list = bench.succeed(&["policy", "list"]);
    assert_eq!(list.matches("; pinned)").count(), 2, "{list}");
    assert!(bench.succeed(&["policy", "pin", "two-lock"]).contains("pinned already"));
    // An older pin and the new one are both shown.
    let digits = printed.lines().find(|line| line.starts_with("two-lock")).expect("printed")[19..]
        .trim_end_matches('"');
    bench.write("plugins.ron", after.replace(digits, &"0".repeat(64)));
    let text = bench.succeed(&["policy", "pin", "--all"]);
    assert!(text.contains(&format!("was {}\n    is  {digits}", "0".repeat(64))), "{text}");
}

#[test]
fn a_pin_that_cannot_be_written_is_printed() {
    let bench = Workbench::new();
    mode(&bench, "plugins.ron", 0o444);
    let output = bench.run(&["policy", "pin", "two-lock"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(stderr(&output).contains("read-only"), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("two-lock: sha256: \""));
    for (arguments, code) in [
        (&["policy", "pin", "three-lock"][..], 4),
        (&["policy", "pin"], 2),
        (&["policy", "pin", "--all", "two-lock"], 2),
    ] {
        assert_eq!(bench.run(arguments).status.code(), Some(code), "{arguments:?}");
    }
    assert!(bench.files(".plugins").is_empty());
}
