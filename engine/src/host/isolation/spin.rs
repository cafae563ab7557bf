//! Waiting actively, where that pays.

use std::time::{Duration, Instant};

/// The most waits in a row that are not active after vain ones.
const LONGEST_PAUSE: u32 = 63;

/// Waits actively for a while before it gives up.
///
/// Active waiting saves a trip through the scheduler, if the other side has a processor. If it has none, it is the waiter that
/// keeps it from running. So after a vain wait the next one is not active, after two in a row the next three, and so on.
pub(super) struct Spin {
    longest: Duration,
    /// Vain waits in a row, as a mask: how many waits to leave out after the next vain one.
    pause: u32,
    left_out: u32,
}

impl Spin {
    /// Waits for `longest` at the most; never actively when that is zero.
    pub fn new(longest: Duration) -> Self {
        Self { longest, pause: 0, left_out: 0 }
    }

    /// Waits until `ready`. Returns whether it is.
    pub fn until(&mut self, ready: impl Fn() -> bool) -> bool {
        if self.left_out > 0 {
            self.left_out -= 1;
            return ready();
        }
        let start = Instant::now();
        loop {
            for _ in 0..16 {
                if ready() {
                    self.pause = 0;
                    return true;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() >= self.longest {
                self.pause = (self.pause << 1 | 1).min(LONGEST_PAUSE);
                self.left_out = self.pause;
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How often `ready` is looked at in a wait for what never comes.
    fn looks(spin: &mut Spin) -> u32 {
        let looks = Cell::new(0);
        assert!(!spin.until(|| {
            looks.set(looks.get() + 1);
            false
        }));
        looks.get()
    }

    #[test]
    fn after_vain_waits_it_pauses_and_after_a_good_one_it_does_not() {
        let mut spin = Spin::new(Duration::from_micros(1));
        for pause in [1, 3, 7, 15, 31, 63, 63] {
            assert!(looks(&mut spin) > 1);
            for _ in 0..pause {
                assert_eq!(looks(&mut spin), 1, "it only looks");
            }
        }
        assert!(spin.until(|| true));
        assert!(looks(&mut spin) > 1);
        assert_eq!(looks(&mut spin), 1);
        assert!(looks(&mut spin) > 1, "the pauses begin anew");
    }

    #[test]
    fn what_is_ready_is_seen_during_a_pause() {
        let mut spin = Spin::new(Duration::ZERO);
        looks(&mut spin);
        assert!(spin.until(|| true));
    }
}
