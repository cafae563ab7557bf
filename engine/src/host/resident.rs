//! Libraries in the process: loaded once each, never unloaded.
//!
//! # What is loaded is what was checked
//!
//! A path can name another file a moment later, and an open file can be written to. The checked bytes are
//! therefore copied into a memory file that is sealed against every change, and that one is loaded. It keeps the
//! library's name, so `/proc/PID/maps` shows `/memfd:libNAME.so`, and it stays open under the path that the
//! dynamic linker records, `/proc/PID/fd/N`: a debugger finds the symbols there. Staying open also keeps `N` from
//! being given to another library, which the linker would take for this one by its path. A library that looks for
//! neighbours through `$ORIGIN` does not find them; a policy has none.
//!
//! # Never unloaded
//!
//! Threads, thread-locals and static references of a library may outlive any instance. So a library
//! stays, and the same bytes are not loaded twice: switching back and forth between two policies holds two
//! libraries, not one more at each switch. [`resident_libraries`] says how many there are.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{LoadFault, Sha256, Verified};

/// A library that the process holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidentLibrary {
    /// The file that it was first loaded from.
    pub file: String,
    /// Its SHA-256.
    pub sha256: Sha256,
}

/// One library of the process.
pub(super) struct Resident {
    file: PathBuf,
    sha256: Sha256,
    pub(super) library: Library,
    /// See the module's text for why it stays open.
    _copy: File,
}

static RESIDENT: Mutex<Vec<Arc<Resident>>> = Mutex::new(Vec::new());

/// How many policy libraries the process holds. Libraries are never unloaded.
pub fn resident_libraries() -> usize {
    RESIDENT.lock().len()
}

/// The policy libraries that the process holds, in the order in which they were loaded.
pub fn resident_list() -> Vec<ResidentLibrary> {
    let told = |resident: &Arc<Resident>| ResidentLibrary {
        file: resident.file.display().to_string(),
        sha256: resident.sha256,
    };
    RESIDENT.lock().iter().map(told).collect()
}

/// Loads a library, or finds it loaded. Its constructors run here.
pub(super) fn load(verified: &Verified) -> Result<Arc<Resident>, LoadFault> {
    let mut residents = RESIDENT.lock();
    if let Some(resident) = residents.iter().find(|resident| resident.sha256 == verified.sha256) {
        return Ok(Arc::clone(resident));
    }
    let copy = sealed_copy(&verified.file, &verified.bytes).map_err(LoadFault::NoCopy)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), copy.as_raw_fd());
    // SAFETY: runs the library's constructors. That is what loading a policy means; the file was checked
    // to be what the operator named, and policies in the process are trusted code.
    let library = unsafe { link(path.as_ref()) }?;
    let resident =
        Arc::new(Resident { file: verified.file.clone(), sha256: verified.sha256, library, _copy: copy });
    residents.push(Arc::clone(&resident));
    Ok(resident)
}

/// Has the dynamic linker load a library.
///
/// # Safety
/// Runs the library's constructors: the caller trusts it, or what it runs in.
pub(super) unsafe fn link(path: &Path) -> Result<Library, LoadFault> {
    // SAFETY: the caller's.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
        .map_err(|error| LoadFault::Linker(error.to_string()))
}

/// Puts checked bytes where the dynamic linker can load them from and nobody can change them. The path is good
/// for as long as the process lives.
pub(super) fn image(file: &Path, bytes: &[u8]) -> std::io::Result<PathBuf> {
    let copy = sealed_copy(file, bytes)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), copy.as_raw_fd());
    // See the module's text for why it stays open.
    std::mem::forget(copy);
    Ok(path.into())
}

/// A memory file with these bytes that nobody can change any more.
pub(super) fn sealed_copy(file: &Path, bytes: &[u8]) -> std::io::Result<File> {
    // The kernel takes at most 249 bytes for a name.
    let name: String = file.file_name().unwrap_or_default().to_string_lossy().chars().take(60).collect();
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels from 6.3 on may insist on being told that the file is not to be executed as a program;
    // older ones do not know the flag.
    let memory = match memfd_create(name.as_str(), flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(name.as_str(), flags)?,
        made => made?,
    };
    let mut copy = File::from(memory);
    copy.write_all(bytes)?;
    fcntl_add_seals(&copy, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn a_sealed_copy_cannot_be_changed() {
        let mut copy = sealed_copy(Path::new("/lib/é.so"), b"bytes").expect("memory files can be made");
        assert!(copy.write_all(b"x").is_err());
        assert!(copy.set_len(1).is_err());
        assert!(copy.set_len(100).is_err());
        let mut read = Vec::new();
        copy.rewind().expect("it is a file");
        copy.read_to_end(&mut read).expect("it is a file");
        assert_eq!(read, b"bytes");
    }
}
