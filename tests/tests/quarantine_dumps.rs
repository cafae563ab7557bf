//! Each reason for a quarantine under a real engine, with a policy that brings it about: every proof comes, and the dump that the
//! report names has what led to it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use blstrs::Bls12;
use interlock_engine::circuit::Witness;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::{Blinding, Core, CoreError, CoreTask, Device, Plan, ProvingKey};
use interlock_engine::host::{PolicyLibrary, ProcessSettings};
use interlock_engine::interlock::{Limits, Quarantine};
use interlock_engine::pipeline::{Engine, Job, QuarantineReport};
use interlock_engine::proof::{self, Proof};
use interlock_engine::srs::setup;
use interlock_tests::fixtures;
use interlock_tests::libraries::verified;
use rand::rngs::OsRng;
use serde_json::Value;

const PARTITIONS: usize = 12;
const WORKERS: u32 = 3;
/// Nothing happens by chance.
const PATIENT: Limits = Limits {
    refusals: 1_000_000,
    stall_ns: u64::MAX / 2,
    starve_ns: u64::MAX / 2,
    decision_ns: u64::MAX / 2,
    slow: 1_000_000,
};
const LONG: Duration = Duration::from_secs(60);

fn faulty(options: &str) -> PolicyLibrary {
    PolicyLibrary::open(verified("fixture-faulty", options)).expect("the library is good")
}

/// A CPU core whose tasks, but the first, stay in Prepare until they are released.
struct Slow {
    inner: CpuCore,
    begun: AtomicU32,
    released: Arc<AtomicBool>,
}

struct SlowTask {
    inner: Box<dyn CoreTask>,
    waits_for: Option<Arc<AtomicBool>>,
}

impl Core for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn devices(&self) -> &[Device] {
        self.inner.devices()
    }

    fn plan(&self, key: &ProvingKey) -> Plan {
        self.inner.plan(key)
    }

    fn task(
        &self,
        device: usize,
        key: Arc<ProvingKey>,
        witness: Arc<Witness>,
        blinding: Blinding,
    ) -> Result<Box<dyn CoreTask>, CoreError> {
        let first = self.begun.fetch_add(1, Ordering::SeqCst) == 0;
        let waits_for = (!first).then(|| self.released.clone());
        Ok(Box::new(SlowTask { inner: self.inner.task(device, key, witness, blinding)?, waits_for }))
    }
}

impl CoreTask for SlowTask {
    fn prepare(&mut self) -> Result<(), CoreError> {
        while self.waits_for.as_ref().is_some_and(|released| !released.load(Ordering::SeqCst)) {
            thread::sleep(Duration::from_millis(1));
        }
        self.inner.prepare()
    }

    fn stage(&mut self) -> Result<(), CoreError> {
        self.inner.stage()
    }

    fn compute(&mut self) -> Result<(), CoreError> {
        self.inner.compute()
    }

    fn finish(self: Box<Self>) -> Result<Proof<Bls12>, CoreError> {
        self.inner.finish()
    }
}

/// Proves a job under a policy, checks every proof, and returns how the policy was quarantined. With `held`, tasks after
/// the first are prepared only when it was.
fn quarantine(policy: PolicyLibrary, limits: Limits, dumps: &Path, held: bool) -> QuarantineReport {
    let (circuit, witness) = fixtures::circuit("multiplier");
    let srs = setup::generate(&circuit, OsRng);
    let key = Arc::new(ProvingKey { circuit, srs });
    let released = Arc::new(AtomicBool::new(!held));
    let inner = CpuCore::new(1 << 30, Some(1)).expect("a thread");
    let core = Slow { inner, begun: AtomicU32::new(0), released: released.clone() };
    let builder = Engine::builder(Arc::new(core)).policy(policy).workers_per_device(WORKERS).limits(limits);
    let engine = builder.dumps(dumps).start().expect("starts");
    let mut job = Job::new(key.clone());
    (0..PARTITIONS).for_each(|_| job.push_witness(witness.clone()));
    let handle = engine.submit(job).expect("taken");
    while held && engine.devices()[0].quarantine.is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    released.store(true, Ordering::SeqCst);
    let outcomes = handle.wait();
    assert_eq!(outcomes.len(), PARTITIONS);
    for outcome in &outcomes {
        let proved = outcome.result.as_ref().expect("proved");
        assert!(proof::verify(&key.srs.vk, &proved.proof, &proved.public_inputs).expect("well formed"));
    }
    assert!(engine.wait_for_dumps(LONG));
    let device = engine.devices().remove(0);
    assert_eq!((device.policy.as_str(), device.counters.failed), ("serialized-fallback", 0));
    let report = device.quarantine.expect("it was quarantined");
    let stats = &engine.policy_stats()[0].policies[0];
    assert_eq!(stats.quarantine.as_ref(), Some(&report));
    report
}

/// The dump of a quarantine that happened as it should, after what every dump has was checked.
#[track_caller]
fn dump(policy: PolicyLibrary, limits: Limits, code: &str, held: bool) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let (name, isolation) = (policy.name().to_owned(), format!("{:?}", policy.isolation()));
    let report = quarantine(policy, limits, folder.path(), held);
    assert_eq!((report.code.as_str(), report.reason.code(), &report.policy), (code, code, &name));
    assert!(
        report.sentence.contains(&report.reason.to_string())
            && report.sentence.contains(report.reason.advice())
    );
    let file = report.dump.as_ref().expect("it was written");
    assert_eq!(file.parent(), Some(folder.path()));
    assert_eq!(fs::metadata(file).expect("it is there").permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 1, "nothing else is left");
    let dump: Value = serde_json::from_slice(&fs::read(file).expect("it can be read")).expect("it is JSON");
    assert_eq!(dump["quarantine"]["code"], code);
    assert_eq!(dump["quarantine"]["sentence"], report.sentence);
    assert_eq!(dump["quarantine"]["reason"], serde_json::to_value(report.reason).expect("it can be written"));
    assert_eq!((&dump["policy"]["policy"], &dump["policy"]["isolation"]), (&name.into(), &isolation.into()));
    assert_eq!(dump["policy"]["sha256"].as_str().map(str::len), Some(64));
    assert_eq!(dump["limits"], serde_json::to_value(limits).expect("it can be written"));
    assert_eq!(dump["engine"]["process_id"], std::process::id());
    assert_eq!((&dump["device"]["core"], &dump["device"]["workers"]), (&"slow".into(), &WORKERS.into()));
    // The device is that of the quarantine, not what the drain made of it; each task is there once.
    let snapshot = &dump["snapshot"];
    assert_eq!(snapshot["phase"], "serving");
    let tasks = ["waiting", "running"].map(|what| snapshot[what].as_array().expect("a list"));
    let tasks: Vec<u64> =
        tasks.into_iter().flatten().map(|task| task["task"].as_u64().expect("a number")).collect();
    assert_eq!(tasks.iter().collect::<BTreeSet<_>>().len(), tasks.len());
    assert!(!tasks.is_empty() && tasks.len() <= WORKERS as usize);
    let events = dump["events"].as_array().expect("a list");
    assert!(!events.is_empty() && events.len() <= 256);
    assert!(events.is_sorted_by_key(|event| event["at_ns"].as_u64()));
    assert!(!events.last().expect("the last one")["out"]["quarantined"].is_null(), "{:?}", events.last());
    for task in tasks {
        let arrived = events.iter().any(|event| event["in"]["arrived"]["task"] == task);
        assert!(arrived || events.len() == 256, "task {task} came");
    }
    dump
}

/// The policy's own counters, asked at the last moment.
fn observed(dump: &Value) -> u64 {
    assert!(dump["counters_error"].is_null());
    dump["policy"]["counters"]["observed"].as_u64().expect("it counts")
}

#[test]
fn refusals() {
    let dump = dump(faulty("(verdict: \"stingy\")"), Limits { refusals: 4, ..PATIENT }, "refusals", false);
    assert!(dump["policy"]["refusals"]["too_few_bytes"].as_u64() >= Some(4));
    assert!(
        dump["snapshot"]["waiting"].as_array().expect("a list").iter().any(|task| {
            task["verdict"]["refused"]["refusal"] == "too_few_bytes" && task["gate"] == "Stage"
        })
    );
    assert!(observed(&dump) >= 4, "it was told of each");
}

#[test]
fn stalled() {
    let limits = Limits { stall_ns: 50_000_000, ..PATIENT };
    let dump = dump(faulty("(verdict: \"never\")"), limits, "stalled", false);
    assert!(dump["snapshot"]["running"].as_array().is_some_and(Vec::is_empty));
    assert!(dump["policy"]["verdicts"]["wait"].as_u64() >= Some(1));
    assert_eq!(dump["snapshot"]["reserved_bytes"], 0);
}

#[test]
fn held_back() {
    let limits = Limits { stall_ns: 50_000_000, ..PATIENT };
    let dump = dump(faulty("(verdict: \"hold\")"), limits, "held_back", true);
    let held = &dump["snapshot"]["waiting"][0];
    assert_eq!(
        (&held["gate"], &held["locks_free"], &held["bytes_free"]),
        (&"Stage".into(), &true.into(), &true.into())
    );
    assert!(held["held_back_since_ns"].is_u64());
    assert!(
        dump["snapshot"]["running"].as_array().is_some_and(|running| !running.is_empty()),
        "others were busy"
    );
}

#[test]
fn starved() {
    let dump = dump(faulty("(verdict: \"starve\")"), Limits { starve_ns: 1, ..PATIENT }, "starved", false);
    let starved =
        dump["snapshot"]["waiting"].as_array().expect("a list").iter().find(|task| task["passed_over"] == 3);
    let task = &starved.expect("it waits")["task"];
    assert_eq!(&dump["quarantine"]["reason"]["starved"]["task"], task);
    let later =
        |event: &&Value| event["out"]["run"]["stage"] == "Prepare" && event["out"]["run"]["task"] != *task;
    assert!(dump["events"].as_array().expect("a list").iter().filter(later).count() >= 1);
}

#[test]
fn slow() {
    let limits = Limits { decision_ns: 1_000_000, slow: 2, ..PATIENT };
    let dump = dump(faulty("(sleep_ms: 5)"), limits, "slow", false);
    assert_eq!(dump["policy"]["slow"], 2);
    assert!(dump["policy"]["decisions"]["max_ns"].as_u64() >= Some(5_000_000));
    assert!(dump["events"].as_array().expect("a list").iter().any(|event| !event["out"]["slow"].is_null()));
}

#[test]
fn ended() {
    let host = ProcessSettings::new(env!("CARGO_BIN_EXE_interlock-test-policy-host"));
    let policy = verified("fixture-hostile", "(deed: \"segfault\", after: 5)");
    let policy = PolicyLibrary::isolate(policy, host.decision(LONG)).expect("it can be copied");
    let dump = dump(policy, PATIENT, "ended", false);
    assert_eq!(dump["quarantine"]["reason"]["ended"]["signal"]["signal"], 11);
    assert_eq!(dump["policy"]["decisions"]["count"], 6);
    assert!(
        dump["counters_error"].as_str().is_some_and(|error| error.contains("SIGSEGV")),
        "it cannot be asked"
    );
}

#[test]
fn a_dump_that_cannot_be_written_costs_nothing_but_the_dump() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "no folder").expect("written");
    let limits = Limits { stall_ns: 50_000_000, ..PATIENT };
    let report = quarantine(faulty("(verdict: \"never\")"), limits, &file.join("below"), false);
    assert!(matches!(report.reason, Quarantine::Stalled { .. }));
    assert_eq!(report.dump, None);
    assert!(report.dump_error.is_some_and(|error| error.contains("below")));
}
