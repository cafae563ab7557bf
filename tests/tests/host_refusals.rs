//! Each way in which a library is refused, and that its code has not run by then.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use abi_stable::library::AbiHeader;
use interlock_engine::host::{
    Config, ElfError, EvidenceError, FileError, LoadError, LoadFault, ManifestError, OptionsText,
    PolicyLibrary, Sha256, Verified, inspect,
};
use interlock_engine::interlock::LockTableError;
use interlock_tests::libraries::{changed, library, patch};

fn verified(file: &Path) -> Result<Verified, LoadError> {
    Verified::file(file, None, None, &OptionsText::default())
}

fn refused(file: &Path) -> LoadFault {
    let error = verified(file).err().expect("the file must be refused");
    assert_eq!(error.file, file);
    assert!(error.to_string().contains(&file.display().to_string()), "{error}");
    error.fault
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder can be made")
}

#[test]
fn a_whole_library_passes() {
    for (policy, name) in [("two-lock", "two-lock"), ("fixture-faulty", "faulty")] {
        assert_eq!(verified(&library(policy)).expect("it is whole").manifest().name, name);
    }
}

#[test]
fn a_missing_file() {
    assert!(matches!(refused(Path::new("/no/such/lib.so")), LoadFault::File(FileError::Unreadable(_))));
}

#[test]
fn a_folder_or_a_pipe() {
    let folder = folder();
    assert!(matches!(refused(folder.path()), LoadFault::File(FileError::NotRegular)));
    let pipe = folder.path().join("pipe.so");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
    assert!(made.success());
    assert!(matches!(refused(&pipe), LoadFault::File(FileError::NotRegular)));
}

#[test]
fn a_file_that_others_may_write() {
    let folder = folder();
    let file = changed("two-lock", folder.path(), |_| ());
    for mode in [0o757, 0o777, 0o666, 0o602] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("the copy is ours");
        let fault = refused(&file);
        assert!(
            matches!(fault, LoadFault::File(FileError::WritableByOthers { mode: found }) if found == mode)
        );
        assert!(inspect(&file, &Config::default()).expect("it can be looked at").distrust.is_some());
    }
}

#[test]
fn a_file_that_a_group_may_write() {
    let folder = folder();
    let file = changed("two-lock", folder.path(), |_| ());
    // A user's private group is no danger, so use one that is not: that of root, as far as we may.
    if std::os::unix::fs::chown(&file, Some(0), Some(0)).is_err() {
        eprintln!("left out: only root can give a file to another group");
        return;
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o775)).expect("the copy is ours");
    assert!(matches!(refused(&file), LoadFault::File(FileError::WritableByOthers { mode: 0o775 })));
}

#[test]
fn a_file_of_another_user() {
    let folder = folder();
    let file = changed("two-lock", folder.path(), |_| ());
    if std::os::unix::fs::chown(&file, Some(4242), None).is_err() {
        eprintln!("left out: only root can give a file away");
        return;
    }
    let fault = refused(&file);
    assert!(matches!(fault, LoadFault::File(FileError::ForeignOwner { owner: 4242, .. })), "{fault}");
}

#[test]
fn a_folder_that_everybody_may_write() {
    let folder = folder();
    let file = changed("two-lock", folder.path(), |_| ());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("the folder is ours");
    assert!(matches!(refused(&file), LoadFault::File(FileError::FolderWritableByOthers { mode: 0o777, .. })));
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).expect("the folder is ours");
    assert!(verified(&file).is_ok());
}

#[test]
fn a_link_is_followed_to_the_file_that_is_checked() {
    let folder = folder();
    let file = changed("two-lock", folder.path(), |_| ());
    let link = folder.path().join("link.so");
    std::os::unix::fs::symlink(&file, &link).expect("a link can be made");
    assert!(verified(&link).is_ok());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o777)).expect("the copy is ours");
    assert!(matches!(refused(&link), LoadFault::File(FileError::WritableByOthers { .. })));
}

#[test]
fn a_file_that_is_no_elf() {
    let folder = folder();
    for content in [&b""[..], b"\x7fEL", b"#!/bin/sh\n", b"(policy: 1)"] {
        let file = changed("two-lock", folder.path(), |bytes| *bytes = content.to_vec());
        assert!(matches!(refused(&file), LoadFault::Elf(ElfError::NotElf)), "{content:?}");
    }
}

#[test]
fn a_truncated_library_at_every_kind_of_length() {
    let whole = fs::read(library("two-lock")).expect("the library can be read").len();
    let folder = folder();
    let lengths = (4..200).chain((0..64).map(|part| whole * part / 64)).chain(whole - 70..whole);
    for length in lengths.filter(|length| *length >= 4) {
        let file = changed("two-lock", folder.path(), |bytes| bytes.truncate(length));
        let fault = refused(&file);
        assert!(matches!(fault, LoadFault::Elf(ElfError::Truncated { .. })), "{length} bytes: {fault}");
    }
}

#[test]
fn a_damaged_library_is_never_more_than_refused() {
    let folder = folder();
    let whole = fs::read(library("two-lock")).expect("the library can be read");
    let tables = u64::from_le_bytes(whole[40..48].try_into().expect("eight bytes")) as usize;
    // Headers, segments, dynamic table and section headers: what the checks read.
    let places = (0..1_024).chain(tables..whole.len());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for at in places.step_by(7) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let file = changed("two-lock", folder.path(), |bytes| bytes[at] ^= (random >> 56) as u8 | 1);
        match verified(&file) {
            Ok(verified) => assert_eq!(verified.manifest().name, "two-lock", "byte {at}"),
            Err(error) => {
                assert!(
                    matches!(error.fault, LoadFault::Elf(_) | LoadFault::Manifest(_)),
                    "byte {at}: {error}"
                );
            }
        }
    }
}

#[test]
fn a_library_of_another_machine() {
    let folder = folder();
    // `e_machine` stands at offset 18; 183 is AArch64, 62 is x86-64.
    let other = if cfg!(target_arch = "x86_64") { 183 } else { 62 };
    let file = changed("two-lock", folder.path(), |bytes| bytes[18] = other);
    let fault = refused(&file);
    assert!(
        matches!(fault, LoadFault::Elf(ElfError::WrongMachine { machine, .. }) if machine == u16::from(other)),
        "{fault}"
    );
}

#[test]
fn another_class_and_another_type() {
    let folder = folder();
    let file = changed("two-lock", folder.path(), |bytes| bytes[4] = 1);
    assert!(matches!(refused(&file), LoadFault::Elf(ElfError::NotClass64)));
    for kind in [1, 2, 4] {
        let file = changed("two-lock", folder.path(), |bytes| bytes[16] = kind);
        let fault = refused(&file);
        assert!(
            matches!(fault, LoadFault::Elf(ElfError::NotSharedObject { kind: found }) if found == u16::from(kind))
        );
    }
}

#[test]
fn a_program_is_no_library() {
    let program = std::env::current_exe().expect("the test runs from a file");
    let folder = folder();
    let copy = changed("two-lock", folder.path(), |bytes| {
        *bytes = fs::read(&program).expect("a program can read itself");
    });
    assert!(matches!(
        refused(&copy),
        LoadFault::Elf(ElfError::Executable | ElfError::NotSharedObject { .. })
    ));
}

#[test]
fn a_library_without_a_manifest() {
    let folder = folder();
    let file = changed("two-lock", folder.path(), |bytes| {
        patch(bytes, b".interlock.manifest\0", b".somethings.manifes\0");
    });
    assert!(matches!(refused(&file), LoadFault::Elf(ElfError::NoSection { .. })));
}

#[test]
fn a_malformed_manifest() {
    let folder = folder();
    let file = changed("two-lock", folder.path(), |bytes| {
        patch(bytes, b"{\"abi_major\"", b"[\"abi_major\"");
    });
    assert!(matches!(refused(&file), LoadFault::Manifest(ManifestError::Malformed(_))));
}

#[test]
fn a_foreign_abi() {
    let folder = folder();
    for (from, to, major, minor) in [
        (&b"\"abi_major\":1"[..], &b"\"abi_major\":2"[..], 2, 0),
        (b"\"abi_major\":1", b"\"abi_major\":0", 0, 0),
        (b"\"abi_minor\":0", b"\"abi_minor\":9", 1, 9),
    ] {
        let file = changed("two-lock", folder.path(), |bytes| patch(bytes, from, to));
        let fault = refused(&file);
        let expected = ManifestError::ForeignAbi { major, minor };
        assert!(matches!(&fault, LoadFault::Manifest(found) if *found == expected), "{fault}");
        assert!(inspect(&file, &Config::default()).is_err());
    }
}

#[test]
fn an_unknown_capability() {
    let folder = folder();
    let file = changed("vram-token", folder.path(), |bytes| {
        patch(bytes, b"\"capabilities\":12", b"\"capabilities\":28");
    });
    let fault = refused(&file);
    assert!(matches!(fault, LoadFault::Manifest(ManifestError::UnknownCapabilities { bits: 16 })), "{fault}");
}

#[test]
fn a_wrong_hash() {
    let file = library("two-lock");
    let right = inspect(&file, &Config::default()).expect("the library is good").sha256;
    let by_the_system =
        std::process::Command::new("sha256sum").arg(&file).output().expect("sha256sum is there");
    assert!(by_the_system.stdout.starts_with(right.to_string().as_bytes()));
    assert!(Verified::file(&file, None, Some(right), &OptionsText::default()).is_ok());
    let wrong = Sha256::of(b"another file");
    let error =
        Verified::file(&file, None, Some(wrong), &OptionsText::default()).err().expect("it is pinned");
    assert!(
        matches!(error.fault, LoadFault::Evidence(EvidenceError::WrongHash { pinned, found }) if (pinned, found) == (wrong, right))
    );
}

#[test]
fn crossing_spans() {
    let folder = folder();
    let file = changed("two-lock", folder.path(), |bytes| {
        patch(bytes, b"\"permits\":1,\"first\":1,\"last\":1", b"\"permits\":1,\"first\":1,\"last\":2");
        patch(bytes, b"\"permits\":1,\"first\":2,\"last\":2", b"\"permits\":1,\"first\":2,\"last\":3");
    });
    let fault = refused(&file);
    assert!(matches!(fault, LoadFault::Locks(LockTableError::CrossingSpans { .. })), "{fault}");
}

#[test]
fn another_policy_than_the_one_that_was_named() {
    let error = Verified::file(&library("two-lock"), Some("single-lock"), None, &OptionsText::default());
    let fault = error.err().expect("the name is wrong").fault;
    assert!(
        matches!(fault, LoadFault::WrongName { wanted, found } if wanted == "single-lock" && found == "two-lock")
    );
}

#[test]
fn options_that_the_policy_does_not_have() {
    for options in ["(wait: 1)", "(wait_ms: -1)", "(wait_ms: \"1\")", "(wait_ms: 1, wait_ms: 2)", "wait_ms"] {
        let error = Verified::file(&library("two-lock"), None, None, &OptionsText::new(options));
        let fault = error.err().expect(options).fault;
        assert!(matches!(fault, LoadFault::Options(_)), "{options}: {fault}");
    }
    let none = Verified::file(&library("vram-token"), None, None, &OptionsText::new("(compute_permits: 0)"));
    let fault = none.err().expect("nobody could ever compute").fault;
    assert!(matches!(fault, LoadFault::Locks(LockTableError::NoPermits { .. })), "{fault}");
}

/// Opens what passed the checks; the code of these libraries does run.
fn fault_on_opening(file: &Path) -> LoadFault {
    let verified = verified(file).unwrap_or_else(|error| panic!("nothing is wrong with the file: {error}"));
    PolicyLibrary::open(verified).expect_err("the library must be refused").fault
}

#[test]
fn another_version_of_abi_stable() {
    let folder = folder();
    let AbiHeader { magic_string, abi_major, abi_minor, .. } = AbiHeader::VALUE;
    let header = |minor: u32| [&magic_string[..], &abi_major.to_ne_bytes(), &minor.to_ne_bytes()].concat();
    let file = changed("two-lock", folder.path(), |bytes| {
        patch(bytes, &header(abi_minor), &header(abi_minor + 1));
    });
    assert!(matches!(fault_on_opening(&file), LoadFault::Incompatible(_)));
}

#[test]
fn a_root_module_of_another_layout() {
    let fault = fault_on_opening(&library("fixture-foreign-layout"));
    assert!(matches!(fault, LoadFault::Incompatible(_)), "{fault}");
}

#[test]
fn code_that_says_something_else_than_the_file() {
    let fault = fault_on_opening(&library("fixture-two-faced"));
    assert!(matches!(fault, LoadFault::ManifestDiffers), "{fault}");
}

#[test]
fn an_entry_that_is_not_there() {
    let folder = folder();
    let file = changed("single-lock", folder.path(), |bytes| {
        patch(
            bytes,
            b"\"entry\":\"interlock_policy__interlock_single_lock\"",
            b"\"entry\":\"interlock_policy__interlock_single_lick\"",
        );
    });
    let fault = fault_on_opening(&file);
    assert!(matches!(fault, LoadFault::NoEntry { .. }), "{fault}");
}

#[test]
fn a_library_that_the_linker_cannot_finish() {
    let folder = folder();
    // A library it needs is not there.
    let file =
        changed("serialized-fallback", folder.path(), |bytes| patch(bytes, b"libc.so.6\0", b"libno.so.\0"));
    let fault = fault_on_opening(&file);
    assert!(matches!(fault, LoadFault::Linker(_)), "{fault}");
}
