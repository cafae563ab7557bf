//! Loading into a process: the same errors as in the engine's own, and those of the process itself.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use interlock_engine::host::{
    Config, Isolation, LoadFault, PolicyLibrary, ProcessSettings, resident_libraries,
};
use interlock_tests::libraries::{library, verified};

const HOST: &str = env!("CARGO_BIN_EXE_interlock-test-policy-host");

fn fault(policy: &str, options: &str) -> LoadFault {
    let library = PolicyLibrary::isolate(verified(policy, options), ProcessSettings::new(HOST));
    library.expect("it is checked").instantiate().expect_err("it does not start").fault
}

#[test]
fn a_library_that_the_engine_would_refuse_is_refused_by_the_process() {
    assert!(matches!(fault("fixture-foreign-layout", ""), LoadFault::Incompatible(_)));
    assert!(matches!(fault("fixture-two-faced", ""), LoadFault::ManifestDiffers));
    for (options, part) in [
        ("(panic_in: \"create\")", "told to panic in create"),
        ("(verdict: \"refuse to start\")", "told to refuse to start"),
    ] {
        let fault = fault("fixture-faulty", options);
        assert!(matches!(fault, LoadFault::Create { ref reason } if reason.contains(part)), "{fault}");
    }
}

#[test]
fn nothing_is_loaded_into_the_engine() {
    let library =
        PolicyLibrary::isolate(verified("two-lock", ""), ProcessSettings::new(HOST)).expect("checked");
    let policies = [library.instantiate().expect("starts"), library.instantiate().expect("starts")];
    assert_eq!(resident_libraries(), 0);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("there is /proc");
    assert!(!maps.contains("libinterlock_two_lock"));
    let ids = policies.each_ref().map(|policy| policy.process_id().expect("it has a process"));
    assert_ne!(ids[0], ids[1], "one process for each instance");
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", ids[0])).expect("it runs");
    assert!(maps.contains("libinterlock_two_lock"));
}

#[test]
fn a_policys_process_has_nothing_of_the_engines() {
    let kept_open = std::fs::File::open("/proc/self/maps").expect("there is /proc");
    let library =
        PolicyLibrary::isolate(verified("two-lock", ""), ProcessSettings::new(HOST)).expect("checked");
    let policy = library.instantiate().expect("starts");
    let folder = format!("/proc/{}", policy.process_id().expect("it has a process"));
    let open: Vec<_> = std::fs::read_dir(format!("{folder}/fd"))
        .expect("it runs")
        .map(|entry| std::fs::read_link(entry.expect("listed").path()).expect("open"))
        .collect();
    assert_eq!(open, [Path::new("/dev/null"); 3]);
    assert_eq!(std::fs::read(format!("{folder}/environ")).expect("it runs"), b"");
    let status = std::fs::read_to_string(format!("{folder}/status")).expect("it runs");
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"))
            .expect("it is there")
            .to_owned()
    };
    assert_eq!(
        (field("NoNewPrivs"), field("Seccomp"), field("Seccomp_filters")),
        ("1".into(), "2".into(), "3".into())
    );
    assert_eq!(field("Threads"), "1");
    for capabilities in ["CapInh", "CapPrm", "CapEff"] {
        assert_eq!(field(capabilities), "0000000000000000", "{capabilities}");
    }
    let limits = std::fs::read_to_string(format!("{folder}/limits")).expect("it runs");
    for limit in
        ["Max open files", "Max core file size", "Max file size", "Max processes", "Max locked memory"]
    {
        let line = limits.lines().find(|line| line.starts_with(limit)).expect("it is there");
        assert_eq!(line[limit.len()..].split_whitespace().take(2).collect::<Vec<_>>(), ["0", "0"], "{limit}");
    }
    drop(kept_open);
}

#[test]
fn a_program_that_cannot_host_is_named() {
    let isolate = |program: &str| {
        let library = PolicyLibrary::isolate(verified("two-lock", ""), ProcessSettings::new(program));
        library.expect("it is checked").instantiate().expect_err("it cannot")
    };
    let error = isolate("/no/such/program");
    assert!(matches!(error.fault, LoadFault::NoProcess { .. }), "{error}");
    assert!(error.to_string().contains("/no/such/program"), "{error}");
    let error = isolate("/bin/false");
    assert!(matches!(error.fault, LoadFault::EndedAtStart { .. }), "{error}");
}

#[test]
fn the_configuration_says_where_a_policy_runs() {
    let configured = |host: &str| {
        let two_lock = library("two-lock");
        let text =
            format!("(policies: [(name: \"two-lock\", library: {two_lock:?}, isolation: Process)]{host})");
        let config = Config::parse(&text, Path::new("/conf/plugins.ron")).expect("it is good");
        PolicyLibrary::configured(&config, "two-lock")
    };
    let library = configured(&format!(", policy_host: {HOST:?}")).expect("it is good");
    assert_eq!(library.isolation(), Isolation::Process);
    assert!(library.instantiate().expect("starts").process_id().is_some());
    // This program does not host policies, and says so before anything is started.
    let error = configured("").expect_err("there is no program");
    assert!(matches!(error.fault, LoadFault::NoPolicyHost), "{error}");
    assert!(error.to_string().contains("policy_host"), "{error}");
}

/// The host's program can also be an engine: it seats a policy in a process of its own and waits.
#[test]
fn a_policys_process_ends_with_the_engine_and_not_with_the_thread_that_made_it() {
    let mut engine = Command::new(HOST)
        .arg("engine")
        .arg(library("two-lock"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut line = String::new();
    let output = engine.stdout.take().expect("it is a pipe");
    BufReader::new(output).read_line(&mut line).expect("it says something");
    let policy = line.trim().strip_prefix("answers: ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{policy}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    };
    assert!(state().is_some_and(|state| state != 'Z'), "it outlives the thread");
    engine.kill().expect("it is ours");
    engine.wait().expect("it is ours");
    // Whoever adopts it may take a while to wait for it, or not be the kind that does.
    let gone = || state().is_none_or(|state| state == 'Z' || state == 'X');
    let waited = (0..1_000).any(|_| gone() || (std::thread::sleep(Duration::from_millis(10)), false).1);
    assert!(waited, "it ends with the engine");
}

#[test]
fn started_by_hand_the_host_says_what_it_is() {
    let output = Command::new(HOST).arg("policy-host").output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("for an engine"), "{output:?}");
}
