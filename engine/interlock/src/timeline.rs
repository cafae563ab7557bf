//! What happened, event by event, each attributable to a job, a partition, a worker and a device.
//!
//! An engine and a simulator write the same events, so that whoever reads a timeline need not know which of them ran.

use std::borrow::Cow;

use interlock_policy_api::Stage;
use serde::{Deserialize, Serialize};

use super::event::optional_stage_name;

/// The kinds of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimelineKind {
    /// The engine, or the simulation, started, with `count` synthesis workers; `detail` says who and which version.
    Engine,
    /// The machine has `count` processors.
    Host,
    /// The device has room for `bytes` of tasks and `count` workers, and `policy` in its seat; `detail` is its name.
    Device,
    /// A job of `count` partitions was submitted. Each task of it plans `bytes` staged and `peak_bytes` in all.
    Submitted,
    /// A witness was made; `duration_ns` long.
    Synthesized,
    /// A device worker took the task to its device.
    Arrived,
    /// The task entered `stage` after `duration_ns` at its gate.
    Entered,
    /// `stage` ended after `duration_ns`.
    Ended,
    /// `stage` failed after `duration_ns`; `detail` says why.
    Failed,
    /// The policy let the task skip Stage after `duration_ns` at its gate.
    Skipped,
    /// The task gave back `locks` and `bytes`.
    Freed,
    /// A verdict about the task at the gate of `stage` was refused; `detail` says why.
    Refused,
    /// The policy took longer than its budget for an answer about the task: `duration_ns`.
    Slow,
    /// The task left the device.
    Left,
    /// The proof was verified; `duration_ns` long.
    Verified,
    /// The device was lost; `detail` says why.
    DeviceLost,
    /// The policy of the device was quarantined; `detail` says why.
    Quarantined,
    /// The policy of the device failed its trial; `detail` says why, and who comes back.
    RolledBack,
    /// Another policy took the seat; `policy` and `detail` name it.
    Seated,
}

/// One event. Columns that do not apply are empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineEvent {
    /// Nanoseconds since the engine, or the simulation, started.
    pub at_ns: u64,
    /// What happened.
    pub event: TimelineKind,
    /// Which core.
    pub core: Cow<'static, str>,
    /// Index of the device.
    pub device: Option<u32>,
    /// Index of the worker on its device (or among the synthesis workers).
    pub worker: Option<u32>,
    /// Number of the job.
    pub job: Option<u64>,
    /// Index of the partition in its job.
    pub partition: Option<u32>,
    /// Number of the task: a retry is a new one.
    pub task: Option<u64>,
    /// Which stage.
    #[serde(with = "optional_stage_name")]
    pub stage: Option<Stage>,
    /// How long, in nanoseconds.
    pub duration_ns: Option<u64>,
    /// Device bytes.
    pub bytes: Option<u64>,
    /// Names of locks, separated by `+`.
    pub locks: String,
    /// Whatever else there is to say.
    pub detail: String,
    // Columns are only ever appended: files written before one was there are read without it.
    /// How many.
    #[serde(default)]
    pub count: Option<u64>,
    /// Name of a policy.
    #[serde(default)]
    pub policy: String,
    /// The most device bytes a task ever holds.
    #[serde(default)]
    pub peak_bytes: Option<u64>,
    /// Priority of the job.
    #[serde(default)]
    pub priority: Option<i32>,
}

impl TimelineEvent {
    /// An event of which nothing else is known yet.
    pub fn new(at_ns: u64, event: TimelineKind) -> Self {
        Self {
            at_ns,
            event,
            core: Cow::Borrowed(""),
            device: None,
            worker: None,
            job: None,
            partition: None,
            task: None,
            stage: None,
            duration_ns: None,
            bytes: None,
            locks: String::new(),
            detail: String::new(),
            count: None,
            policy: String::new(),
            peak_bytes: None,
            priority: None,
        }
    }
}

/// Takes events as they happen. Called from all workers: be quick.
pub trait Recorder: Send + Sync {
    /// Takes one event. Events of one task come in order; others may interleave.
    fn record(&self, event: &TimelineEvent);
}

/// Records nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoRecorder;

impl Recorder for NoRecorder {
    fn record(&self, _event: &TimelineEvent) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as the engine writes them.
    const LINES: &str = "\
at_ns,event,core,device,worker,job,partition,task,stage,duration_ns,bytes,locks,detail,count,policy,peak_bytes,priority
20,device,cpu,0,,,,,,,8192,,host memory,2,two-lock,,
1500,synthesized,,,0,1,2,,,1400,,,,,,,
9000,entered,cpu,0,1,1,2,7,Compute,300,4096,mem+compute,inline staging,,,,
";

    /// A line from before `count` and what follows it were there.
    const OLD: &str = "\
at_ns,event,core,device,worker,job,partition,task,stage,duration_ns,bytes,locks,detail
1500,synthesized,,,0,1,2,,,1400,,,
";

    fn read(text: &str) -> Vec<Result<TimelineEvent, csv::Error>> {
        csv::Reader::from_reader(text.as_bytes()).into_deserialize().collect()
    }

    fn synthesized() -> TimelineEvent {
        TimelineEvent {
            worker: Some(0),
            job: Some(1),
            partition: Some(2),
            duration_ns: Some(1400),
            ..TimelineEvent::new(1500, TimelineKind::Synthesized)
        }
    }

    #[test]
    fn a_timeline_reads_back_as_it_was_written() {
        let events: Vec<TimelineEvent> = read(LINES).into_iter().collect::<Result<_, _>>().expect("it reads");
        assert_eq!((events[0].count, events[0].policy.as_str()), (Some(2), "two-lock"));
        assert_eq!(events[1], synthesized());
        assert_eq!((events[2].stage, events[2].task), (Some(Stage::COMPUTE), Some(7)));
        let mut writer = csv::Writer::from_writer(Vec::new());
        events.iter().for_each(|event| writer.serialize(event).expect("it is written"));
        assert_eq!(writer.into_inner().expect("all of it"), LINES.as_bytes());
    }

    #[test]
    fn a_file_without_the_columns_that_came_later_is_read() {
        let event = read(OLD).remove(0).expect("it reads");
        assert_eq!(event, synthesized());
    }

    #[test]
    fn a_stage_that_there_is_not_is_refused() {
        let events = read(&LINES.replace("Compute", "Upload"));
        assert!(events[1].is_ok());
        assert!(events[2].as_ref().expect_err("no such stage").to_string().contains("Upload"));
    }
}
