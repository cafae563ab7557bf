//! The arbiter's side of the policy: what it asks.

use std::fmt;

use interlock_policy_api::{DeviceView, Observation, Request, Verdict, View};

use crate::LockTable;

/// Why a policy gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyFault {
    /// It panicked.
    Panicked,
    /// It could not be asked at all.
    Unreachable,
    /// Its process is gone, and so it will never answer again: the arbiter quarantines it at once.
    Ended(PolicyEnd),
}

/// How the process of a policy ended. A policy in the engine's own process has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyEnd {
    /// A signal that the host did not send: a crash, or a system call that is not allowed.
    Signal {
        /// Its number.
        signal: i32,
    },
    /// It left by itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// It did not answer in time; the host killed it.
    Silent {
        /// How long the host waited, in milliseconds.
        budget_ms: u64,
    },
    /// What it wrote into its channel can come from no policy; the host killed it.
    Rubbish,
    /// It is gone, and the system does not say how.
    Lost,
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked => f.write_str("it panicked"),
            Self::Unreachable => f.write_str("it gave no answer"),
            Self::Ended(end) => end.fmt(f),
        }
    }
}

impl PolicyEnd {
    /// What to do about it.
    pub(super) fn advice(&self) -> &'static str {
        match self {
            Self::Silent { .. } => {
                "If the machine is merely slow or overloaded, raise limits.decision_ms; if not, the policy hangs: report it to \
                 its author with the dump"
            }
            Self::Signal { signal: 6 } => {
                "If the policy needs more memory, raise limits.policy_memory; if not, report it to its author with the dump"
            }
            Self::Signal { signal: 9 } => {
                "Find who kills processes on this machine; the kernel does when memory runs out"
            }
            Self::Signal { signal: 31 } => {
                "Do not trust this policy unless its author can say why it makes that call; run it in no other mode"
            }
            Self::Rubbish => "Do not trust this policy: it writes where no policy has to write",
            Self::Signal { .. } | Self::Exited { .. } | Self::Lost => {
                "Report it to the policy's author with the dump; use another policy until then"
            }
        }
    }
}

impl fmt::Display for PolicyEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Signal { signal } => {
                write!(f, "its process crashed with signal {signal}")?;
                signal_name(signal).map_or(Ok(()), |name| write!(f, " ({name})"))
            }
            Self::Exited { code } => write!(f, "its process exited with code {code}"),
            Self::Silent { budget_ms } => {
                write!(f, "it did not answer in {budget_ms} ms, and its process was killed")
            }
            Self::Rubbish => f.write_str("it wrote rubbish into its channel, and its process was killed"),
            Self::Lost => f.write_str("its process is gone"),
        }
    }
}

/// The names of the signals that policies die of, with what they mean here. The numbers are those of every Linux
/// that the engine runs on.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        4 => "SIGILL",
        6 => "SIGABRT: an abort, or no memory within its limit",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL, from outside the engine",
        11 => "SIGSEGV",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS: it made a system call that policies may not make",
        _ => return None,
    })
}

/// A policy as the arbiter sees it: a loaded library, a linked one, or a script in a test.
pub trait PolicyPort {
    /// The verdict for one task at one gate.
    ///
    /// # Errors
    /// A [`PolicyFault`], counted as a refused verdict.
    fn decide(&mut self, request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault>;

    /// The place in line: lower goes first, ties go by arrival. The default is priority.
    ///
    /// # Errors
    /// A [`PolicyFault`], counted as a refused verdict; the host then ranks by priority.
    fn rank(&mut self, request: &Request, view: &View<'_>) -> Result<i64, PolicyFault> {
        let _ = view;
        Ok(-i64::from(request.priority))
    }

    /// Tells the policy what happened. The default does nothing.
    ///
    /// # Errors
    /// A [`PolicyFault`], counted.
    fn observe(&mut self, observation: &Observation) -> Result<(), PolicyFault> {
        let _ = observation;
        Ok(())
    }

    /// Nanoseconds that the latest call took, as whoever drives the arbiter measured it; the arbiter itself has no clock. The
    /// default is that nobody measures, and no call is ever slow.
    fn took_ns(&self) -> u64 {
        0
    }
}

/// A policy with its options, of which instances can be made: one for each device.
///
/// The engine seats loaded libraries; a simulator and the tests of a policy seat whatever keeps this.
pub trait PolicySource: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Its lock table, with permits as the options say.
    fn locks(&self) -> &LockTable;

    /// Makes an instance.
    ///
    /// # Errors
    /// A sentence that says why there is none.
    fn seat(&self) -> Result<Box<dyn SeatedPolicy>, String>;
}

/// An instance of a policy with all its hooks, for a driver that has no threads.
pub trait SeatedPolicy: PolicyPort + Send {
    /// The device a new task should go to, as an index into `devices`.
    ///
    /// # Errors
    /// The policy panicked or named a device that is not there.
    fn place(&mut self, request: &Request, devices: &[DeviceView]) -> Result<u32, PlaceError>;

    /// The policy's own counters.
    ///
    /// # Errors
    /// The policy panicked.
    fn stats(&mut self) -> Result<Vec<(String, u64)>, PolicyFault>;
}

/// Why a policy's choice of device is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// It gave no answer.
    #[error("the policy gave no device: {0:?}")]
    Fault(PolicyFault),
    /// It named a device that is not there.
    #[error("the policy chose device {chosen}, there are {devices}")]
    NoSuchDevice {
        /// What it named.
        chosen: u32,
        /// How many there are.
        devices: usize,
    },
}
