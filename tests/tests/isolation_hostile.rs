//! Hostile policies in processes of their own, under a real engine: every proof comes and verifies, the policy is out of its
//! seat for the right reason, and nothing of it is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use interlock_engine::circuit::Witness;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::{Core, ProvingKey};
use interlock_engine::host::{LoadFault, OptionsText, PolicyLibrary, ProcessSettings, Verified};
use interlock_engine::interlock::{Limits, PolicyEnd, Quarantine};
use interlock_engine::pipeline::{DeviceReport, Engine, Job, PartitionOutcome};
use interlock_engine::{proof, srs::setup};
use interlock_tests::fixtures;
use interlock_tests::leftovers::{Descriptors, children};
use interlock_tests::libraries::{changed, patch, verified};
use parking_lot::{Mutex, MutexGuard};
use rand::rngs::OsRng;

/// Where dumps go: not to the user's own.
const DUMPS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/dumps");
const PARTITIONS: usize = 6;
const DECISION_MS: u64 = 200;
const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;
const SIGSYS: i32 = 31;

fn settings() -> ProcessSettings {
    ProcessSettings::new(env!("CARGO_BIN_EXE_interlock-test-policy-host"))
        .decision(Duration::from_millis(DECISION_MS))
        .memory_bytes(64 << 20)
}

fn isolated(options: &str) -> PolicyLibrary {
    PolicyLibrary::isolate(verified("fixture-hostile", options), settings()).expect("it can be copied")
}

/// One test at a time, and what this process had before it.
struct Alone {
    _lock: MutexGuard<'static, ()>,
    /// A policy in the engine's process. Its library's copy stays open, so it is loaded before descriptors are counted.
    trusted: PolicyLibrary,
    descriptors: Descriptors,
}

impl Alone {
    fn new() -> Self {
        static ONE: Mutex<()> = Mutex::new(());
        let lock = ONE.lock();
        assert_eq!(children(), Vec::<u32>::new(), "the test before left none");
        let trusted = PolicyLibrary::open(verified("two-lock", "")).expect("it is good");
        Self { descriptors: Descriptors::now(), trusted, _lock: lock }
    }

    /// No process is left, not even a dead one that nobody waited for, and no descriptor.
    #[track_caller]
    fn assert_nothing_left(&self, what: &str) {
        assert_eq!(children(), Vec::<u32>::new(), "{what}");
        assert_eq!(self.descriptors.left_since(), Vec::<PathBuf>::new(), "{what}");
    }
}

/// An engine under a policy, with something to prove.
fn engine(policy: PolicyLibrary, what: &str) -> (Engine, Arc<ProvingKey>, Witness) {
    let (circuit, witness) = fixtures::circuit("multiplier");
    let srs = setup::generate(&circuit, OsRng);
    let key = Arc::new(ProvingKey { circuit, srs });
    let plan = CpuCore::new(0, Some(1)).expect("a thread").plan(&key);
    let core = CpuCore::new(plan.peak_bytes() + plan.staged_bytes, Some(1)).expect("a thread");
    let limits = Limits { refusals: 16, stall_ns: 5_000_000_000, ..Limits::DEFAULT };
    let engine =
        Engine::builder(Arc::new(core)).policy(policy).workers_per_device(3).dumps(DUMPS).limits(limits);
    (engine.start().unwrap_or_else(|error| panic!("{what}: {error}")), key, witness)
}

#[track_caller]
fn assert_proved(key: &ProvingKey, outcomes: &[PartitionOutcome], what: &str) {
    assert_eq!(outcomes.len(), PARTITIONS, "{what}");
    for outcome in outcomes {
        let proved = outcome.result.as_ref().unwrap_or_else(|error| panic!("{what}: {error}"));
        let right = proof::verify(&key.srs.vk, &proved.proof, &proved.public_inputs).expect("well formed");
        assert!(right, "{what}");
    }
}

/// Proves a job under a policy, checks every proof, and returns what the device says.
fn prove(policy: PolicyLibrary, what: &str) -> DeviceReport {
    let (engine, key, witness) = engine(policy, what);
    let mut job = Job::new(key.clone());
    (0..PARTITIONS).for_each(|_| job.push_witness(witness.clone()));
    assert_proved(&key, &engine.submit(job).expect("taken").wait(), what);
    engine.devices().remove(0)
}

/// Why the policy was taken out of its seat.
fn reason(device: &DeviceReport) -> Option<Quarantine> {
    device.quarantine.as_ref().map(|quarantine| quarantine.reason)
}

/// Every deed that ends the policy, at its first decision and in the middle of the work.
#[track_caller]
fn assert_ends(deed: &str, options: &str, end: PolicyEnd) {
    let alone = Alone::new();
    for after in [0, 5] {
        let what = format!("{deed}, after {after}");
        let device = prove(isolated(&format!("(deed: \"{deed}\", after: {after}{options})")), &what);
        assert_eq!(reason(&device), Some(Quarantine::Ended(end)), "{what}");
        assert_eq!(device.policy, "serialized-fallback", "{what}");
        assert_eq!(device.counters.failed, 0, "{what}");
        alone.assert_nothing_left(&what);
    }
}

/// Deeds that fail, or that reach nothing, and leave the policy in its seat.
#[track_caller]
fn assert_fails(deed: &str, options: &str) {
    let alone = Alone::new();
    let device = prove(isolated(&format!("(deed: \"{deed}\"{options})")), deed);
    assert_eq!((reason(&device), device.policy.as_str()), (None, "hostile"), "{deed}");
    assert_eq!(device.policy_stats["succeeded"], 0, "{deed}");
    assert!(device.policy_stats["decisions"] >= PARTITIONS as u64, "{deed}");
    alone.assert_nothing_left(deed);
}

#[test]
fn a_crash_is_the_policys_own() {
    assert_ends("segfault", "", PolicyEnd::Signal { signal: SIGSEGV });
    assert_ends("abort", "", PolicyEnd::Signal { signal: SIGABRT });
    // The standard library's handler says what happened and aborts.
    assert_ends("overflow", "", PolicyEnd::Signal { signal: SIGABRT });
}

#[test]
fn leaving_is_seen() {
    assert_ends("exit", "", PolicyEnd::Exited { code: 0 });
    assert_ends("exit 7", "", PolicyEnd::Exited { code: 7 });
}

#[test]
fn what_does_not_answer_is_killed() {
    assert_ends("spin", "", PolicyEnd::Silent { budget_ms: DECISION_MS });
    assert_ends("sleep", "", PolicyEnd::Silent { budget_ms: DECISION_MS });
}

#[test]
fn memory_ends_at_its_limit() {
    assert_ends("allocate", "", PolicyEnd::Signal { signal: SIGABRT });
}

#[test]
fn rubbish_in_the_shared_memory_is_no_answer() {
    assert_ends("scribble", "", PolicyEnd::Rubbish);
}

#[test]
fn answers_that_are_stale_or_to_no_call_are_no_answers() {
    for deed in ["claim early", "claim ahead", "claim back"] {
        assert_ends(deed, "", PolicyEnd::Rubbish);
    }
}

#[test]
fn other_processes_are_out_of_reach() {
    let end = PolicyEnd::Signal { signal: SIGSYS };
    for deed in ["fork", "thread", "run", "kill parent"] {
        assert_ends(deed, "", end);
    }
    let alone = Alone::new();
    let mut bystander = std::process::Command::new("/bin/sleep").arg("600").spawn().expect("there is sleep");
    let device = prove(isolated(&format!("(deed: \"kill\", target: {})", bystander.id())), "kill");
    assert!(bystander.try_wait().expect("it is ours").is_none(), "it lives");
    bystander.kill().expect("it is ours");
    bystander.wait().expect("it is ours");
    assert_eq!(reason(&device), Some(Quarantine::Ended(end)));
    alone.assert_nothing_left("kill");
}

#[test]
fn the_engines_limits_are_out_of_reach() {
    assert_fails("limit parent", "");
}

#[test]
fn the_network_is_out_of_reach() {
    assert_ends("connect", "", PolicyEnd::Signal { signal: SIGSYS });
}

#[test]
fn what_it_prints_goes_nowhere() {
    assert_fails("print", "");
}

#[test]
fn files_are_out_of_reach() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    assert_fails("write file", &format!(", file: {file:?}"));
    assert!(!file.exists());
    fs::write(&file, "there").expect("written");
    assert_fails("read file", &format!(", file: {file:?}"));
    assert_fails("write file", &format!(", file: {file:?}"));
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "there");
}

#[test]
fn a_crash_where_nobody_waits_for_an_answer_is_found() {
    let alone = Alone::new();
    let device = prove(isolated("(deed: \"observe: crash\")"), "observe");
    assert_eq!(reason(&device), Some(Quarantine::Ended(PolicyEnd::Signal { signal: SIGSEGV })));
    alone.assert_nothing_left("observe");
}

#[test]
fn policies_that_are_seated_one_after_the_other_under_load_cost_no_proof() {
    let alone = Alone::new();
    let (engine, key, witness) = engine(isolated(""), "switches");
    let mut handles = Vec::new();
    for deed in ["segfault", "", "exit", "spin", "", "fork", "scribble", "allocate", "", "observe: crash"] {
        let mut job = Job::new(key.clone());
        (0..PARTITIONS).for_each(|_| job.push_witness(witness.clone()));
        handles.push(engine.submit(job).expect("taken"));
        let hostile = isolated(&format!("(deed: \"{deed}\", after: 3)"));
        let next = if deed.is_empty() { &alone.trusted } else { &hostile };
        engine.switch_policy(next).expect("it starts honestly");
    }
    for handle in handles {
        assert_proved(&key, &handle.wait(), "switches");
    }
    assert_eq!(engine.devices()[0].counters.failed, 0);
    drop(engine);
    alone.assert_nothing_left("switches");
}

#[test]
fn counters_come_through_without_what_paints_a_terminal() {
    let alone = Alone::new();
    let device = prove(isolated(""), "honest");
    assert!(device.quarantine.is_none());
    assert!(device.policy_stats["observed"] > 0);
    assert_eq!(device.policy_stats["\u{fffd}[2J"], 1);
    alone.assert_nothing_left("honest");
}

/// Why an instance could not be made of a policy that attacks while it starts.
fn start_fault(policy: &PolicyLibrary) -> LoadFault {
    policy.instantiate().expect_err("it does not start").fault
}

#[test]
fn an_attack_while_the_instance_is_made_is_an_error_of_loading() {
    let alone = Alone::new();
    for (deed, expected) in [
        ("segfault", PolicyEnd::Signal { signal: SIGSEGV }),
        ("exit", PolicyEnd::Exited { code: 0 }),
        ("fork", PolicyEnd::Signal { signal: SIGSYS }),
        ("scribble", PolicyEnd::Rubbish),
    ] {
        let fault = start_fault(&isolated(&format!("(deed: \"create: {deed}\")")));
        assert!(matches!(fault, LoadFault::EndedAtStart { end } if end == expected), "{deed}: {fault}");
        alone.assert_nothing_left(deed);
    }
    let settings = settings().load(Duration::from_secs(1));
    let spins = verified("fixture-hostile", "(deed: \"create: spin\")");
    let spins = PolicyLibrary::isolate(spins, settings).expect("it can be copied");
    let fault = start_fault(&spins);
    let silent = PolicyEnd::Silent { budget_ms: 1_000 };
    assert!(matches!(fault, LoadFault::EndedAtStart { end } if end == silent), "{fault}");
    drop(spins);
    alone.assert_nothing_left("spin");
}

/// The library with another deed in its constructor.
fn at_load(deed: &str, folder: &Path) -> PolicyLibrary {
    let told = format!("{:<24}", format!("at load: {deed}"));
    let file = changed("fixture-hostile", folder, |bytes| {
        patch(bytes, b"at load: nothing        ", told.as_bytes())
    });
    let verified = Verified::file(&file, None, None, &OptionsText::default()).expect("the copy is good");
    PolicyLibrary::isolate(verified, settings()).expect("it can be copied")
}

#[test]
fn a_constructor_is_confined_too() {
    let alone = Alone::new();
    let folder = tempfile::tempdir().expect("a folder");
    for (deed, expected) in [
        ("abort", PolicyEnd::Signal { signal: SIGABRT }),
        ("exit 7", PolicyEnd::Exited { code: 7 }),
        ("allocate", PolicyEnd::Signal { signal: SIGABRT }),
        ("fork", PolicyEnd::Signal { signal: SIGSYS }),
        ("run", PolicyEnd::Signal { signal: SIGSYS }),
        ("kill parent", PolicyEnd::Signal { signal: SIGSYS }),
        ("connect", PolicyEnd::Signal { signal: SIGSYS }),
        ("scribble", PolicyEnd::Rubbish),
    ] {
        let fault = start_fault(&at_load(deed, folder.path()));
        assert!(matches!(fault, LoadFault::EndedAtStart { end } if end == expected), "{deed}: {fault}");
        alone.assert_nothing_left(deed);
    }
    for deed in ["nothing", "print", "read passwd", "limit parent"] {
        let policy =
            at_load(deed, folder.path()).instantiate().unwrap_or_else(|error| panic!("{deed}: {error}"));
        drop(policy);
        alone.assert_nothing_left(deed);
    }
}
