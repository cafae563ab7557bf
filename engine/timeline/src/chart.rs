//! Spans in lanes on one axis of time, to be drawn: a Gantt chart.
//!
//! A [`Chart`] is drawn by `templates/chart.js`, and knows nothing of where its spans come from: one group for each device of
//! a run, or one for each arm of a comparison.

use serde::Serialize;

mod lanes;
mod of_timeline;
mod side_by_side;

pub use lanes::MOST_BARS;
pub(crate) use of_timeline::{letter, sentence};

/// What is drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Chart {
    /// Where the axis begins; bars and flags tell their times since then.
    pub begin_ns: u64,
    /// How long the axis is.
    pub length_ns: u64,
    /// The kinds of bar.
    pub kinds: Vec<Kind>,
    /// The groups, from top to bottom.
    pub groups: Vec<Group>,
    /// Names that bars refer to: who or what each is about.
    pub subjects: Vec<String>,
}

/// A kind of bar.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Kind {
    /// What people call it.
    pub name: String,
    /// Which colour and pattern it has: a name that `chart.js` knows.
    pub look: &'static str,
}

/// Lanes that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Its heading.
    pub name: String,
    /// More about it.
    pub note: String,
    /// The lanes, from top to bottom.
    pub lanes: Vec<Lane>,
    /// Lanes that were left out because there are too many.
    pub lanes_left_out: usize,
    /// What happened at a moment.
    pub flags: Vec<Flag>,
}

/// Bars that do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// What stands before it.
    pub name: String,
    /// The bars, from left to right.
    #[serde(serialize_with = "lanes::in_columns")]
    pub bars: Vec<Bar>,
}

/// One bar. Its time counts from [`Chart::begin_ns`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bar {
    /// Where it begins.
    pub begin_ns: u64,
    /// How long it is.
    pub length_ns: u64,
    /// Place in [`Chart::kinds`].
    pub kind: usize,
    /// Place in [`Chart::subjects`].
    pub subject: usize,
    /// How long it had been waited for.
    pub waited_ns: u64,
    /// Device bytes.
    pub bytes: u64,
    /// 0 done, 1 failed, 2 given up, 3 open when the file ended.
    pub ending: u8,
    /// Uploaded in Compute.
    pub inline: bool,
    /// How many short ones were put together in this bar; 1 for most.
    pub count: u32,
}

/// A sign at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flag {
    /// When, from [`Chart::begin_ns`].
    pub at_ns: u64,
    /// One letter.
    pub letter: char,
    /// What it says.
    pub text: String,
}
