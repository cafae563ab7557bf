//! Libraries in the process: several at once, instances of their own, what stays.

use std::fs;

use interlock_engine::host::{
    Config, FALLBACK, OptionsText, Origin, PolicyLibrary, PolicyStatus, Verified, list, resident_libraries,
};
use interlock_engine::interlock::PolicyPort;
use interlock_policy_api::testing::{request, view};
use interlock_policy_api::{
    DeviceView, LockView, Observation, ObservationKind, RequestFlags, Stage, Verdict, VerdictKind,
};
use interlock_tests::libraries::{changed, library, patch};

const POLICIES: [&str; 4] = ["serialized-fallback", "single-lock", "two-lock", "vram-token"];

const SKIPPED: Observation = Observation {
    kind: ObservationKind::SKIPPED,
    stage: Stage::STAGE,
    task: 1,
    now_ns: 0,
    duration_ns: 0,
    bytes: 0,
};

fn open(policy: &str, options: &str) -> PolicyLibrary {
    let verified = Verified::file(&library(policy), None, None, &OptionsText::new(options));
    PolicyLibrary::open(verified.expect("the library is good")).expect("the library is good")
}

#[test]
fn libraries_loaded_at_once_are_distinct() {
    let libraries: Vec<_> = POLICIES.iter().map(|policy| open(policy, "")).collect();
    let locks = [LockView { permits: 1, free: 1 }; 2];
    let mut answers = Vec::new();
    for (library, name) in libraries.iter().zip(POLICIES) {
        assert_eq!((library.name(), library.manifest().name.as_str()), (name, name));
        let mut request = request(Stage::STAGE);
        request.flags = RequestFlags::LOCKS_FREE;
        let mut policy = library.instantiate().expect("the options are good");
        answers.push(policy.decide(&request, &view(&locks)).expect("it does not panic"));
    }
    let kinds: Vec<_> = answers.iter().map(|verdict| verdict.kind).collect();
    assert_eq!(kinds, [VerdictKind::SKIP, VerdictKind::WAIT, VerdictKind::WAIT, VerdictKind::WAIT]);
    assert_eq!(answers[1].deadline_ns, Verdict::NO_DEADLINE);
    assert_eq!(answers[2].deadline_ns, 1_000_000_000);
    let tables: Vec<_> = libraries.iter().map(|library| library.locks().locks().len()).collect();
    assert_eq!(tables, [1, 1, 2, 1]);
}

#[test]
fn instances_of_one_library_are_independent() {
    let library = open("vram-token", "(wait_ms: 5)");
    let again = open("vram-token", "(wait_ms: 7, compute_permits: 3)");
    let [mut first, mut second] = [(); 2].map(|()| library.instantiate().expect("the options are good"));
    let mut other = again.instantiate().expect("the options are good");
    first.observe(&SKIPPED).expect("it does not panic");
    let skipped = |stats: Vec<(String, u64)>| stats.into_iter().find(|(name, _)| name == "skipped");
    assert_eq!(skipped(first.stats().expect("it does not panic")), Some(("skipped".into(), 1)));
    assert_eq!(skipped(second.stats().expect("it does not panic")), Some(("skipped".into(), 0)));
    assert_eq!((library.locks().locks()[0].permits, again.locks().locks()[0].permits), (2, 3));

    drop(first);
    let mut request = request(Stage::STAGE);
    request.flags = RequestFlags::LOCKS_FREE;
    let locks = [LockView { permits: 2, free: 2 }];
    let deadline = |policy: &mut dyn PolicyPort| {
        policy.decide(&request, &view(&locks)).expect("it does not panic").deadline_ns
    };
    assert_eq!((deadline(&mut second), deadline(&mut other)), (5_000_000, 7_000_000));
}

#[test]
fn the_file_may_change_after_it_was_checked() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = changed("single-lock", folder.path(), |_| ());
    let verified = Verified::file(&file, None, None, &OptionsText::default()).expect("the copy is good");
    fs::write(&file, b"something else").expect("the copy is ours");
    let library = PolicyLibrary::open(verified).expect("what was checked is what is loaded");
    assert_eq!(library.instantiate().expect("it is good").library().name(), "single-lock");
    fs::remove_file(&file).expect("the copy is ours");
    assert!(library.instantiate().is_ok());
}

#[test]
fn hooks_that_are_not_declared_are_not_called() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    // All four hooks, then none of them: the policy would panic in each.
    let file = changed("fixture-faulty", folder.path(), |bytes| {
        patch(bytes, b"\"capabilities\":15", b"\"capabilities\":00");
        patch(bytes, b"\"capabilities\":00", b"\"capabilities\": 0");
    });
    for function in ["rank", "observe", "stats", "place"] {
        let options = OptionsText::new(format!("(panic_in: \"{function}\")"));
        let verified = Verified::file(&file, None, None, &options).expect("the copy is good");
        let mut policy = PolicyLibrary::open(verified)
            .and_then(|library| library.instantiate())
            .expect("the copy is good");
        let mut request = request(Stage::STAGE);
        request.priority = 3;
        assert_eq!(policy.rank(&request, &view(&[])), Ok(-3));
        assert_eq!(policy.stats(), Ok(vec![]));
        assert_eq!(policy.observe(&SKIPPED), Ok(()));
        let device = |tasks| DeviceView { capacity_bytes: 8, free_bytes: 8, tasks, computing: 0 };
        assert_eq!(policy.place(&request, &[device(2), device(1)]), Ok(1), "the one with fewer tasks");
    }
}

#[test]
fn the_same_bytes_are_loaded_once() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let original = open("two-lock", "");
    let copy = changed("two-lock", folder.path(), |_| ());
    let count = resident_libraries;
    assert!(count() >= 1);
    let paths = || {
        let maps = fs::read_to_string("/proc/self/maps").expect("Linux shows what is mapped");
        let of_copy = maps.lines().filter(|line| line.contains("memfd:libinterlock_two_lock.so"));
        of_copy.filter(|line| line.contains(" r-xp ")).count()
    };
    let mapped = paths();
    assert!(mapped >= 1, "the library is mapped under its name");
    let verified = Verified::file(&copy, None, None, &OptionsText::default()).expect("the copy is good");
    let again = PolicyLibrary::open(verified).expect("the copy is good");
    assert_eq!(paths(), mapped);
    let (Origin::File { sha256: a, path: x }, Origin::File { sha256: b, path: y }) =
        (original.origin(), again.origin())
    else {
        panic!("both came from files");
    };
    assert_eq!(a, b);
    assert_ne!(x, y);
}

#[test]
fn the_linked_fallback_is_always_there() {
    let config = Config::default();
    let library = PolicyLibrary::configured(&config, FALLBACK).expect("it needs no file");
    assert_eq!((library.name(), library.origin()), (FALLBACK, &Origin::Linked));
    let loaded = open(FALLBACK, "");
    assert_eq!(library.manifest(), loaded.manifest());
    let error = PolicyLibrary::configured(&config, "two-lock").expect_err("it is not configured");
    assert!(error.to_string().contains(FALLBACK), "{error}");
}

#[test]
fn a_policy_can_be_linked_instead_of_loaded() {
    let options = OptionsText::new("(wait_ms: 9)");
    let library =
        PolicyLibrary::linked(interlock_two_lock::interlock_policy(), &options).expect("it is good");
    assert_eq!(library.manifest(), open("two-lock", "").manifest());
    let mut request = request(Stage::STAGE);
    request.flags = RequestFlags::LOCKS_FREE;
    let mut policy = library.instantiate().expect("the options are good");
    let verdict = policy.decide(&request, &view(&[])).expect("it does not panic");
    assert_eq!(verdict.deadline_ns, 9_000_000);
    let bad = OptionsText::new("(wait: 9)");
    assert!(PolicyLibrary::linked(interlock_two_lock::interlock_policy(), &bad).is_err());
}

#[test]
fn a_list_tells_what_could_be_loaded() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    changed("single-lock", folder.path(), |_| ());
    let text =
        r#"(policy: "single-lock", policies: [(name: "single-lock"), (name: "gone", library: "./gone.so")])"#;
    let config = Config::parse(text, &folder.path().join("plugins.ron")).expect("the configuration is good");
    let entries = list(&config);
    let names: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.default)).collect();
    assert_eq!(names, [("single-lock", true), ("gone", false), (FALLBACK, false)]);
    assert!(matches!(&entries[0].status, PolicyStatus::Ready { file: Some(file), .. } if file.exists()));
    assert!(matches!(&entries[1].status, PolicyStatus::Refused { error } if error.contains("not found")));
    assert!(matches!(&entries[2].status, PolicyStatus::Ready { file: None, .. }));
    let json = serde_json::to_value(&entries).expect("entries are data");
    assert_eq!(json[1]["status"]["status"], "refused");
    assert_eq!(json[0]["status"]["manifest"]["locks"][0]["name"], "device");
}
