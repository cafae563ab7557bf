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
    /// The policy let the task skip Stage.
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
    /// Another policy took the seat; `detail` names it.
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

    /// Two lines as the engine has written them.
    const LINES: &str = "\
at_ns,event,core,device,worker,job,partition,task,stage,duration_ns,bytes,locks,detail
1500,synthesized,,,0,1,2,,,1400,,,
9000,entered,cpu,0,1,1,2,7,Compute,300,4096,mem+compute,inline staging
";

    #[test]
    fn a_timeline_reads_back_as_it_was_written() {
        let mut reader = csv::Reader::from_reader(LINES.as_bytes());
        let events: Vec<TimelineEvent> = reader.deserialize().collect::<Result<_, _>>().expect("it reads");
        let synthesized = TimelineEvent {
            worker: Some(0),
            job: Some(1),
            partition: Some(2),
            duration_ns: Some(1400),
            ..TimelineEvent::new(1500, TimelineKind::Synthesized)
        };
        assert_eq!(events[0], synthesized);
        assert_eq!((events[1].stage, events[1].task), (Some(Stage::COMPUTE), Some(7)));
        let mut writer = csv::Writer::from_writer(Vec::new());
        events.iter().for_each(|event| writer.serialize(event).expect("it is written"));
        assert_eq!(writer.into_inner().expect("all of it"), LINES.as_bytes());
    }

    #[test]
    fn a_stage_that_there_is_not_is_refused() {
        let text = LINES.replace("Compute", "Upload");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let events: Vec<Result<TimelineEvent, _>> = reader.deserialize().collect();
        assert!(events[0].is_ok());
        assert!(events[1].as_ref().expect_err("no such stage").to_string().contains("Upload"));
    }
}
