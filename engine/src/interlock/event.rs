//! What goes into the arbiter and what comes out of it.

use interlock_policy_api::Stage;

use super::LockTable;

/// A task, unique in the life of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// A task as it arrives at a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TaskSpec {
    /// Who it is.
    pub task: TaskId,
    /// The job it is a partition of.
    pub job: u64,
    /// Which partition of the job.
    pub partition: u32,
    /// Priority of the job: higher goes first at every gate.
    pub priority: i32,
    /// Device bytes from the start of Stage to the end of Compute.
    pub staged_bytes: u64,
    /// The most device bytes the task ever holds: `staged_bytes` and the Compute extra.
    pub peak_bytes: u64,
    /// The task failed before: it is staged inline, whatever the policy would say at Stage.
    pub retry: bool,
}

/// How a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Well: the task goes on to the next gate, or leaves after Finish.
    Done,
    /// With an error: the task leaves and everything it holds is freed.
    Failed,
    /// With memory that could not be had: as `Failed`, told to the policy as such.
    AllocationFailed,
}

/// Something that happened on the device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A task arrived. It stands at the Prepare gate.
    Arrived(TaskSpec),
    /// The stage a task was told to run has ended.
    StageEnded {
        /// Whose stage.
        task: TaskId,
        /// How.
        outcome: Outcome,
    },
    /// A task is given up while it waits at a gate. Ignored when it is not waiting.
    Cancelled {
        /// Which task.
        task: TaskId,
    },
    /// Time has passed: deadlines and the stall watchdog are looked at.
    Tick,
    /// The policy in the seat is to be replaced: drain. [`Command::Drained`] says when it is done.
    Drain,
    /// A policy with this lock table has taken the seat. Only valid after [`Command::Drained`].
    Installed(LockTable),
}

/// What the driver has to do, or to write down.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Run a stage of a task; answer with [`Event::StageEnded`].
    Run {
        /// Which task.
        task: TaskId,
        /// Which stage.
        stage: Stage,
        /// At Compute: the task was not staged, its data has to be uploaded first.
        inline: bool,
        /// Device bytes the task holds from now on.
        held_bytes: u64,
        /// Names of the locks taken at this gate.
        locks: Vec<String>,
        /// How long the task stood at the gate.
        waited_ns: u64,
    },
    /// The policy let a task skip Stage. To be written down; the task is at the Compute gate now.
    Skipped {
        /// Which task.
        task: TaskId,
    },
    /// Locks and bytes came free. To be written down.
    Freed {
        /// Who gave them back.
        task: TaskId,
        /// Names of the locks.
        locks: Vec<String>,
        /// Device bytes.
        bytes: u64,
    },
    /// A verdict was refused. To be written down; the task waits on.
    Refused {
        /// Whose gate it was.
        task: TaskId,
        /// Which gate.
        gate: Stage,
        /// Why.
        refusal: Refusal,
    },
    /// A task has left the arbiter: finished, failed or cancelled. Nothing of it is held any more.
    Left {
        /// Which task.
        task: TaskId,
    },
    /// The policy is not to be asked again; the arbiter drains. The driver seats the fallback after
    /// [`Command::Drained`].
    Quarantined(Quarantine),
    /// Nothing is held under the old lock table any more: seat the next policy, answer with
    /// [`Event::Installed`]. Tasks without reservations keep standing at their gates.
    Drained,
}

/// Why a verdict was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// A kind of verdict the host does not know.
    UnknownKind,
    /// `Skip` at a gate other than Stage.
    SkipNotAllowed,
    /// `Enter` with fewer bytes than the stage needs.
    TooFewBytes,
    /// `Enter` with more bytes than are missing to the task's peak.
    TooManyBytes,
    /// `Enter` while a lock of the gate is taken.
    LockTaken,
    /// `Enter` with bytes that are not free, or that would leave a state in which the staged tasks
    /// cannot finish one after another.
    UnsafeReservation,
    /// `Wait` with no event and no deadline, or with a deadline already past.
    EndlessWait,
    /// The policy panicked.
    Panicked,
    /// The policy could not be asked.
    Unreachable,
}

/// Why a policy was quarantined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quarantine {
    /// It was refused too often in a row about one task.
    TooManyRefusals {
        /// The last refusal.
        last: Refusal,
        /// The limit it reached.
        limit: u32,
    },
    /// The device stood idle while tasks waited for the policy to let them in.
    Stalled {
        /// For how long.
        idle_ns: u64,
    },
}
