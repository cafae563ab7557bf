//! The laws.

use std::fmt;

/// A law that a policy has to keep. The README of this crate says exactly what each one means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    /// It answers each call: no panic, no crash, no silence.
    Answers,
    /// Each answer can be carried out: a known kind, where it may be given, with enough bytes, waiting for something.
    Verdicts,
    /// It lets nobody in while a lock of the gate is taken.
    Exclusion,
    /// It reserves no bytes that are not there, that others need to finish, or that the task never uses.
    Overcommit,
    /// It never waits for something that cannot come.
    Deadlock,
    /// Each task comes to its end, and is not passed by later ones for ever.
    BoundedWait,
    /// It keeps no task waiting for longer than it said, when the task could go in and nothing runs before it.
    WorkConservation,
    /// It lets nobody in at a gate before a task of higher priority that could go in there.
    Priority,
    /// The same calls get the same answers, whenever and wherever.
    Determinism,
    /// It takes what a later host may send.
    Strangers,
    /// It decides in time.
    DecisionCost,
}

impl Law {
    /// Every law, in the order of reports.
    pub const ALL: [Law; 11] = [
        Law::Answers,
        Law::Verdicts,
        Law::Exclusion,
        Law::Overcommit,
        Law::Deadlock,
        Law::BoundedWait,
        Law::WorkConservation,
        Law::Priority,
        Law::Determinism,
        Law::Strangers,
        Law::DecisionCost,
    ];

    /// A short name, for programs and file names: it does not change from one version to the next.
    pub fn code(self) -> &'static str {
        match self {
            Law::Answers => "answers",
            Law::Verdicts => "verdicts",
            Law::Exclusion => "exclusion",
            Law::Overcommit => "overcommit",
            Law::Deadlock => "deadlock",
            Law::BoundedWait => "bounded-wait",
            Law::WorkConservation => "work-conservation",
            Law::Priority => "priority",
            Law::Determinism => "determinism",
            Law::Strangers => "strangers",
            Law::DecisionCost => "decision-cost",
        }
    }

    /// What it asks for, in a line.
    pub fn text(self) -> &'static str {
        match self {
            Law::Answers => "it answers each call",
            Law::Verdicts => "each verdict can be carried out",
            Law::Exclusion => "nobody is let in while a lock of the gate is taken",
            Law::Overcommit => "no bytes are asked for that cannot be had",
            Law::Deadlock => "somebody can always go on",
            Law::BoundedWait => "each task comes to its end, however many come later",
            Law::WorkConservation => "the device does not idle while a task could go in",
            Law::Priority => "higher priority goes first at each gate",
            Law::Determinism => "the same calls get the same answers",
            Law::Strangers => "events and fields of later hosts are taken",
            Law::DecisionCost => "a decision is cheap",
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}

/// How a law was broken.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Break {
    /// Which law.
    pub law: Law,
    /// When, in virtual nanoseconds since the scenario began.
    pub at_ns: u64,
    /// Events of the scenario until then.
    pub events: usize,
    /// What happened, in a sentence.
    pub what: String,
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.law, self.what)
    }
}
