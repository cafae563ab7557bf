//! What a policy's process gives up before it loads a library.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, path_beneath_rules,
};
use rustix::fs::{SealFlags, fcntl_get_seals};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::process::Handed;

/// Takes the descriptors that the engine handed over, puts `/dev/null` in their place, and closes all others.
///
/// # Errors
/// The standard descriptors are not what an engine hands over, or the system refuses.
pub(super) fn take_descriptors() -> io::Result<Handed> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let handed = Handed {
        channel: take_sealed(stdin.as_fd(), SealFlags::SHRINK)?,
        library: take_sealed(stdout.as_fd(), SealFlags::WRITE)?,
        brief: take_sealed(stderr.as_fd(), SealFlags::WRITE)?,
    };
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    drop(null);
    close_all_but([&handed.channel, &handed.library, &handed.brief].map(AsRawFd::as_raw_fd))?;
    Ok(handed)
}

fn take_sealed(descriptor: BorrowedFd<'_>, seal: SealFlags) -> io::Result<File> {
    let not_handed = || io::Error::new(io::ErrorKind::InvalidInput, "not started by an engine");
    let seals = fcntl_get_seals(descriptor).map_err(|_| not_handed())?;
    if !seals.contains(seal) {
        return Err(not_handed());
    }
    Ok(File::from(fcntl_dupfd_cloexec(descriptor, 3)?))
}

/// Closes every descriptor above the standard ones that is not in `keep`.
fn close_all_but(mut keep: [RawFd; 3]) -> io::Result<()> {
    keep.sort_unstable();
    let mut from: u32 = 3;
    for kept in keep.map(|kept| kept as u32) {
        if from < kept {
            close_range(from, kept - 1)?;
        }
        from = kept + 1;
    }
    close_range(from, u32::MAX)
}

fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: the descriptors of this range are nobody's: the program has just begun and opened none of its own
    // but those that the caller keeps.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ends with the engine, and not with what ends the engine gracefully.
///
/// # Errors
/// The engine is gone already, or the system refuses.
pub(super) fn die_with(engine: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().is_none_or(|parent| parent.as_raw_pid() as u32 != engine) {
        return Err(io::Error::other("the engine that started this process is gone"));
    }
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: ignoring a signal runs no handler.
        if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Gives up what a privileged engine's process inherits. Without it the engine's memory cannot be read through `/proc` either: that
/// takes at least the engine's capabilities.
///
/// # Errors
/// The system refuses, which it never should.
pub(super) fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

/// Limits what the process may take: `memory_bytes` beyond what it has now, and nothing that it does not need.
///
/// # Errors
/// The system refuses a lower limit.
pub(super) fn limit(memory_bytes: u64) -> io::Result<()> {
    let limits = [
        (Resource::As, address_space().saturating_add(memory_bytes)),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Memlock, 0),
        (Resource::Msgqueue, 0),
        // Counted over all processes of the user, and not for root: the filter is what holds.
        (Resource::Nproc, 0),
        // The dynamic linker opens one file at a time.
        (Resource::Nofile, 32),
        (Resource::Stack, 8 << 20),
    ];
    for (resource, wanted) in limits {
        lower(resource, wanted)?;
    }
    Ok(())
}

/// From here on nothing can be opened.
///
/// # Errors
/// The system refuses a lower limit.
pub(super) fn open_no_more() -> io::Result<()> {
    lower(Resource::Nofile, 0)
}

fn lower(resource: Resource, wanted: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.map_or(wanted, |maximum| maximum.min(wanted));
    Ok(setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?)
}

/// Bytes of address space the process has now.
fn address_space() -> u64 {
    // SAFETY: asks for a number.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let pages = fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    pages.unwrap_or(0) * page_bytes
}

/// Leaves of the file system the folders of system libraries, to read; of the network nothing. Returns what this
/// system does not give of that, in words.
pub(super) fn hide_files() -> Option<String> {
    match restrict(&library_folders()) {
        Ok(RulesetStatus::FullyEnforced) => None,
        Ok(RulesetStatus::PartiallyEnforced) => {
            Some("Landlock is older than it should be: some of its rules do not hold".to_owned())
        }
        Ok(RulesetStatus::NotEnforced) => {
            Some("no Landlock: the library's constructors can read files".to_owned())
        }
        Err(error) => Some(format!("no Landlock ({error}): the library's constructors can read files")),
    }
}

fn restrict(readable: &[PathBuf]) -> Result<RulesetStatus, RulesetError> {
    // What the first version with signal scoping knows; the crate asks older kernels for less.
    let abi = ABI::V6;
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(abi)))?;
    Ok(ruleset.restrict_self()?.ruleset)
}

/// Where the dynamic linker finds what a library needs: the usual folders, and those that this program's own libraries
/// came from.
fn library_folders() -> Vec<PathBuf> {
    const USUAL: [&str; 5] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"];
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapped = maps.lines().filter_map(|line| Some(Path::new(&line[line.find('/')?..])));
    let is_library =
        |file: &&Path| file.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
    let mut folders: Vec<PathBuf> =
        mapped.filter(is_library).filter_map(|file| Some(file.parent()?.to_owned())).collect();
    folders.extend(USUAL.map(PathBuf::from));
    folders.sort_unstable();
    folders.dedup();
    // Memory files are listed as if they lay in the root.
    folders.retain(|folder| folder != Path::new("/") && folder.exists());
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_the_c_library_is_among_those_that_can_be_read() {
        let folders = library_folders();
        assert!(folders.iter().all(|folder| folder.is_absolute()), "{folders:?}");
        let maps = fs::read_to_string("/proc/self/maps").expect("there is /proc");
        let libc =
            maps.lines().find(|line| line.contains("libc.so") || line.contains("libc-")).expect("linked");
        let libc = Path::new(&libc[libc.find('/').expect("a path")..]).to_owned();
        assert!(folders.iter().any(|folder| libc.starts_with(folder)), "{folders:?}");
    }

    #[test]
    fn ordinary_descriptors_are_not_taken() {
        let file = tempfile::tempfile().expect("a file");
        assert!(take_sealed(file.as_fd(), SealFlags::WRITE).is_err());
    }

    #[test]
    fn a_process_has_an_address_space() {
        assert!(address_space() > 1 << 20);
    }
}
