//! How far a check is.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// How far a check is, for whoever waits for it: read it from another thread, as a line.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU8,
    orders: AtomicU32,
    random: AtomicU32,
    scenarios: AtomicU32,
}

/// What a check does.
#[derive(Clone, Copy)]
pub(crate) enum Phase {
    Cost,
    Scenarios,
    Smaller,
}

impl Progress {
    /// Of a check that has not begun.
    pub fn new() -> Progress {
        Progress::default()
    }

    pub(crate) fn begin(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// So many random scenarios there are to run.
    pub(crate) fn expect(&self, scenarios: u32) {
        self.scenarios.store(scenarios, Ordering::Relaxed);
    }

    pub(crate) fn count_order(&self) {
        self.orders.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_random(&self) {
        self.random.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
        match self.phase.load(Ordering::Relaxed) {
            phase if phase == Phase::Cost as u8 => f.write_str("measuring what a decision costs"),
            phase if phase == Phase::Smaller as u8 => {
                f.write_str("looking for shorter scenarios that break a law")
            }
            _ => write!(
                f,
                "{} orders of small scenarios, {} of {} random ones",
                of(&self.orders),
                of(&self.random),
                of(&self.scenarios)
            ),
        }
    }
}
