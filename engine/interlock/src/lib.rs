//! The interlock: the state machine that decides who runs what on one device, and keeps it safe.
//!
//! [`Arbiter`] is pure: [`Event`]s in, [`Command`]s out, time as a value. Threads drive it in production, a
//! simulator drives the same code. The policy is asked through [`PolicyPort`] and trusted with nothing:
//!
//! - **mutual exclusion**: no lock is ever held by more tasks than it has permits;
//! - **no over-commit**: reservations never exceed the device's bytes;
//! - **all or nothing**: a gate's locks and bytes are granted together or not at all;
//! - **no double grant**: a task is inside at most one stage, each stage at most once, in order;
//! - **no deadlock**: whenever no stage runs and a task waits, some waiter can be let in;
//! - **no lost task**: a task leaves only by finishing, failing or being cancelled;
//! - **priority at every gate**: whoever ranks first is asked first;
//! - **determinism**: the same events and verdicts give the same commands.
//!
//! `README.md` of this crate has the state diagrams and the argument for each of these.

#![deny(missing_docs)]

mod arbiter;
mod counters;
mod drain;
mod event;
mod gates;
mod holdings;
mod ledger;
mod lock_table;
mod port;
mod snapshot;
mod task;
mod timeline;
mod verdict;
mod watchdog;

pub use arbiter::{Arbiter, ArbiterConfig, Limits, Phase};
pub use counters::Counters;
pub use event::{Command, Event, EventError, Outcome, Quarantine, Refusal, TaskId, TaskSpec};
pub use lock_table::{LockSpec, LockTable, LockTableError, MAX_LOCKS};
pub use port::{PlaceError, PolicyEnd, PolicyFault, PolicyPort, PolicySource, SeatedPolicy};
pub use snapshot::{LastVerdict, LockState, RunningTask, Snapshot, WaitingTask};
pub use timeline::{NoRecorder, Recorder, TimelineEvent, TimelineKind};
