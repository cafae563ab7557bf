//! How much was done in a span of time by somebody who shared what does it.

/// A clock that runs as fast as work goes on. Whoever shares gets the same part of what they ask for, so one clock serves all:
/// the simulator's model of the processor and of kernels that share a device.
#[derive(Clone, Debug)]
pub(crate) struct SharedClock {
    /// From when on, how much had been done by then, and at which rate it goes on.
    pieces: Vec<(u64, f64, f64)>,
}

/// Something that goes on from one time to another, and asks for so much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub begin_ns: u64,
    pub end_ns: u64,
    pub asks: f64,
}

/// Demands are summed in millionths, so that what was added is taken away again to the last digit.
const MILLIONTHS: f64 = 1e6;

impl SharedClock {
    /// The clock of those who ask, where `rate` says how fast all go on when so much is asked for.
    pub fn new(demands: impl IntoIterator<Item = Demand>, rate: impl Fn(f64) -> f64) -> Self {
        let mut changes: Vec<(u64, i64)> = Vec::new();
        for Demand { begin_ns, end_ns, asks } in demands {
            let asks = (asks * MILLIONTHS).round() as i64;
            changes.extend([(begin_ns, asks), (end_ns, -asks)]);
        }
        changes.sort_unstable();
        let (mut pieces, mut asked, mut done): (Vec<(u64, f64, f64)>, i64, f64) = (Vec::new(), 0, 0.0);
        for (at_ns, change) in changes {
            asked += change;
            let now = rate(asked as f64 / MILLIONTHS);
            if let Some((since_ns, _, before)) = pieces.last().copied() {
                done += (at_ns - since_ns) as f64 * before;
                if since_ns == at_ns {
                    pieces.pop();
                }
            }
            pieces.push((at_ns, done, now));
        }
        Self { pieces }
    }

    /// What was done between two times, in nanoseconds that it takes with nobody to share with.
    pub fn work_ns(&self, begin_ns: u64, end_ns: u64) -> f64 {
        self.done_by(end_ns) - self.done_by(begin_ns)
    }

    /// The rate at which it goes on from a time on.
    pub fn rate_at(&self, at_ns: u64) -> f64 {
        let after = self.pieces.partition_point(|(since_ns, ..)| *since_ns <= at_ns);
        after.checked_sub(1).map_or(1.0, |index| self.pieces[index].2)
    }

    fn done_by(&self, at_ns: u64) -> f64 {
        let after = self.pieces.partition_point(|(since_ns, ..)| *since_ns <= at_ns);
        match after.checked_sub(1).map(|index| self.pieces[index]) {
            Some((since_ns, done, rate)) => done + (at_ns - since_ns) as f64 * rate,
            // Before the first piece nobody asks, and nothing slows anybody down.
            None => {
                self.pieces.first().map_or(at_ns as f64, |(first_ns, ..)| at_ns as f64 - *first_ns as f64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(spans: &[(u64, u64, f64)], cores: f64) -> SharedClock {
        let demand = |(begin_ns, end_ns, asks): &(u64, u64, f64)| Demand {
            begin_ns: *begin_ns,
            end_ns: *end_ns,
            asks: *asks,
        };
        SharedClock::new(spans.iter().map(demand), |asked| (cores / asked).min(1.0))
    }

    #[test]
    fn who_is_alone_gets_all() {
        assert_eq!(clock(&[(10, 30, 2.0)], 2.0).work_ns(10, 30), 20.0);
    }

    #[test]
    fn who_shares_gets_a_part() {
        // Two ask for two cores each from 20 to 40: half the speed.
        let clock = clock(&[(0, 40, 2.0), (20, 60, 2.0)], 2.0);
        assert_eq!((clock.work_ns(0, 40), clock.work_ns(20, 60)), (30.0, 30.0));
        assert_eq!(clock.work_ns(20, 40), 10.0);
        assert_eq!([0, 20, 39, 40].map(|at_ns| clock.rate_at(at_ns)), [1.0, 0.5, 0.5, 1.0]);
    }

    #[test]
    fn what_ends_when_another_begins_shares_nothing() {
        let clock = clock(&[(0, 10, 2.0), (10, 20, 2.0), (10, 20, 0.0)], 2.0);
        assert_eq!((clock.work_ns(0, 10), clock.work_ns(10, 20)), (10.0, 10.0));
    }
}
