//! What goes into the arbiter and what comes out of it.

use std::fmt;

use interlock_policy_api::Stage;

use super::{LockTable, PolicyEnd};

/// A task, unique in the life of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct TaskId(pub u64);

/// A task as it arrives at a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Well: the task goes on to the next gate, or leaves after Finish.
    Done,
    /// With an error: the task leaves and everything it holds is freed.
    Failed,
    /// With memory that could not be had: as `Failed`, told to the policy as such.
    AllocationFailed,
}

/// Something that happened on the device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
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
    Installed(#[serde(serialize_with = "lock_names")] LockTable),
}

/// What the driver has to do, or to write down.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Run a stage of a task; answer with [`Event::StageEnded`].
    Run {
        /// Which task.
        task: TaskId,
        /// Which stage.
        #[serde(with = "stage_name")]
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
        /// How long the task stood at the Stage gate.
        waited_ns: u64,
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
    /// A verdict was refused, or a hook failed about this task. To be written down; nothing changes for the
    /// task.
    Refused {
        /// Which task it was about.
        task: TaskId,
        /// The gate it stands at or the stage it is in.
        #[serde(with = "stage_name")]
        gate: Stage,
        /// Why.
        refusal: Refusal,
    },
    /// The policy took longer than its budget for one call about a task. To be written down.
    Slow {
        /// Which task it was about.
        task: TaskId,
        /// How long the call took.
        took_ns: u64,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownKind => "a verdict of a kind the host does not know",
            Self::SkipNotAllowed => "Skip at a gate other than Stage",
            Self::TooFewBytes => "Enter with fewer bytes than the stage needs",
            Self::TooManyBytes => "Enter with more bytes than the task ever holds",
            Self::LockTaken => "Enter while a lock of the gate is taken",
            Self::UnsafeReservation => "Enter with bytes that are not free, or that others need to finish",
            Self::EndlessWait => "Wait for nothing, or until a time already past",
            Self::Panicked => "a panic",
            Self::Unreachable => "no answer",
        })
    }
}

/// Why a policy was quarantined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quarantine {
    /// It was refused too often in a row about one task at one gate, or a hook failed too often in a row.
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
    /// A task could have been let in, with nothing in its way, and was not.
    HeldBack {
        /// Which task.
        task: TaskId,
        /// Where it waits.
        #[serde(with = "stage_name")]
        gate: Stage,
        /// For how long its locks and bytes had been free, and nothing ran that could need them.
        held_ns: u64,
    },
    /// A task waited too long at one gate while tasks that came later were let pass.
    Starved {
        /// Which task.
        task: TaskId,
        /// Where it waits.
        #[serde(with = "stage_name")]
        gate: Stage,
        /// For how long.
        waited_ns: u64,
        /// How many passed it after the limit, although it could have gone in their place.
        passes: u32,
    },
    /// Its calls took longer than their budget too often.
    Slow {
        /// How long the last of them took.
        took_ns: u64,
        /// The budget.
        budget_ns: u64,
        /// The limit it reached.
        limit: u32,
    },
    /// Its process is gone.
    Ended(PolicyEnd),
}

impl Quarantine {
    /// A short name of the reason, for programs: it does not change from one version to the next.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooManyRefusals { .. } => "refusals",
            Self::Stalled { .. } => "stalled",
            Self::HeldBack { .. } => "held_back",
            Self::Starved { .. } => "starved",
            Self::Slow { .. } => "slow",
            Self::Ended(_) => "ended",
        }
    }

    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::TooManyRefusals { .. } => {
                "Check that the policy was made for this engine and its options fit the device; the dump has what it was refused"
            }
            Self::Stalled { .. } | Self::HeldBack { .. } => {
                "Look in the dump at who waits with locks and bytes free, and for what: the policy waits for something that does \
                 not come. If it is meant to hold tasks back for so long, raise limits.stall_ms"
            }
            Self::Starved { .. } => {
                "Look in the dump at what the task waits for and who was let in: the policy has to bound how often a task is \
                 passed. If it is meant to let tasks wait for so long, raise limits.starve_ms"
            }
            Self::Slow { .. } => {
                "If the machine is merely overloaded, raise limits.decision_ms; if not, use another policy: nothing else moves on \
                 the device while this one thinks"
            }
            Self::Ended(end) => end.advice(),
        }
    }
}

impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyRefusals { last, limit } => {
                write!(f, "{limit} of its verdicts in a row were refused, the last was {last}")
            }
            Self::Stalled { idle_ns } => {
                write!(f, "it let nobody in for {} ms while the device stood idle", idle_ns / 1_000_000)
            }
            Self::HeldBack { task, gate, held_ns } => write!(
                f,
                "it kept task {} at the {gate} gate for {} ms with locks and bytes free and nothing before it",
                task.0,
                held_ns / 1_000_000
            ),
            Self::Starved { task, gate, waited_ns, passes } => write!(
                f,
                "it let {passes} later tasks pass task {}, which has waited at the {gate} gate for {} ms",
                task.0,
                waited_ns / 1_000_000
            ),
            Self::Slow { took_ns, budget_ns, limit } => write!(
                f,
                "{limit} of its answers took longer than {} ms, the last one {} ms",
                budget_ns / 1_000_000,
                took_ns / 1_000_000
            ),
            Self::Ended(end) => end.fmt(f),
        }
    }
}

/// Why an event was not taken: it makes no sense where the arbiter stands. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// A task with this id is here already.
    #[error("task {} arrived twice on one device; each task needs an id of its own", .task.0)]
    DuplicateTask {
        /// The task.
        task: TaskId,
    },
    /// The task says it is staged with more bytes than it ever holds.
    #[error("task {} plans {staged_bytes} staged bytes but a peak of {peak_bytes}", .task.0)]
    StagedAbovePeak {
        /// The task.
        task: TaskId,
        /// Its staged bytes.
        staged_bytes: u64,
        /// Its peak.
        peak_bytes: u64,
    },
    /// The task could never compute on this device.
    #[error(
        "task {} needs {peak_bytes} device bytes at its peak, the device has {capacity_bytes}; \
         place it on a larger device or raise the budget", .task.0
    )]
    LargerThanDevice {
        /// The task.
        task: TaskId,
        /// Its peak.
        peak_bytes: u64,
        /// What the device has.
        capacity_bytes: u64,
    },
    /// A stage ended of a task that is not here.
    #[error("task {} is not on this device", .task.0)]
    UnknownTask {
        /// The task.
        task: TaskId,
    },
    /// A stage ended of a task that waits at a gate.
    #[error("task {} is not inside a stage, it waits at the {gate} gate", .task.0)]
    NotRunning {
        /// The task.
        task: TaskId,
        /// Where it waits.
        gate: Stage,
    },
    /// A policy was seated while things are still held under the lock table of another.
    #[error("a policy can take the seat only after the drain has ended")]
    NotDrained,
}

/// A stage by its name.
mod stage_name {
    use interlock_policy_api::Stage;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(stage: &Stage, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(stage.name().unwrap_or("unknown"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Stage, D::Error> {
        let name = String::deserialize(deserializer)?;
        Stage::from_name(&name).ok_or_else(|| D::Error::custom(format!("\"{name}\" is no stage")))
    }
}

/// A stage by its name, or nothing.
pub(super) mod optional_stage_name {
    use interlock_policy_api::Stage;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(stage: &Option<Stage>, serializer: S) -> Result<S::Ok, S::Error> {
        stage.map(|stage| stage.name().unwrap_or("unknown")).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Stage>, D::Error> {
        let Some(name) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        match Stage::from_name(&name) {
            Some(stage) => Ok(Some(stage)),
            None => Err(D::Error::custom(format!("\"{name}\" is no stage"))),
        }
    }
}

fn lock_names<S: serde::Serializer>(table: &LockTable, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(table.locks().iter().map(|lock| &lock.name))
}
