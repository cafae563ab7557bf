//! Where dumps go, under which names, and how many stay.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::super::policy_stats::{PolicyIdentity, Tally};
use super::*;
use crate::host::PolicyLibrary;
use crate::interlock::Quarantine;

fn dump(time: &str) -> Dump {
    let policy = Tally::new(PolicyIdentity::of(&PolicyLibrary::fallback())).stats(None);
    Dump {
        schema: SCHEMA,
        time: time.to_owned(),
        engine: EngineFacts { version: "0", process_id: 7 },
        device: DeviceFacts { index: 1, core: "cpu", name: "cpu".to_owned(), capacity_bytes: 9, workers: 2 },
        limits: Limits::DEFAULT,
        quarantine: QuarantineReport::new("two-lock", Quarantine::Stalled { idle_ns: 5 }, 6),
        policy,
        counters_error: None,
        snapshot: None,
        events: Vec::new(),
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it is there");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

#[test]
fn a_dump_is_for_this_user_only_and_named_after_what_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_into(folder.path(), &dump("2026-11-30T02:26:50.123Z")).expect("written");
    assert_eq!(names(folder.path()), ["interlock-dump-20261130T022650.123Z-7-1-two-lock-stalled.json"]);
    let mode = fs::metadata(&file).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(&file).expect("it can be read")).expect("it is JSON");
    assert_eq!((&json["quarantine"]["code"], &json["device"]["index"]), (&"stalled".into(), &1.into()));
}

#[test]
fn dumps_of_one_name_at_once_are_files_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let dumpers: Vec<_> = (0..2).map(|_| Dumper::new(Some(folder.path().join("made")))).collect();
    let outcomes: Vec<_> =
        (0..5).flat_map(|_| &dumpers).map(|dumper| dumper.write(dump("2026-11-30T02:26:50.123Z"))).collect();
    assert!(dumpers.iter().all(|dumper| dumper.wait(Duration::from_secs(60))));
    let mut files: Vec<PathBuf> = outcomes
        .iter()
        .map(|outcome| outcome.get().expect("it is known").clone().expect("it was written"))
        .collect();
    files.sort();
    files.dedup();
    assert_eq!(files.len(), 10);
    assert_eq!(names(&folder.path().join("made")).len(), 10, "and nothing half written");
    assert!(files.iter().all(|file| file.exists()));
}

#[test]
fn the_latest_stay_and_what_is_no_dump_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a-file.json"), "mine").expect("written");
    for second in 0..40 {
        write_into(folder.path(), &dump(&format!("2026-11-30T02:26:{second:02}.000Z"))).expect("written");
    }
    // A clock that was set back: the newest is kept although its name is the first.
    let early = write_into(folder.path(), &dump("2020-01-01T00:00:00.000Z")).expect("written");
    let names = names(folder.path());
    assert_eq!(names.len(), KEPT + 1);
    assert!(early.exists() && names.contains(&"a-file.json".to_owned()));
    assert!(
        names.iter().any(|name| name.contains("022639")) && !names.iter().any(|name| name.contains("022608"))
    );
}

#[test]
fn a_folder_that_cannot_be_written_is_left_for_the_next_and_named_when_there_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, good) = (folder.path().join("file"), folder.path().join("good"));
    fs::write(&file, "no folder").expect("written");
    let dump = dump("2026-11-30T02:26:50.123Z");
    let bad = Folder::Given(file.join("below"));
    let written =
        write_to_first(&[bad.clone(), Folder::Given(good.clone())], &dump).expect("the second is good");
    assert_eq!(written.parent(), Some(good.as_path()));
    let reason = write_to_first(&[bad], &dump).expect_err("it cannot be made");
    assert!(reason.contains("below"), "{reason}");
}

#[test]
fn a_shared_folder_that_somebody_else_may_have_laid_out_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let (elsewhere, link) = (folder.path().join("elsewhere"), folder.path().join("link"));
    fs::create_dir(&elsewhere).expect("made");
    symlink(&elsewhere, &link).expect("made");
    assert!(ready(&Folder::Shared(link)).is_err(), "a link leads anywhere");
    let open = folder.path().join("open");
    fs::create_dir(&open).expect("made");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("it is ours");
    assert!(ready(&Folder::Shared(open)).is_err(), "others may write there");
    let made = folder.path().join("made");
    ready(&Folder::Shared(made.clone())).expect("it can be made");
    assert_eq!(fs::metadata(made).expect("it is there").permissions().mode() & 0o777, 0o700);
}
