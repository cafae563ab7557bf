//! Policies in processes of their own.
//!
//! A policy with `isolation: Process` runs in a child of the engine: the same library, loaded from the same sealed copy, but a
//! crash, an endless loop or a stray write is its own. This folder's README has the protocol, its states, and
//! what is trusted when; `SECURITY.md` says what it protects from.
//!
//! | module | what it does |
//! |---|---|
//! | `isolated` | the policy as the engine asks it, with a budget for each answer |
//! | `process` | starts, kills and reaps the process, by its own descriptor |
//! | `region`, `wire` | the shared memory, and the records in it |
//! | `host_end`, `child_end`, `spin` | the two ends of the channel, and how they wait |
//! | `brief` | what the process is told at its start, and reports |
//! | `serve` | the process itself |
//! | `confine`, `filter` | what it gives up before it loads the library |
//!
//! # The program
//!
//! The process runs a program that answers to `policy-host` as its first argument. `interlock` does. A program that embeds
//! the engine either calls [`serve_if_asked`] first thing in `main`, and hosts its policies itself, or names an
//! `interlock` program: `policy_host` in `plugins.ron`, or [`ProcessSettings::new`].

mod brief;
mod child_end;
mod confine;
mod filter;
mod host_end;
mod isolated;
mod process;
mod region;
mod serve;
mod spin;
mod wire;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(super) use isolated::{Image, IsolatedPolicy};

use super::writers::check_program;
use super::{Config, Limits, LoadFault};

/// Where a policy runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Isolation {
    /// In the engine's process: nanoseconds for a decision, and trusted like the engine.
    #[default]
    InProcess,
    /// In a process of its own, which is confined; where the system does not allow that, the policy is refused.
    Process,
    /// In a process of its own even where the system allows no filter of its system calls: the log says so.
    UnfilteredProcess,
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InProcess => "in process",
            Self::Process => "process",
            Self::UnfilteredProcess => "process, unfiltered if need be",
        })
    }
}

/// The program that a policy's process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// This one, wherever its file is by now.
    Own,
    /// The one in this file.
    Named(PathBuf),
}

impl Program {
    fn path(&self) -> &Path {
        match self {
            Self::Own => Path::new("/proc/self/exe"),
            Self::Named(file) => file,
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().display().fmt(f)
    }
}

/// How a policy is run in a process of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSettings {
    program: Program,
    filtered: bool,
    decision: Duration,
    load: Duration,
    memory_bytes: u64,
}

impl ProcessSettings {
    /// Runs policies in `program`, which answers to `policy-host`, with the limits of [`Limits::default`].
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        // The process starts in another folder.
        let program = std::path::absolute(&program).unwrap_or(program);
        Self::with(Program::Named(program), Limits::default())
    }

    /// Runs policies as a configuration says. `None` when they run in this process.
    ///
    /// # Errors
    /// [`LoadFault::NoPolicyHost`]: no program is named, and this one does not host policies. [`LoadFault::PolicyHost`]: one is
    /// named that others could have put there.
    pub fn configured(config: &Config, isolation: Isolation) -> Result<Option<Self>, LoadFault> {
        if isolation == Isolation::InProcess {
            return Ok(None);
        }
        let program = match &config.policy_host {
            Some(program) => {
                let folder = config.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
                let program = folder.join(program);
                if let Err(fault) = check_program(&program, &config.trust.owners) {
                    return Err(LoadFault::PolicyHost { program, fault });
                }
                Program::Named(std::path::absolute(&program).unwrap_or(program))
            }
            None if HOSTS_POLICIES.load(Ordering::Relaxed) => Program::Own,
            None => return Err(LoadFault::NoPolicyHost),
        };
        let filtered = isolation != Isolation::UnfilteredProcess;
        Ok(Some(Self { filtered, ..Self::with(program, config.limits) }))
    }

    fn with(program: Program, limits: Limits) -> Self {
        Self {
            program,
            filtered: true,
            decision: Duration::from_millis(limits.decision_ms),
            load: Duration::from_millis(limits.load_ms),
            memory_bytes: limits.policy_memory.0,
        }
    }

    /// Goes on without a filter of system calls where the system allows none; true for [`Isolation::UnfilteredProcess`].
    #[must_use]
    pub fn unfiltered(self, unfiltered: bool) -> Self {
        Self { filtered: !unfiltered, ..self }
    }

    /// How long one answer may take.
    #[must_use]
    pub fn decision(self, decision: Duration) -> Self {
        Self { decision, ..self }
    }

    /// How long loading the library and making the instance may take.
    #[must_use]
    pub fn load(self, load: Duration) -> Self {
        Self { load, ..self }
    }

    /// Memory that the policy may take, in bytes, beyond what its process has before the library is loaded.
    #[must_use]
    pub fn memory_bytes(self, memory_bytes: u64) -> Self {
        Self { memory_bytes, ..self }
    }

    /// Which isolation this is.
    pub(super) fn isolation(&self) -> Isolation {
        if self.filtered { Isolation::Process } else { Isolation::UnfilteredProcess }
    }
}

/// Whether this program answers to `policy-host`.
static HOSTS_POLICIES: AtomicBool = AtomicBool::new(false);

/// Makes a program a host of its own policies: to be called first thing in `main`. Where the program was started as
/// the process of a policy, it returns the code to exit with, once that process ends by itself.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     if let Some(exit) = interlock_engine::host::isolation::serve_if_asked() {
///         return exit;
///     }
///     // The program.
///     std::process::ExitCode::SUCCESS
/// }
/// ```
#[must_use]
pub fn serve_if_asked() -> Option<ExitCode> {
    if std::env::args_os().nth(1).is_some_and(|first| first == process::SUBCOMMAND) {
        return Some(serve::serve());
    }
    HOSTS_POLICIES.store(true, Ordering::Relaxed);
    None
}
