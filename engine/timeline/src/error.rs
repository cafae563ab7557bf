//! Why a file could not be read as a timeline: where, what, and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

use interlock_policy_api::Stage;

/// Why a file is no timeline.
#[derive(Debug, thiserror::Error)]
#[error("{}{place}: {problem}", .file.display())]
pub struct ReadError {
    /// The file, as it was named.
    pub file: PathBuf,
    /// Where in the file.
    pub place: Place,
    /// What is wrong.
    pub problem: Problem,
}

/// A place in a timeline. What is not known is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The line, from 1; the header is the first.
    pub line: Option<u64>,
    /// Name of the column.
    pub column: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match &self.column {
            Some(column) => write!(f, ", column {}", quoted(column)),
            None => Ok(()),
        }
    }
}

/// What is wrong with a timeline.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file cannot be opened or read.
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// The header is not a timeline's.
    #[error("not a timeline: the header has no column {missing:?}")]
    NotATimeline {
        /// The first column that is not there.
        missing: &'static str,
    },
    /// A header, and no event.
    #[error("not one event in it")]
    Empty,
    /// The last line has no end.
    #[error("the file is cut off: its last line has no end")]
    Truncated,
    /// A line has too many or too few columns.
    #[error("{found} columns, the header has {expected}")]
    Columns {
        /// Columns of the header.
        expected: u64,
        /// Columns of the line.
        found: u64,
    },
    /// A line is not text.
    #[error("not UTF-8")]
    NotText,
    /// An event that this version does not know.
    #[error("there is no event {}", quoted(.0))]
    UnknownEvent(String),
    /// A value of a wrong kind.
    #[error("{} is no value for this column: {message}", quoted(.found))]
    Value {
        /// What the line has.
        found: String,
        /// What was expected.
        message: String,
    },
    /// An event lacks a column that says whose it is or what of.
    #[error("empty, and {event} needs it")]
    Missing {
        /// The event's name.
        event: String,
    },
    /// Times of one task go backwards.
    #[error("at {at_ns} ns, after an event of the same task at {before_ns} ns: the times go backwards")]
    Backwards {
        /// Time of this event.
        at_ns: u64,
        /// Time of the one before.
        before_ns: u64,
    },
    /// Something took longer than there was time for.
    #[error("took {duration_ns} ns, and cannot have begun before {since_ns} ns: it ended at {at_ns} ns")]
    TooLong {
        /// How long it is said to have taken.
        duration_ns: u64,
        /// The earliest that it can have begun.
        since_ns: u64,
        /// When it ended.
        at_ns: u64,
    },
    /// An event of a task that never arrived, or has left.
    #[error("task {0} is not on a device here: it never arrived, or has left")]
    NoSuchTask(u64),
    /// A task arrived again.
    #[error("task {0} has arrived before")]
    Twice(u64),
    /// A task's event is of another device, worker, job or partition than its arrival.
    #[error("{found}, and task {task} arrived with {expected}")]
    Strayed {
        /// Number of the task.
        task: u64,
        /// What this line says.
        found: u64,
        /// What the arrival said.
        expected: u64,
    },
    /// A stage ended that had not begun.
    #[error("task {task} ends {ended}, and {}", in_stage(.inside))]
    EndWithoutBegin {
        /// Number of the task.
        task: u64,
        /// The stage that ended.
        ended: Stage,
        /// The stage it is in, if any.
        inside: Option<Stage>,
    },
    /// A stage began inside another, out of order, or a second time.
    #[error("task {task} enters {entered}, and {}", follows(.after))]
    OutOfOrder {
        /// Number of the task.
        task: u64,
        /// The stage that began.
        entered: Stage,
        /// The latest stage before.
        after: Option<Stage>,
    },
    /// A lock was given back that the task does not hold, or taken that it holds.
    #[error("task {task} {} the lock {}", if *.taken { "takes once more" } else { "gives back, and does not hold," }, quoted(.lock))]
    Lock {
        /// Number of the task.
        task: u64,
        /// Name of the lock.
        lock: String,
        /// Whether it was taken rather than given back.
        taken: bool,
    },
}

fn in_stage(stage: &Option<Stage>) -> String {
    stage.map_or("it is in no stage".into(), |stage| format!("it is in {stage}"))
}

fn follows(stage: &Option<Stage>) -> String {
    stage.map_or("it left".into(), |stage| format!("it was in {stage} last"))
}

/// Text of a file, fit for a terminal: short, and without control characters.
fn quoted(text: &str) -> String {
    const LONGEST: usize = 40;
    let short: String = text.chars().take(LONGEST).collect();
    let more = if short.len() < text.len() { "..." } else { "" };
    format!("{short:?}{more}")
}

impl ReadError {
    pub(crate) fn new(file: &Path, place: Place, problem: Problem) -> Self {
        Self { file: file.to_owned(), place, problem }
    }

    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self.problem {
            Problem::Io(_) => "Check the path, and that you may read the file.",
            Problem::NotATimeline { .. } => {
                "Timelines are what `interlock prove --timeline FILE` and `interlock simulate --timeline FILE` write; a \
                 trace for Perfetto is another thing."
            }
            Problem::Empty => "Whoever wrote it did not come to the first event: look at what that run said.",
            Problem::Truncated => {
                "The writer was stopped, the disk was full, or the copy broke off. Remove the last line to see what is \
                 there, or make the timeline again."
            }
            Problem::UnknownEvent(_) => {
                "Where a later version wrote the file, read it with that version; else the line is damaged: make the \
                 timeline again, or remove the line."
            }
            Problem::Columns { .. } | Problem::NotText | Problem::Value { .. } => {
                "The line is damaged or was edited: make the timeline again, or mend the line."
            }
            _ => {
                "Lines are missing, out of order, or of two runs: make the timeline again, each run into a file of its own."
            }
        }
    }
}
