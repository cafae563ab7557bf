//! Why a scenario is refused.

use std::path::PathBuf;

use interlock_settings::Position;

use crate::distribution::DistributionError;

/// The largest scenario file that is read, in bytes.
pub const MOST_SCENARIO_BYTES: u64 = 16 << 20;

/// Why a scenario is refused: what is wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}{fault}", place(.file, *.position))]
pub struct ScenarioError {
    /// The file it came from, if it came from one.
    pub file: Option<PathBuf>,
    /// The value in question, if the scenario was read from a text.
    pub position: Option<Position>,
    /// What is wrong.
    pub fault: ScenarioFault,
}

/// What is wrong with a scenario.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioFault {
    /// The file could not be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// The file is too long to be a scenario.
    #[error("longer than {} MiB, which is the most that is read", MOST_SCENARIO_BYTES >> 20)]
    TooLong,
    /// The file is no text.
    #[error("not UTF-8 text")]
    NotText,
    /// The text is no scenario: syntax, unknown fields, wrong types, values that are no times or sizes.
    #[error("{0}")]
    Syntax(String),
    /// A list that must not be empty.
    #[error("there are no {0}; a scenario has at least one")]
    Empty(&'static str),
    /// A count of nothing.
    #[error("{what}: 0; write at least 1")]
    Zero {
        /// What is counted.
        what: &'static str,
    },
    /// A count that is too large.
    #[error("{what}: {count} are more than the {most} that a simulation takes")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// The most.
        most: u64,
    },
    /// Not a number that can be meant.
    #[error("{value} is no {what}; write {instead}")]
    BadNumber {
        /// What it should be.
        what: &'static str,
        /// What it is.
        value: f64,
        /// What would be right.
        instead: &'static str,
    },
    /// A name without a letter.
    #[error("this {what} has an empty name; write one, or several could not be told apart")]
    NoName {
        /// What it is.
        what: &'static str,
    },
    /// Two things have one name.
    #[error("another {what} is named \"{name}\" too; give each its own name")]
    Duplicate {
        /// What they are.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name that nothing has.
    #[error("no {what} is named \"{name}\"; there are: {}", .known.join(", "))]
    Unknown {
        /// What it should be.
        what: &'static str,
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A distribution of no times.
    #[error("{0}")]
    Distribution(#[from] DistributionError),
    /// A task that no device can hold.
    #[error(
        "a task of class \"{class}\" plans {}, the largest device has {}; make it smaller or the device larger",
        size(*.peak), size((*.largest).into())
    )]
    LargerThanDevice {
        /// Name of the class.
        class: String,
        /// What it plans, `staged` and `extra` together, in bytes.
        peak: u128,
        /// The largest device, in bytes.
        largest: u64,
    },
    /// Work that asks for more of the host than there is.
    #[error(
        "one task alone asks for {asked} {what}, the host has {there}; ask for less, or give the host more"
    )]
    MoreThanHost {
        /// Of what.
        what: &'static str,
        /// How much the work asks for.
        asked: f64,
        /// How much there is.
        there: f64,
    },
    /// A trace whose times go backwards.
    #[error(
        "this job comes at {at}, after one at {before} in the list; put the jobs in the order of their times"
    )]
    BackwardsTrace {
        /// Its time.
        at: crate::Time,
        /// The time of the one before it.
        before: crate::Time,
    },
    /// Jobs of a trace that wait for each other.
    #[error("these jobs wait for each other and none would ever come: {}; take one `after` away", .names.join(" after "))]
    Cycle {
        /// Their names, each after the next one; the first again at the end.
        names: Vec<String>,
    },
}

/// A number of bytes, with a unit that suits it where there is one.
fn size(bytes: u128) -> String {
    match [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)].iter().find(|(_, bits)| bytes >> bits > 0) {
        Some((unit, bits)) => format!("{:.2} {unit} ({bytes} bytes)", bytes as f64 / (1_u64 << bits) as f64),
        None => format!("{bytes} bytes"),
    }
}

fn place(file: &Option<PathBuf>, position: Option<Position>) -> String {
    match (file, position) {
        (Some(file), Some(position)) => format!("{}:{position}: ", file.display()),
        (Some(file), None) => format!("{}: ", file.display()),
        (None, Some(position)) => format!("{position}: "),
        (None, None) => String::new(),
    }
}
