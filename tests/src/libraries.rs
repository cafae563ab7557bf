//! Where the libraries are that cargo built beside the tests, and copies of them to break.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use interlock_engine::host::{OptionsText, Verified};

/// The library of a policy package, named as the policy is: `two-lock`, or `fixture-faulty`.
///
/// Cargo builds the libraries with the tests, as packages the tests depend on: into the folder of the test's
/// own executable (`target/PROFILE/deps`), or the one above it.
///
/// # Panics
/// When the library is in neither folder.
pub fn library(policy: &str) -> PathBuf {
    let file = format!("libinterlock_{}.so", policy.replace('-', "_"));
    let executable = std::env::current_exe().expect("a test runs from a file");
    let folders: Vec<&Path> = executable.ancestors().skip(1).take(2).collect();
    let found = folders.iter().map(|folder| folder.join(&file)).find(|path| path.exists());
    found.unwrap_or_else(|| {
        panic!("{file} is not in {folders:?}; build it with `cargo build --release -p interlock-{policy}`")
    })
}

/// The CUDA core's library: where `INTERLOCK_CUDA_CORE` says, else where cargo puts it. Nothing, with a line that says why, when it has
/// not been built.
pub fn cuda_core() -> Option<PathBuf> {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/libinterlock_cuda.so");
    let file = std::env::var_os("INTERLOCK_CUDA_CORE").map_or_else(built, PathBuf::from);
    if !file.exists() {
        println!("skipped: {} has not been built", file.display());
        return None;
    }
    Some(file)
}

/// A policy that passed the checks, to be opened or isolated.
///
/// # Panics
/// When it does not pass.
pub fn verified(policy: &str, options: &str) -> Verified {
    Verified::file(&library(policy), None, None, &OptionsText::new(options)).expect("the library is good")
}

/// A copy of a library in `folder`, passed through `change`, writable by its owner only.
///
/// # Panics
/// When the copy cannot be made.
pub fn changed(policy: &str, folder: &Path, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let original = library(policy);
    let mut bytes = fs::read(&original).expect("the library can be read");
    change(&mut bytes);
    let copy = folder.join(original.file_name().expect("a library has a name"));
    fs::write(&copy, bytes).expect("the folder can be written");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("the copy is ours");
    copy
}

/// Replaces the one place where `from` stands by `to`, of the same length.
///
/// # Panics
/// When there is no such place, or more than one, or the lengths differ.
pub fn patch(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len(), "a patch keeps every offset");
    let places: Vec<usize> =
        (0..bytes.len().saturating_sub(from.len())).filter(|at| bytes[*at..].starts_with(from)).collect();
    let [at] = places[..] else {
        panic!("{:?} stands at {places:?}, not at one place", String::from_utf8_lossy(from));
    };
    bytes[at..at + to.len()].copy_from_slice(to);
}
