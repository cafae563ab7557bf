//! Dumps: what led to a quarantine, in a file of its own.
//!
//! A dump is put together under the seat's lock, from what is in memory, and written by a thread of its own, so that a slow
//! disk stops nothing. One that cannot be written is a warning. Files appear whole or not at all, under names that no other
//! engine takes, and only the latest [`KEPT`] in a folder stay.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use serde::Serialize;

use super::journal::Entry;
use super::policy_stats::{PolicyStats, QuarantineReport};
use crate::interlock::{Limits, Snapshot};

/// How many dumps stay in a folder.
pub const KEPT: usize = 32;
/// Dumps of one engine that may be on their way to the disk at once.
const MOST_UNDER_WAY: usize = 16;
/// Names that are tried before it is given up.
const MOST_NAMES: u32 = 100;
/// A half-written file that is older was left by a program that ended.
const STALE: Duration = Duration::from_secs(3_600);
const PREFIX: &str = "interlock-dump-";
const SUFFIX: &str = ".json";

/// Version of the file's shape; grows when a field changes its meaning or goes away.
const SCHEMA: u32 = 1;

/// What is in the file.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Dump {
    pub schema: u32,
    /// When it was put together.
    pub time: String,
    pub engine: EngineFacts,
    pub device: DeviceFacts,
    pub limits: Limits,
    pub quarantine: QuarantineReport,
    /// What the policy did since the engine started; its own counters are among it.
    pub policy: PolicyStats,
    /// Why its own counters are not there.
    pub counters_error: Option<String>,
    /// The device as it was at the quarantine.
    pub snapshot: Option<Box<Snapshot>>,
    /// The latest events of the device, the oldest first.
    pub events: Vec<Entry>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct EngineFacts {
    pub version: &'static str,
    pub process_id: u32,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct DeviceFacts {
    pub index: u32,
    pub core: &'static str,
    pub name: String,
    pub capacity_bytes: u64,
    pub workers: u32,
}

impl Dump {
    pub const SCHEMA: u32 = SCHEMA;

    /// The name of its file, without the suffix: sorted by name, files are sorted by time.
    fn stem(&self) -> String {
        let time: String = self.time.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '.').collect();
        let (process, device) = (self.engine.process_id, self.device.index);
        let (policy, code) = (&self.quarantine.policy, &self.quarantine.code);
        format!("{PREFIX}{time}-{process}-{device}-{policy}-{code}")
    }
}

/// The time as dumps have it: RFC 3339, in UTC, to the millisecond.
pub(super) fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

/// What became of a dump, once it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome(Arc<OnceLock<Result<PathBuf, String>>>);

impl Outcome {
    pub fn get(&self) -> Option<&Result<PathBuf, String>> {
        self.0.get()
    }
}

/// Writes the dumps of an engine.
#[derive(Debug)]
pub(super) struct Dumper {
    /// Where to; else the usual folders.
    folder: Option<PathBuf>,
    under_way: Arc<UnderWay>,
}

#[derive(Debug, Default)]
struct UnderWay {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Dumper {
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, under_way: Arc::default() }
    }

    /// Writes a dump in a thread of its own. Returns at once.
    pub fn write(&self, dump: Dump) -> Outcome {
        let outcome = Outcome::default();
        if let Err(reason) = self.start(dump, outcome.clone()) {
            tracing::warn!(reason, "a dump could not be written");
            let _ = outcome.0.set(Err(reason));
        }
        outcome
    }

    fn start(&self, dump: Dump, outcome: Outcome) -> Result<(), String> {
        {
            let mut count = self.under_way.count.lock();
            if *count >= MOST_UNDER_WAY {
                return Err(format!("{MOST_UNDER_WAY} others are still being written"));
            }
            *count += 1;
        }
        let folders = self.folder.clone().map_or_else(usual_folders, |folder| vec![Folder::Given(folder)]);
        let under_way = Done(self.under_way.clone());
        let body = move || {
            // Whatever happens here, the engine does not wait for it for ever.
            let _under_way = under_way;
            let written = write_to_first(&folders, &dump);
            let (device, policy, code) = (dump.device.index, &dump.quarantine.policy, &dump.quarantine.code);
            match &written {
                Ok(file) => tracing::warn!(device, policy, code, dump = %file.display(), "dump written"),
                Err(reason) => tracing::warn!(device, policy, code, reason, "a dump could not be written"),
            }
            let _ = outcome.0.set(written);
        };
        let thread = std::thread::Builder::new().name("dump".to_owned()).spawn(body);
        thread.map(drop).map_err(|error| format!("no thread could be made for it: {error}"))
    }

    /// Waits until all dumps are written or given up. False when that took longer than `at_most`.
    pub fn wait(&self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        let mut count = self.under_way.count.lock();
        while *count > 0 {
            if self.under_way.changed.wait_until(&mut count, until).timed_out() {
                return *count == 0;
            }
        }
        true
    }
}

/// Says that a dump is no longer under way.
struct Done(Arc<UnderWay>);

impl Drop for Done {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.changed.notify_all();
    }
}

/// A folder for dumps.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Folder {
    /// The configuration's, or the user's own.
    Given(PathBuf),
    /// One in a place where everybody may make folders: it has to be this user's.
    Shared(PathBuf),
}

/// The user's folder for state, and one in the system's for temporary files where that cannot be had.
fn usual_folders() -> Vec<Folder> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    let temporary = std::env::temp_dir().join(format!("interlock-{}", rustix::process::geteuid().as_raw()));
    let state = state.map(|state| Folder::Given(state.join("interlock")));
    state.into_iter().chain([Folder::Shared(temporary)]).collect()
}

/// Writes to the first folder that takes it.
fn write_to_first(folders: &[Folder], dump: &Dump) -> Result<PathBuf, String> {
    let mut reasons = Vec::new();
    for folder in folders {
        let (Folder::Given(path) | Folder::Shared(path)) = folder;
        match ready(folder).and_then(|()| write_into(path, dump)) {
            Ok(file) => return Ok(file),
            Err(error) => reasons.push(format!("{}: {error}", path.display())),
        }
    }
    Err(reasons.join("; "))
}

/// Makes the folder where it is not there, for this user alone.
fn ready(folder: &Folder) -> io::Result<()> {
    let (Folder::Given(path) | Folder::Shared(path)) = folder;
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    if matches!(folder, Folder::Shared(_)) {
        let found = fs::symlink_metadata(path)?;
        let own = found.uid() == rustix::process::geteuid().as_raw();
        if !found.is_dir() || !own || found.mode() & 0o022 != 0 {
            return Err(io::Error::other("it is not a folder that only this user may write"));
        }
    }
    Ok(())
}

/// Writes the file whole or not at all, readable by this user only, and removes the oldest ones.
fn write_into(folder: &Path, dump: &Dump) -> io::Result<PathBuf> {
    let mut file = tempfile::Builder::new().prefix(&format!(".{PREFIX}")).tempfile_in(folder)?;
    serde_json::to_writer_pretty(&mut file, dump)?;
    file.write_all(b"\n")?;
    file.as_file().sync_all()?;
    let stem = dump.stem();
    for attempt in 0..MOST_NAMES {
        let name = if attempt == 0 { stem.clone() } else { format!("{stem}-{attempt}") };
        let path = folder.join(name + SUFFIX);
        match file.persist_noclobber(&path) {
            Ok(_) => {
                prune(folder, &path);
                return Ok(path);
            }
            Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => file = refused.file,
            Err(refused) => return Err(refused.error),
        }
    }
    Err(io::Error::other(format!("{MOST_NAMES} files named {stem} are there already")))
}

/// Removes all but the latest dumps, and what was left half written long ago. Others may do the same at once: what is
/// gone already is no matter, and what cannot be removed stays.
fn prune(folder: &Path, latest: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut dumps = Vec::new();
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let Some(name) = name.to_str() else { continue };
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) && path != latest {
            dumps.push(path);
        } else if name.strip_prefix('.').is_some_and(|name| name.starts_with(PREFIX)) {
            let age = entry.metadata().and_then(|found| found.modified()).map(|at| at.elapsed());
            if matches!(age, Ok(Ok(age)) if age > STALE) {
                let _ = fs::remove_file(path);
            }
        }
    }
    dumps.sort();
    let surplus = (dumps.len() + 1).saturating_sub(KEPT);
    dumps.drain(..surplus).for_each(|path| {
        let _ = fs::remove_file(path);
    });
}

#[cfg(test)]
mod tests;
