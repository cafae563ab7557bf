//! What a counter of energy said while a run was measured, and what that comes to.

/// Seconds below which a window tells no energy: what is left out at its ends would weigh too much.
pub const SHORTEST_S: f64 = 2.0;

/// How often a counter has to have moved inside a window.
const LEAST_STEPS: usize = 10;

/// Which share of a window has to lie between the first and the last time.
const LEAST_COVERED: f64 = 0.8;

/// Why the energy of a run is not known, though its devices count theirs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EnergyError {
    /// The window is too short.
    #[error("{seconds:.2} s are too few to tell energy by the driver's counter: it takes {SHORTEST_S} s")]
    Short {
        /// Its length.
        seconds: f64,
    },
    /// The counter stood still for too much of the window.
    #[error(
        "the driver's counter of energy moved {steps} times over {covered:.2} s of {seconds:.2} s, which is too little"
    )]
    Still {
        /// How often it moved.
        steps: usize,
        /// Seconds between the first and the last time.
        covered: f64,
        /// The window's length.
        seconds: f64,
    },
    /// The counter was set back.
    #[error("the driver's counter of energy went back from {from} mJ to {to} mJ")]
    Back {
        /// What it said before.
        from: u64,
        /// What it said then.
        to: u64,
    },
    /// The counter could not be read.
    #[error("the driver's counter of energy could not be read: {0}")]
    Unread(String),
}

/// When the counter of one device moved, and to what.
///
/// Between two moves nobody knows how much energy was used. So only what was counted from the first move in a window to the
/// last one is taken, over just that time, and as many watts are taken for the little that is left at both ends.
#[derive(Debug, Default)]
pub struct Log {
    last: Option<u64>,
    /// Nanoseconds, and millijoules from then on.
    steps: Vec<(u64, u64)>,
    error: Option<EnergyError>,
}

impl Log {
    /// Takes in what the counter says: millijoules, or why it says nothing.
    pub fn note(&mut self, at_ns: u64, reading: Result<u64, String>) {
        let now = match reading {
            Ok(now) => now,
            Err(reason) => {
                self.error.get_or_insert(EnergyError::Unread(reason));
                return;
            }
        };
        match self.last.replace(now) {
            Some(last) if now < last => {
                self.error.get_or_insert(EnergyError::Back { from: last, to: now });
            }
            Some(last) if now > last => self.steps.push((at_ns, now)),
            // The first reading is of nobody knows when.
            _ => {}
        }
    }

    /// Mean watts inside a window.
    ///
    /// # Errors
    /// They are not known.
    pub fn watts(&self, (from_ns, to_ns): (u64, u64)) -> Result<f64, EnergyError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let seconds = (to_ns - from_ns) as f64 / 1e9;
        if seconds < SHORTEST_S {
            return Err(EnergyError::Short { seconds });
        }
        let begin = self.steps.partition_point(|(at_ns, _)| *at_ns < from_ns);
        let end = self.steps.partition_point(|(at_ns, _)| *at_ns <= to_ns);
        let inside = &self.steps[begin..end];
        let (steps, ends) = (inside.len(), inside.first().zip(inside.last()));
        let (covered, millijoules) = ends.map_or((0.0, 0), |((first_ns, first), (last_ns, last))| {
            ((last_ns - first_ns) as f64 / 1e9, last - first)
        });
        if steps < LEAST_STEPS || covered < LEAST_COVERED * seconds {
            return Err(EnergyError::Still { steps, covered, seconds });
        }
        Ok(millijoules as f64 / 1e3 / covered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A counter that moves each 100 ms, at 30 ms, 130 ms, …, and is read each 10 ms until `to_ms`.
    fn read(to_ms: u64, watts_at: impl Fn(u64) -> u64) -> Log {
        let mut log = Log::default();
        let mut millijoules = 5_000_000;
        for at_ms in (0..=to_ms).step_by(10) {
            if at_ms % 100 == 30 {
                // What was used in the 100 ms before.
                millijoules += 100 * watts_at(at_ms - 30);
            }
            log.note(at_ms * MS, Ok(millijoules));
        }
        log
    }

    #[test]
    fn what_was_counted_between_moves_is_spread_over_the_time_between_them() {
        // 500 W from 1 s to 3 s, 100 W before; moves from 1.03 s on that count: 2.93 - 1.03 s.
        let log = read(4000, |at_ms| if at_ms < 1000 { 100 } else { 500 });
        // By hand: the move at 1.03 s is the first inside, and each after it adds 100 ms of 500 W, 50 J: 19 of them over 1.9 s.
        assert_eq!(log.watts((1000 * MS, 3000 * MS)), Ok(19.0 * 50.0 / 1.9));
        // From 0: moves at 30 ms, 130 ms, …, 2.93 s. Of the 29 after the first, those up to 930 ms add 10 J, the others 50 J.
        let by_hand = (9.0 * 10.0 + 20.0 * 50.0) / 2.9;
        assert_eq!(log.watts((0, 3000 * MS)), Ok(by_hand));
    }

    #[test]
    fn what_the_counter_had_before_the_first_reading_is_nobodys() {
        let mut log = Log::default();
        log.note(0, Ok(9_000_000));
        (1..=30).for_each(|step| log.note(step * 100 * MS, Ok(9_000_000 + step * 20_000)));
        assert_eq!(log.watts((0, 3000 * MS)), Ok(200.0));
    }

    #[test]
    fn short_windows_are_told_as_short() {
        let log = read(4000, |_| 300);
        assert_eq!(log.watts((0, 1990 * MS)), Err(EnergyError::Short { seconds: 1.99 }));
        assert_eq!(log.watts((1000 * MS, 3000 * MS)), Ok(300.0));
    }

    #[test]
    fn a_counter_that_stands_still_tells_nothing() {
        let mut slow = Log::default();
        // Each 500 ms: 4.5 s hold 9 moves, 5 s hold 10.
        (0..=20).for_each(|step| slow.note(step * 500 * MS, Ok(step * 150_000)));
        let still = EnergyError::Still { steps: 9, covered: 4.0, seconds: 4.5 };
        assert_eq!(slow.watts((250 * MS, 4750 * MS)), Err(still));
        assert_eq!(slow.watts((250 * MS, 5250 * MS)), Ok(300.0));
        // It moves often, and then no more.
        let ended = read(3000, |_| 300);
        assert!(matches!(ended.watts((0, 4000 * MS)), Err(EnergyError::Still { steps: 30, .. })));
        assert!(matches!(Log::default().watts((0, 4000 * MS)), Err(EnergyError::Still { steps: 0, .. })));
    }

    #[test]
    fn one_bad_reading_makes_the_rest_unknown() {
        for (bad, error) in [
            (Ok(4_999_999), EnergyError::Back { from: 5_000_000, to: 4_999_999 }),
            (Err("the card is lost".to_owned()), EnergyError::Unread("the card is lost".to_owned())),
        ] {
            let mut log = Log::default();
            log.note(0, Ok(5_000_000));
            log.note(MS, bad);
            (1..=40).for_each(|step| log.note(step * 100 * MS, Ok(5_000_000 + step * 30_000)));
            assert_eq!(log.watts((0, 3000 * MS)), Err(error));
        }
    }
}
