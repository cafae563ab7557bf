//! From the world at its end to the figures.

use super::World;
use super::seat::Seat;
use crate::figures::seconds;
use crate::{DeviceFigures, PolicyFigures};

impl World<'_> {
    /// The figures of a run that is over.
    pub(super) fn figures(&mut self, name: &str) -> PolicyFigures {
        let tally = std::mem::take(&mut self.tally);
        let end_ns = tally.last_end_ns();
        let now_ns = self.now_ns;
        let devices = self.seats.iter_mut().map(|seat| device(seat, now_ns, end_ns)).collect();
        let mut figures = tally.figures(name, devices);
        for seat in &mut self.seats {
            let counters = seat.arbiter.counters();
            figures.skips += counters.skips;
            figures.waits += counters.waits;
            for (reason, count) in &counters.refusals {
                *figures.refused.entry(*reason).or_default() += count;
            }
            for (lock, waited_ns) in &seat.lock_wait_ns {
                *figures.lock_waits_s.entry(lock.clone()).or_default() += seconds(*waited_ns);
            }
            figures.quarantines.append(&mut seat.quarantines);
        }
        figures
    }
}

fn device(seat: &mut Seat, now_ns: u64, end_ns: u64) -> DeviceFigures {
    let part = |ns: u64| if end_ns > 0 { ns as f64 / end_ns as f64 } else { 0.0 };
    DeviceFigures {
        device: seat.index,
        policy: seat.policy_name.clone(),
        busy: part(seat.compute_busy.total_ns(now_ns)),
        kernels_busy: part(seat.engines.busy_ns(now_ns)),
        capacity_bytes: seat.capacity_bytes,
        peak_reserved_bytes: seat.arbiter.counters().peak_reserved_bytes,
        peak_taken_bytes: seat.memory.most,
        lost: seat.lost,
        policy_stats: seat.policy.stats().unwrap_or_default().into_iter().collect(),
    }
}
