//! What a timeline says, as spans: who did what, from when to when.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use interlock_arbiter::{TimelineEvent, TimelineKind};
use interlock_policy_api::Stage;

use crate::assembly::Assembly;
use crate::error::{Place, Problem, ReadError};
use crate::reader::Reader;

/// A timeline that has been read and checked.
///
/// Numbers of partitions and tasks in spans and marks are places in [`Timeline::partitions`] and
/// [`Timeline::tasks`]. Times are nanoseconds since the engine, or the simulation, started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// When the first thing began: the first job's submission, where the file tells it.
    pub begin_ns: u64,
    /// Time of the last event.
    pub end_ns: u64,
    /// Who ran.
    pub engine: Option<Engine>,
    /// Processors of the machine.
    pub processors: Option<u64>,
    /// The devices, in the order of their indices.
    pub devices: Vec<Device>,
    /// The jobs of which the file tells the submission, in the order of submission.
    pub jobs: Vec<Job>,
    /// The partitions, in the order in which they are first spoken of.
    pub partitions: Vec<Partition>,
    /// The tasks, in the order of arrival.
    pub tasks: Vec<Task>,
    /// The spans, in the order in which they end.
    pub spans: Vec<Span>,
    /// What happened at a moment, in the order of the file.
    pub marks: Vec<Mark>,
    /// Names of the locks.
    pub locks: Vec<String>,
}

/// Who ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Name and version.
    pub name: String,
    /// Threads that made witnesses.
    pub synthesis_workers: u64,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Its index.
    pub index: u32,
    /// The core it belongs to; empty where no event tells.
    pub core: String,
    /// What the core calls it; empty in files that do not tell.
    pub name: String,
    /// Bytes that tasks may hold at once.
    pub capacity_bytes: Option<u64>,
    /// Device workers.
    pub workers: Option<u64>,
    /// The policy in its seat at the start.
    pub policy: Option<String>,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub job: u64,
    /// When it was submitted.
    pub submitted_ns: u64,
    /// Its partitions.
    pub partitions: u64,
    /// Bytes that each task plans to stage.
    pub staged_bytes: Option<u64>,
    /// The most bytes that each task plans to hold.
    pub peak_bytes: Option<u64>,
    /// Its priority.
    pub priority: i32,
}

/// One partition of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Partition {
    /// Number of the job.
    pub job: u64,
    /// Index in the job.
    pub partition: u32,
}

/// One attempt at a partition on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its number in the file.
    pub id: u64,
    /// Of which partition.
    pub partition: u32,
    /// Where.
    pub device: u32,
    /// By which of the device's workers.
    pub worker: u32,
    /// When it came to the device.
    pub arrived_ns: u64,
    /// When it left; `None` where the file ends before that.
    pub left_ns: Option<u64>,
}

/// Something that took its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// What it was.
    pub activity: Activity,
    /// Who did it.
    pub actor: Actor,
    /// Of which partition.
    pub partition: u32,
    /// Of which task; synthesis and verification are of none.
    pub task: Option<u32>,
    /// How long the task had waited at the gate, for what began with a gate.
    pub waited_ns: u64,
    /// Device bytes that the task held.
    pub bytes: u64,
    /// A Compute that uploaded first.
    pub inline: bool,
    /// How it ended.
    pub ending: Ending,
}

/// What takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// A witness is made.
    Synthesis,
    /// A task stands at the gate of a stage.
    Wait(Stage),
    /// A task is in a stage.
    Run(Stage),
    /// A task holds a lock, by its place in [`Timeline::locks`].
    Hold(u32),
    /// A proof is verified.
    Verify,
}

/// Who does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// A synthesis worker.
    Synthesis(u32),
    /// A worker of a device.
    Device {
        /// Index of the device.
        device: u32,
        /// Index of the worker.
        worker: u32,
    },
}

/// How a span ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// As it should.
    Done,
    /// The stage failed.
    Failed,
    /// The task left before.
    GivenUp,
    /// It had not when the file ended.
    Open,
}

/// Something that happened at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at_ns: u64,
    /// What: refused, slow, skipped, failed, or about a policy or a device.
    pub kind: TimelineKind,
    /// On which device.
    pub device: Option<u32>,
    /// About which task.
    pub task: Option<u32>,
    /// The gate or stage it is about.
    pub stage: Option<Stage>,
    /// How long the task had waited when it skipped, how long the stage ran that failed, how long an answer took.
    pub took_ns: u64,
    /// What the file says about it.
    pub text: String,
}

impl Span {
    /// How long it took.
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }
}

impl Timeline {
    /// Reads a file. Memory is taken in proportion to its size: about as much.
    ///
    /// # Errors
    /// The file cannot be read, or is no timeline: see [`Problem`].
    pub fn open(file: &Path) -> Result<Self, ReadError> {
        let source =
            File::open(file).map_err(|error| ReadError::new(file, Place::default(), Problem::Io(error)))?;
        Self::read(file, source)
    }

    /// Reads a timeline from anywhere; errors call it `file`.
    ///
    /// # Errors
    /// See [`Timeline::open`].
    pub fn read(file: &Path, source: impl Read) -> Result<Self, ReadError> {
        let mut reader = Reader::new(file, source)?;
        let mut assembly = Assembly::default();
        while let Some(line) = reader.next() {
            let (line, event) = line?;
            assembly.push(event).map_err(|fault| reader.error(line, fault.column, fault.problem))?;
        }
        assembly.finish().ok_or_else(|| ReadError::new(file, Place::default(), Problem::Empty))
    }

    /// The timeline of events that were kept in memory, in the order in which they came.
    ///
    /// # Errors
    /// An event does not follow from those before it, or there is none.
    pub fn of_events(events: impl IntoIterator<Item = TimelineEvent>) -> Result<Self, Problem> {
        let mut assembly = Assembly::default();
        for event in events {
            assembly.push(event).map_err(|fault| fault.problem)?;
        }
        assembly.finish().ok_or(Problem::Empty)
    }

    /// The part between two times: spans that reach beyond them are cut there. For figures of shares of time; what was cut counts as if it had
    /// been no longer.
    #[must_use]
    pub fn within(&self, begin_ns: u64, end_ns: u64) -> Self {
        let inside = |at_ns: u64| (begin_ns..=end_ns).contains(&at_ns);
        let cut = |span: &Span| {
            let (begin, end) = (span.begin_ns.max(begin_ns), span.end_ns.min(end_ns));
            // What was waited for before the window was waited for outside of it.
            let waited_ns =
                if inside(span.begin_ns) { span.waited_ns.min(span.begin_ns - begin_ns) } else { 0 };
            (begin < end).then_some(Span { begin_ns: begin, end_ns: end, waited_ns, ..*span })
        };
        Self {
            begin_ns,
            end_ns: end_ns.max(begin_ns),
            spans: self.spans.iter().filter_map(cut).collect(),
            marks: self.marks.iter().filter(|mark| inside(mark.at_ns)).cloned().collect(),
            ..self.clone()
        }
    }

    /// From its beginning to its end.
    pub fn wall_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }

    /// Tasks that had not left when the file ended.
    pub fn unfinished(&self) -> usize {
        self.tasks.iter().filter(|task| task.left_ns.is_none()).count()
    }

    /// The device with this index, if the file speaks of it.
    pub fn device(&self, index: u32) -> Option<&Device> {
        self.devices.iter().find(|device| device.index == index)
    }

    /// The name of what a span was.
    pub fn activity_name(&self, activity: Activity) -> String {
        match activity {
            Activity::Synthesis => "Synthesis".to_owned(),
            Activity::Wait(stage) => format!("Wait for {stage}"),
            Activity::Run(stage) => stage.to_string(),
            Activity::Hold(lock) => {
                self.locks.get(lock as usize).map_or("lock".to_owned(), |name| format!("lock {name}"))
            }
            Activity::Verify => "Verify".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;

    #[test]
    fn what_two_parts_have_of_a_device_is_what_the_whole_has() {
        let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/small.csv"));
        let whole = Timeline::open(file).expect("it is a timeline");
        let busy = |timeline: &Timeline| -> Vec<u64> {
            Figures::of(timeline).devices.iter().map(|device| device.busy_ns).collect()
        };
        let all = busy(&whole);
        assert!(all.iter().any(|busy_ns| *busy_ns > 0));
        for tenth in 0..=10 {
            let middle = whole.begin_ns + whole.wall_ns() / 10 * tenth;
            let parts = [whole.within(whole.begin_ns, middle), whole.within(middle, whole.end_ns)]
                .map(|part| busy(&part));
            let sums: Vec<u64> = parts[0].iter().zip(&parts[1]).map(|(left, right)| left + right).collect();
            assert_eq!(sums, all, "cut at {middle}");
        }
    }
}
