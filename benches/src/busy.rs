//! How much of the time devices compute.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use interlock_engine::pipeline::{Recorder, TimelineEvent, TimelineKind};
use interlock_policy_api::Stage;

/// Spans of time, in nanoseconds: begin and end.
type Spans = Vec<(u64, u64)>;

/// Keeps when tasks of each device were in Compute.
#[derive(Default)]
pub struct Busy(Mutex<BTreeMap<u32, Spans>>);

impl Recorder for Busy {
    fn record(&self, event: &TimelineEvent) {
        if let (TimelineKind::Ended, Some(Stage::COMPUTE), Some(device), Some(duration)) =
            (event.event, event.stage, event.device, event.duration_ns)
        {
            let span = (event.at_ns.saturating_sub(duration), event.at_ns);
            self.spans().entry(device).or_default().push(span);
        }
    }
}

impl Busy {
    /// Takes out what was kept: the seconds in which some task of a device was in Compute, all devices together.
    pub fn take_seconds(&self) -> f64 {
        std::mem::take(&mut *self.spans()).into_values().map(covered_seconds).sum()
    }

    fn spans(&self) -> MutexGuard<'_, BTreeMap<u32, Spans>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time that lies in any of `spans`.
fn covered_seconds(mut spans: Spans) -> f64 {
    spans.sort_unstable();
    let mut until = 0;
    let mut covered = 0;
    for (begin, end) in spans {
        covered += end.saturating_sub(begin.max(until));
        until = until.max(end);
    }
    covered as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_two_compute_counts_once_for_each_device() {
        let busy = Busy::default();
        busy.spans().insert(0, vec![(5, 10), (0, 3), (8, 12), (9, 11), (20, 21)]);
        busy.spans().insert(3, vec![(5, 10)]);
        assert!((busy.take_seconds() * 1e9 - 16.0).abs() < 1e-6);
        assert!(busy.take_seconds() == 0.0);
    }
}
