//! `interlock policy use`, `restore`, `stats` and `interlock engines` with engines that run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use interlock_engine::format::Input;
use interlock_engine::proof::{self, Verifier, vkey};
use serde_json::Value;

use super::running::{MANY, Running, bench, entry, json, write_config};
use super::support::{POLICIES, Workbench, stderr};

/// Every proof of a run verifies for its public inputs, by bellperson's verifier.
fn assert_verify(bench: &Workbench, name: &str, count: usize) {
    let key = vkey::read(&Input::open(bench.path("vkey.json")).expect("there")).expect("a key");
    let verifier = Verifier::new(&key).expect("a key");
    let proofs = bench.files(&format!("{name}.proof."));
    assert_eq!(proofs.len(), count);
    for file in proofs {
        let public = file.replace(".proof.", ".public.");
        let public = proof::read_public(&Input::open(bench.path(&public)).expect("there")).expect("inputs");
        let proof = proof::open(bench.path(&file)).expect("a proof");
        assert!(verifier.verify(&proof, &public).expect("well formed"), "{file}");
    }
}

fn policy_now(bench: &Workbench) -> String {
    let engines = json(&bench.run(&["engines", "--json"]));
    engines[0]["devices"][0]["policy"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn all_policies_take_turns_on_a_running_engine_and_no_proof_is_lost_or_doubled() {
    const PARTITIONS: usize = 1_200;
    let bench = bench("", "");
    let engine = Running::listening(&bench, "run", PARTITIONS, &[]);
    let mut before = "two-lock".to_owned();
    let turns = POLICIES.iter().chain(POLICIES.iter().rev());
    for (number, policy) in turns.enumerate() {
        let output = bench.run(&["policy", "use", policy, "--wait", "0", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{policy}: {}", stderr(&output));
        let switched = json(&output);
        let device = &switched["switch"]["devices"][0];
        assert_eq!((&device["from"], &device["seated"]), (&before.as_str().into(), &(*policy).into()));
        assert_eq!(switched["switch"]["number"], number + 1);
        assert!(device["swap"]["drain_ns"].is_u64() && device["swap"]["waited"].is_u64(), "{device}");
        let resident = switched["resident"].as_array().expect("a list");
        assert!((1..=4).contains(&resident.len()), "the same bytes are loaded once: {resident:?}");
        let file = format!("libinterlock_{}.so", policy.replace('-', "_"));
        assert!(
            resident.iter().any(|library| library["file"].as_str().is_some_and(|at| at.ends_with(&file)))
        );
        before = (*policy).to_owned();
    }
    let report = engine.ended();
    assert_eq!((&report["proofs"], &report["failed"]), (&PARTITIONS.into(), &0.into()));
    let device = &report["devices"][0];
    assert_eq!((&device["policy"], &device["quarantine"]), (&before.as_str().into(), &Value::Null));
    assert_eq!(device["counters"]["finished"], PARTITIONS);
    assert!(device["counters"]["refusals"].as_object().expect("a map").is_empty(), "{device}");
    assert_verify(&bench, "run", PARTITIONS);
}

#[test]
fn what_people_read_has_the_pause_and_the_libraries() {
    let bench = bench("trial_decisions: 40,", "");
    let engine = Running::listening(&bench, "run", MANY, &[]);
    let text = bench.succeed(&["policy", "use", "single-lock"]);
    for part in
        ["switch 1 to single-lock: seated, passed its trial", "before two-lock, now single-lock", "drain "]
    {
        assert!(text.contains(part), "{text}");
    }
    assert!(
        text.contains("libinterlock_two_lock.so") && text.contains("libinterlock_single_lock.so"),
        "{text}"
    );
    assert!(text.contains("/s after"), "{text}");
    engine.stop();
}

#[test]
fn a_policy_that_does_not_load_changes_nothing() {
    let bench = bench("", "(verdict: \"refuse to start\")");
    let engine = Running::listening(&bench, "run", MANY, &[]);
    let config = fs::read_to_string(bench.path("plugins.ron")).expect("there is one");
    bench.write("libpublic.so", "no library");
    fs::set_permissions(bench.path("libpublic.so"), fs::Permissions::from_mode(0o666)).expect("ours");
    let more = "(name: \"gone\", library: \"./gone.so\"), (name: \"public\", library: \"./libpublic.so\")";
    bench.write("plugins.ron", config.replace("policies: [", &format!("policies: [{more}, ")));
    for (policy, part) in [
        ("gone", "looked for"),
        ("public", "libpublic.so"),
        ("faulty", "told to refuse to start"),
        ("nobody", "no policy is named \"nobody\""),
        ("../two-lock", "no policy is named"),
    ] {
        let output = bench.run(&["policy", "use", policy]);
        assert_eq!(output.status.code(), Some(4), "{policy}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{policy}: {}", stderr(&output));
    }
    bench.write("plugins.ron", "(policy: \"two-lock\",\n policies: [(nmae: \"x\")])");
    let output = bench.run(&["policy", "use", "two-lock"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("plugins.ron:2:"), "{}", stderr(&output));
    let stats = json(&bench.run(&["policy", "stats", "--json"]));
    assert_eq!(stats["last_switch"], Value::Null);
    assert_eq!(engine.stop()["devices"][0]["policy"], "two-lock");
}

#[test]
fn a_policy_that_was_installed_after_the_start_can_be_used() {
    let bench = bench("", "");
    write_config(&bench, "", &[entry("two-lock", "")]);
    let engine = Running::listening(&bench, "run", MANY, &[]);
    assert_eq!(bench.run(&["policy", "use", "vram-token"]).status.code(), Some(4));
    write_config(&bench, "", &[entry("two-lock", ""), entry("vram-token", "(wait_ms: 7)")]);
    let output = bench.run(&["policy", "use", "vram-token", "--wait", "0"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(engine.stop()["devices"][0]["policy"], "vram-token");
}

#[test]
fn a_policy_that_is_refused_on_trial_is_rolled_back_and_every_proof_comes() {
    const PARTITIONS: usize = 600;
    let bench = bench("", "(verdict: \"unknown\")");
    let engine = Running::listening(&bench, "run", PARTITIONS, &[]);
    let output = bench.run(&["policy", "use", "faulty"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("ROLLED BACK") && text.contains("was refused"), "{text}");
    assert!(text.contains("before two-lock, now two-lock"), "{text}");
    let output = bench.run(&["policy", "restore"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("rolled back already: two-lock"), "{}", stderr(&output));
    let report = engine.ended();
    assert_eq!((&report["proofs"], &report["failed"]), (&PARTITIONS.into(), &0.into()));
    assert_eq!(report["devices"][0]["policy"], "two-lock");
    assert_verify(&bench, "run", PARTITIONS);
}

#[test]
fn restore_brings_the_last_good_policy_back_after_a_quarantine_that_left_a_dump() {
    // On trial it would be gone with its first bad verdict.
    let settings = "trial_decisions: 0, limits: (refusals: 3), dumps: \"dumps\",";
    let bench = bench(settings, "(verdict: \"stingy\")");
    let mut engine = Running::listening(&bench, "run", MANY, &[]);
    let output = bench.run(&["policy", "use", "faulty", "--wait", "0"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    engine.until(|_| policy_now(&bench) == "serialized-fallback");
    let text = bench.succeed(&["policy", "stats"]);
    assert!(text.contains("faulty") && text.contains("serialized-fallback"), "{text}");
    let output = bench.run(&["policy", "restore", "--wait", "0", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(json(&output)["switch"]["policy"], "two-lock");
    let report = engine.stop();
    let device = &report["devices"][0];
    assert_eq!(device["policy"], "two-lock");
    let dump = device["quarantine"]["dump"].as_str().expect("it was written");
    let folder = fs::canonicalize(bench.path("dumps")).expect("it was made");
    assert_eq!(fs::canonicalize(dump).expect("it is there").parent(), Some(folder.as_path()));
    let log = fs::read_to_string(bench.path("run.err")).expect("text");
    assert!(log.contains(dump), "the log names it: {log}");
    let dump: Value = serde_json::from_slice(&fs::read(dump).expect("it can be read")).expect("it is JSON");
    assert_eq!(
        (&dump["policy"]["policy"], &dump["quarantine"]["code"]),
        (&"faulty".into(), &"refusals".into())
    );
    assert!(!bench.path("state").exists(), "the usual folder is not touched");
}

#[test]
fn stats_show_each_policy_that_sat_there() {
    let bench = bench("trial_decisions: 20,", "");
    let engine = Running::listening(&bench, "run", MANY, &[]);
    bench.succeed(&["policy", "use", "vram-token"]);
    let stats = json(&bench.run(&["policy", "stats", "--json"]));
    let policies = stats["devices"][0]["policies"].as_array().expect("a list");
    let names: Vec<_> = policies.iter().map(|policy| policy["policy"].as_str()).collect();
    assert_eq!(names, [Some("two-lock"), Some("vram-token")]);
    assert!(
        policies[1]["seated"].as_bool() == Some(true)
            && policies[1]["decisions"]["count"].as_u64() >= Some(20)
    );
    assert_eq!(stats["last_switch"]["phase"]["phase"], "passed");
    engine.stop();
}

#[test]
fn of_two_engines_one_has_to_be_named() {
    let bench = bench("", "");
    let output = bench.run(&["policy", "use", "single-lock"]);
    assert_eq!(output.status.code(), Some(6));
    assert!(stderr(&output).contains("no engine of this user is running"), "{}", stderr(&output));
    let (first, second) =
        (Running::listening(&bench, "one", MANY, &[]), Running::listening(&bench, "two", MANY, &[]));
    assert_eq!(json(&bench.run(&["engines", "--json"])).as_array().map(Vec::len), Some(2));
    let output = bench.run(&["policy", "use", "single-lock"]);
    assert_eq!(output.status.code(), Some(2));
    for engine in [&first, &second] {
        assert!(stderr(&output).contains(&engine.pid().to_string()), "{}", stderr(&output));
    }
    let pid = first.pid().to_string();
    bench.succeed(&["policy", "use", "single-lock", "--wait", "0", "--engine", &pid]);
    assert_eq!(second.stop()["devices"][0]["policy"], "two-lock");
    bench.succeed(&["policy", "stats"]);
    assert_eq!(first.stop()["devices"][0]["policy"], "single-lock");
}

#[test]
fn a_client_that_waits_is_told_that_the_engine_ends() {
    let bench = bench("trial_decisions: 1000000000,", "");
    let mut engine = Running::listening(&bench, "run", MANY, &[]);
    let client = bench.command(&["policy", "use", "single-lock", "--wait", "600", "--json"]);
    let client = { client }.stdout(std::process::Stdio::piped()).spawn().expect("starts");
    engine.until(|_| policy_now(&bench) == "single-lock");
    engine.stop();
    let output = client.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(0));
    let switched = json(&output);
    assert_eq!(
        (&switched["engine_ended"], &switched["switch"]["phase"]["phase"]),
        (&true.into(), &"on_trial".into())
    );
}

#[test]
fn the_socket_is_where_it_was_asked_for() {
    let bench = bench("control: \"engine.sock\",", "");
    let mut engine = Running::start(&bench, "one", MANY, &[]);
    engine.until(|_| bench.run(&["policy", "stats", "--socket", "engine.sock"]).status.success());
    assert!(!engine.socket().exists());
    // The configuration says where, to clients as well.
    assert!(bench.run(&["policy", "stats"]).status.success());
    // Another engine finds the place taken, and goes on without; a third one was told another place.
    let second = Running::start(&bench, "two", 5, &[]);
    assert_eq!(second.ended()["proofs"], 5);
    let warning = fs::read_to_string(bench.path("two.err")).expect("text");
    assert!(warning.contains("another engine listens there"), "{warning}");
    let mut third = Running::start(&bench, "three", MANY, &["--control", "third.sock"]);
    third.until(|_| bench.run(&["policy", "stats", "--socket", "third.sock"]).status.success());
    third.stop();
    engine.stop();
    assert!(!bench.path("engine.sock").exists() && !bench.path("third.sock").exists());
}

#[test]
fn no_socket_is_opened_where_none_is_wanted() {
    let bench = bench("control: None,", "");
    let engine = Running::start(&bench, "run", 20, &[]);
    assert_eq!(engine.ended()["proofs"], 20);
    assert!(!bench.path("interlock").exists());
    assert!(!fs::read_to_string(bench.path("run.err")).expect("text").contains("control socket"));
}

#[test]
fn files_of_engines_that_are_gone_are_removed_and_others_stay() {
    let bench = bench("", "");
    let folder = bench.path("interlock");
    fs::create_dir(&folder).expect("made");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("ours");
    drop(UnixListener::bind(folder.join("999999999.sock")).expect("bound"));
    let alive = UnixListener::bind(folder.join("999999998.sock")).expect("bound");
    fs::write(folder.join("999999997.sock"), "no socket").expect("written");
    let engine = Running::listening(&bench, "run", MANY, &[]);
    assert!(!folder.join("999999999.sock").exists());
    assert!(folder.join("999999998.sock").exists() && folder.join("999999997.sock").exists());
    drop(alive);
    assert_eq!(json(&bench.run(&["engines", "--json"])).as_array().map(Vec::len), Some(1));
    engine.stop();
}

#[test]
fn a_folder_that_cannot_be_used_costs_the_socket_only() {
    let open_to_others = bench("", "");
    fs::create_dir(open_to_others.path("interlock")).expect("made");
    fs::set_permissions(open_to_others.path("interlock"), fs::Permissions::from_mode(0o755)).expect("ours");
    let taken = bench("", "");
    taken.write("interlock", "a file");
    let missing = bench("control: \"no/such/folder/engine.sock\",", "");
    let long = bench(&format!("control: \"{}.sock\",", "x".repeat(200)), "");
    for (bench, part) in [
        (open_to_others, "is open to others (mode 0755)"),
        (taken, "is no folder"),
        (missing, "no/such/folder"),
        (long, "xxx.sock"),
    ] {
        let engine = Running::start(&bench, "run", 5, &[]);
        assert_eq!(engine.ended()["proofs"], 5);
        let warning = fs::read_to_string(bench.path("run.err")).expect("text");
        assert!(warning.contains(part) && warning.contains("goes on"), "{warning}");
    }
}
