//! The pipeline: threads that drive tasks through the arbiter.
//!
//! ```text
//! submit -> [orders] -> synthesis workers -> [a queue per device] -> device workers -> outcomes
//!                                                                     |        ^
//!                                                       event: arrived, ended  | turn
//!                                                                     v        |
//!                                                               seat (arbiter + policy)
//! ```
//!
//! A *job* is partitions of one circuit. A *synthesis worker* makes the witness of a partition; a
//! *device worker* takes the ready task and drives it through Prepare, Stage, Compute and Finish,
//! asking its device's *seat* at every gate. All queues are by priority.
//!
//! A task that fails is tried once more with inline staging, then on the fallback core where there is one, and
//! then fails with all causes. A device that is lost gets no more tasks: those it had go to another device of the same
//! core, or to the fallback core. Every partition ends in exactly one [`PartitionOutcome`].

mod dump;
mod engine;
mod introduction;
mod job;
mod journal;
mod metered;
mod policy_stats;
mod queue;
mod routing;
mod seat;
mod shared;
mod switch;
mod synthesis;
mod worker;

pub use engine::{DeviceReport, Engine, EngineBuilder, EngineError, StopHandle};
pub use job::{
    AttemptError, Job, JobHandle, PartitionOutcome, PartitionReport, Proved, StageReport, SynthesisError,
    TaskError,
};
pub use metered::Metered;
pub use policy_stats::{
    Bucket, DevicePolicyStats, Distribution, GateWaits, PolicyIdentity, PolicyStats, QuarantineReport,
    VerdictCounts,
};
pub use switch::{
    DeviceSwitch, Rate, RestoreError, SwapTimes, Switch, SwitchPhase, SwitchReport, TRIAL_DECISIONS,
};

pub use crate::interlock::{NoRecorder, Recorder, TimelineEvent, TimelineKind};
