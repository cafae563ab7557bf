//! Scenarios: a device, tasks, and what happens to them.

mod order;

use interlock_policy_api::Stage;
use interlock_settings::ByteSize;
use serde::{Deserialize, Serialize};

/// Nanoseconds of a millisecond.
pub(crate) const MS: u64 = 1_000_000;
/// The most tasks of a scenario.
const MOST_TASKS: usize = 4_096;
/// The latest time, and the longest stage, in milliseconds: about eleven years.
const LONGEST_MS: u64 = 1 << 38;

/// A device with its tasks. Written and read as RON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Bytes of the device.
    pub device: ByteSize,
    /// Tasks that may be on the device at once: others wait outside, and come by priority.
    pub workers: u32,
    /// The tasks; a task's number is its place here.
    pub tasks: Vec<TaskPlan>,
    /// When the policy is drained, in milliseconds; a new instance of it takes the seat then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drains_ms: Vec<u64>,
    /// What happens in which order. The times of the tasks do not count then: an event comes a millisecond after the one before.
    /// What the policy's answers leave no room for is left out; after the last one, whatever can happen first does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<Happening>>,
}

/// A task of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskPlan {
    /// When it comes, in milliseconds.
    #[serde(default)]
    pub at_ms: u64,
    /// Its priority: higher goes first.
    #[serde(default)]
    pub priority: i32,
    /// Device bytes from Stage on.
    pub staged: ByteSize,
    /// The most device bytes it holds, in Compute.
    pub peak: ByteSize,
    /// How long Prepare, Stage, Compute and Finish take, in milliseconds.
    #[serde(default = "one_each")]
    pub stages_ms: [u64; 4],
    /// It failed before it came: it is not asked about at Stage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
    /// A stage that fails when the task is in it first; the task comes again then, as one that failed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails: Option<Failure>,
    /// When it is given up, if it waits at a gate then, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_ms: Option<u64>,
}

fn one_each() -> [u64; 4] {
    [1; 4]
}

/// A stage that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// Prepare, with an error.
    Prepare,
    /// Stage, with an error.
    Stage,
    /// Stage, with memory that could not be had.
    StageAllocation,
    /// Compute, with an error.
    Compute,
    /// Compute, with memory that could not be had.
    ComputeAllocation,
    /// Finish, with an error.
    Finish,
}

impl Failure {
    /// Every way to fail.
    pub(crate) const ALL: [Failure; 6] = [
        Failure::Prepare,
        Failure::Stage,
        Failure::StageAllocation,
        Failure::Compute,
        Failure::ComputeAllocation,
        Failure::Finish,
    ];

    pub(crate) fn stage(self) -> Stage {
        match self {
            Failure::Prepare => Stage::PREPARE,
            Failure::Stage | Failure::StageAllocation => Stage::STAGE,
            Failure::Compute | Failure::ComputeAllocation => Stage::COMPUTE,
            Failure::Finish => Stage::FINISH,
        }
    }

    pub(crate) fn is_of_memory(self) -> bool {
        matches!(self, Failure::StageAllocation | Failure::ComputeAllocation)
    }
}

/// An event of a scenario with an order. The numbers are those of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happening {
    /// A task comes.
    Arrives(usize),
    /// The stage that a task is in ends well.
    Ends(usize),
    /// The stage that a task is in fails; the task may come again.
    Fails(usize),
    /// A task that waits is given up.
    GivesUp(usize),
    /// Time goes on to the next deadline.
    Later,
}

/// Why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// It cannot be read.
    #[error("{0}")]
    Malformed(String),
    /// A task that is staged with more bytes than it ever holds, or needs more than there are.
    #[error(
        "task {task} is staged with {staged} and needs {peak} at its peak on a device of {device}; staged bytes must not be \
         above the peak, nor the peak above the device"
    )]
    Bytes {
        /// The task.
        task: usize,
        /// Its staged bytes.
        staged: ByteSize,
        /// Its peak.
        peak: ByteSize,
        /// What the device has.
        device: ByteSize,
    },
    /// Nobody could ever run.
    #[error("there are no workers, so no task could ever come; give at least 1")]
    NoWorkers,
    /// More than a check is for.
    #[error("{tasks} tasks; the most are {MOST_TASKS}")]
    TooManyTasks {
        /// How many there are.
        tasks: usize,
    },
    /// An event that can never happen at its place.
    #[error("entry {entry} of `order`, {what:?}: {why}")]
    Order {
        /// Its place in `order`, from 0 on.
        entry: usize,
        /// The event.
        what: Happening,
        /// Why it cannot.
        why: &'static str,
    },
    /// A time so far that sums of times would not fit.
    #[error("a time of {ms} ms; the most are {LONGEST_MS}")]
    TooLate {
        /// The time.
        ms: u64,
    },
}

impl Scenario {
    /// Reads a scenario from RON and checks it.
    ///
    /// # Errors
    /// What is wrong, with the place in the text where it is malformed.
    pub fn from_ron(text: &str) -> Result<Scenario, ScenarioError> {
        let options =
            ron::Options::default().with_default_extension(ron::extensions::Extensions::IMPLICIT_SOME);
        let scenario: Scenario =
            options.from_str(text).map_err(|error| ScenarioError::Malformed(error.to_string()))?;
        scenario.check()?;
        Ok(scenario)
    }

    /// The scenario as RON, which [`Scenario::from_ron`] reads.
    pub fn to_ron(&self) -> String {
        let pretty = ron::ser::PrettyConfig::new()
            .depth_limit(2)
            .extensions(ron::extensions::Extensions::IMPLICIT_SOME);
        let text = ron::Options::default().to_string_pretty(self, pretty).expect("plain data can be written");
        text + "\n"
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ScenarioError> {
        if self.workers == 0 {
            return Err(ScenarioError::NoWorkers);
        }
        if self.tasks.len() > MOST_TASKS {
            return Err(ScenarioError::TooManyTasks { tasks: self.tasks.len() });
        }
        for (task, plan) in self.tasks.iter().enumerate() {
            let (staged, peak, device) = (plan.staged, plan.peak, self.device);
            if staged > peak || peak > device {
                return Err(ScenarioError::Bytes { task, staged, peak, device });
            }
        }
        order::check(self.order.as_deref().unwrap_or(&[]), self.tasks.len())?;
        match self.times_ms().find(|ms| *ms > LONGEST_MS) {
            Some(ms) => Err(ScenarioError::TooLate { ms }),
            None => Ok(()),
        }
    }

    fn times_ms(&self) -> impl Iterator<Item = u64> {
        let of_task =
            |plan: &TaskPlan| [plan.at_ms, plan.cancelled_ms.unwrap_or(0)].into_iter().chain(plan.stages_ms);
        self.tasks.iter().flat_map(of_task).chain(self.drains_ms.iter().copied())
    }

    /// The longest stage, in nanoseconds.
    pub(crate) fn longest_stage_ns(&self) -> u64 {
        let longest = self.tasks.iter().flat_map(|plan| plan.stages_ms).max();
        longest.unwrap_or(0).max(1).saturating_mul(MS)
    }

    /// How long it takes when everything happens one after the other, and each task fails once, in nanoseconds.
    pub(crate) fn one_by_one_ns(&self) -> u64 {
        let stages: u64 = self.tasks.iter().flat_map(|plan| plan.stages_ms).fold(0, u64::saturating_add);
        let last = self.times_ms().max().unwrap_or(0);
        let events = self.order.as_ref().map_or(0, Vec::len) + 16 * self.tasks.len();
        stages.saturating_mul(2).saturating_add(last).saturating_add(events as u64).saturating_mul(MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        let task = TaskPlan {
            at_ms: 3,
            priority: -1,
            staged: ByteSize(4 << 30),
            peak: ByteSize(6 << 30),
            stages_ms: [1, 2, 3, 4],
            retry: true,
            fails: Some(Failure::ComputeAllocation),
            cancelled_ms: Some(9),
        };
        let order = Some(vec![Happening::Arrives(0), Happening::Later]);
        Scenario { device: ByteSize(16 << 30), workers: 2, tasks: vec![task], drains_ms: vec![5], order }
    }

    #[test]
    fn what_is_written_reads_back() {
        let text = scenario().to_ron();
        assert_eq!(Scenario::from_ron(&text), Ok(scenario()), "{text}");
        assert!(text.contains("\"16GiB\"") && text.contains("Arrives(0)"), "{text}");
    }

    #[test]
    fn little_is_enough() {
        let text =
            "(device: \"8GiB\", workers: 1, tasks: [(staged: \"1GiB\", peak: \"2GiB\", cancelled_ms: 7)])";
        let scenario = Scenario::from_ron(text).expect("it is good");
        assert_eq!((scenario.tasks[0].stages_ms, scenario.tasks[0].cancelled_ms), ([1; 4], Some(7)));
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let change = |change: fn(&mut Scenario)| {
            let mut scenario = scenario();
            change(&mut scenario);
            Scenario::from_ron(&scenario.to_ron()).expect_err("it is bad")
        };
        assert_eq!(change(|scenario| scenario.workers = 0), ScenarioError::NoWorkers);
        assert!(matches!(change(|s| s.tasks[0].peak = ByteSize(1)), ScenarioError::Bytes { task: 0, .. }));
        assert!(matches!(change(|s| s.device = ByteSize(1)), ScenarioError::Bytes { task: 0, .. }));
        assert_eq!(change(|s| s.drains_ms[0] = u64::MAX), ScenarioError::TooLate { ms: u64::MAX });
        assert!(matches!(
            change(|s| s.order = Some(vec![Happening::Arrives(9)])),
            ScenarioError::Order { entry: 0, what: Happening::Arrives(9), .. }
        ));
        assert!(matches!(Scenario::from_ron("(device: 1, wrokers: 1)"), Err(ScenarioError::Malformed(_))));
    }
}
