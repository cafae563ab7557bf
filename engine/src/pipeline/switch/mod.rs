//! Switches of the policy on a live engine: what each of them came to, and which policies have served well.
//!
//! A switch begins on all devices of the main core. Each device drains, seats the new policy and goes on. The new
//! policy is then on *trial* until it has given so many verdicts, on all devices together. If one of them is refused
//! meanwhile, or the policy is quarantined, all devices go back to what sat before, in instances that were made before
//! the switch began, so that going back cannot fail. `control/README.md` has the states.
//!
//! | module | what it does |
//! |---|---|
//! | `board` | the book of all switches, which devices write to and people read |
//! | `report` | what a switch came to |
//! | [`seat`](super::seat) | a device's part |

mod board;
mod report;

use std::sync::Arc;
use std::time::Duration;

pub use crate::host::TRIAL_DECISIONS;
pub(super) use board::{Board, Swap, Task};
pub use report::{DeviceSwitch, Rate, SwapTimes, SwitchPhase, SwitchReport};

/// A switch that was begun.
pub struct Switch {
    board: Arc<Board>,
    number: u64,
}

/// Why there is nothing to go back to.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// No other policy has served well.
    #[error(
        "no other policy has served without quarantine since the engine started; `interlock policy use NAME` seats one"
    )]
    NoOther,
    /// The last switch went back by itself.
    #[error("the last switch was rolled back already: {policy}, which served before it, has its seats again")]
    RolledBack {
        /// Who sits there.
        policy: String,
    },
    /// It could not be had any more: all stays as it is.
    #[error(transparent)]
    Load(#[from] crate::host::LoadError),
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switch").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Switch {
    pub(super) fn new(board: Arc<Board>, number: u64) -> Self {
        Self { board, number }
    }

    /// Its number: the first switch of an engine is 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How far it has come.
    pub fn report(&self) -> SwitchReport {
        self.board.report(self.number)
    }

    /// Waits until `enough` holds for the report, or nothing more can come, or `timeout` has passed; then reports.
    pub fn wait(&self, timeout: Duration, enough: impl Fn(&SwitchReport) -> bool) -> SwitchReport {
        self.board.wait(self.number, timeout, enough)
    }

    /// Waits until the switch has its end, or `timeout` has passed.
    pub fn wait_decided(&self, timeout: Duration) -> SwitchReport {
        self.wait(timeout, |report| report.phase.is_final())
    }
}
