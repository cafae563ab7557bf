//! The stages of a task's work, which are also the gates before them.

use core::fmt;

/// A stage of a task's work, and the gate in front of it.
///
/// An integer newtype, so that a later minor version of the ABI can add stages without breaking
/// policies built before it: answer the default for a gate you do not know.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stage(pub u32);

impl Stage {
    /// CPU work before any device memory is held.
    pub const PREPARE: Stage = Stage(0);
    /// Reserve device memory and upload. The only stage a policy may skip.
    pub const STAGE: Stage = Stage(1);
    /// Kernels; uploads first if the task was not staged.
    pub const COMPUTE: Stage = Stage(2);
    /// CPU work that assembles the proof, device memory already freed.
    pub const FINISH: Stage = Stage(3);
    /// Every stage, in the order tasks go through them.
    pub const ALL: [Stage; 4] = [Stage::PREPARE, Stage::STAGE, Stage::COMPUTE, Stage::FINISH];

    /// The stage's name, or `None` for a number this version does not know.
    pub const fn name(self) -> Option<&'static str> {
        match self.0 {
            0 => Some("Prepare"),
            1 => Some("Stage"),
            2 => Some("Compute"),
            3 => Some("Finish"),
            _ => None,
        }
    }

    /// The stage with this name, as [`Stage::name`] spells it.
    pub fn from_name(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|stage| stage.name() == Some(name))
    }

    /// Position in [`Stage::ALL`]; also the index into per-stage arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "stage {}", self.0),
        }
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
