//! How much of the time a device computes.

use std::sync::Mutex;

use interlock_engine::pipeline::{Recorder, TimelineEvent, TimelineKind};
use interlock_policy_api::Stage;

/// Keeps when tasks were in Compute.
#[derive(Default)]
pub struct Busy(Mutex<Vec<(u64, u64)>>);

impl Recorder for Busy {
    fn record(&self, event: &TimelineEvent) {
        if let (TimelineKind::Ended, Some(Stage::COMPUTE), Some(duration)) =
            (event.event, event.stage, event.duration_ns)
        {
            let mut spans = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            spans.push((event.at_ns.saturating_sub(duration), event.at_ns));
        }
    }
}

impl Busy {
    /// Takes out what was kept: the seconds in which some task was in Compute.
    pub fn take_seconds(&self) -> f64 {
        let mut spans =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        spans.sort_unstable();
        let mut until = 0;
        let mut busy = 0;
        for (begin, end) in spans {
            busy += end.saturating_sub(begin.max(until));
            until = until.max(end);
        }
        busy as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_two_compute_counts_once() {
        let busy = Busy::default();
        busy.0.lock().unwrap().extend([(5, 10), (0, 3), (8, 12), (9, 11), (20, 21)]);
        assert!((busy.take_seconds() * 1e9 - 11.0).abs() < 1e-6);
        assert!(busy.take_seconds() == 0.0);
    }
}
