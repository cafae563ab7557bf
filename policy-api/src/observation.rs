//! What a policy is told after the fact.

use crate::Stage;

/// The kinds of event. Ignore numbers you do not know.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObservationKind(pub u32);

impl ObservationKind {
    /// A task entered a stage; `bytes` were reserved for it.
    pub const ENTERED: ObservationKind = ObservationKind(1);
    /// A stage ended well after `duration_ns`; `bytes` were freed.
    pub const STAGE_ENDED: ObservationKind = ObservationKind(2);
    /// A task skipped Stage.
    pub const SKIPPED: ObservationKind = ObservationKind(3);
    /// A stage failed; `bytes` were freed.
    pub const STAGE_FAILED: ObservationKind = ObservationKind(4);
    /// A stage failed because memory could not be had; `bytes` were freed.
    pub const ALLOCATION_FAILED: ObservationKind = ObservationKind(5);
    /// A verdict of the policy was refused.
    pub const REFUSED: ObservationKind = ObservationKind(6);
    /// A task left for good: finished, failed or cancelled; `bytes` were freed.
    pub const TASK_LEFT: ObservationKind = ObservationKind(7);
}

/// Something that happened on the policy's device.
///
/// Plain data: fields are only ever appended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// What happened.
    pub kind: ObservationKind,
    /// The stage it is about.
    pub stage: Stage,
    /// The task it is about.
    pub task: u64,
    /// When, on the clock of [`View::now_ns`](crate::View::now_ns).
    pub now_ns: u64,
    /// How long it took; zero where that means nothing.
    pub duration_ns: u64,
    /// Device bytes it is about; zero where that means nothing.
    pub bytes: u64,
}
