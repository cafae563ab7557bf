//! The device memory of all tasks: one allocation, made when the device is opened, cut up here.
//!
//! Staged blocks are taken from the low end and the blocks of Compute from the high end, so that the
//! short-lived big ones do not split the room of the long-lived small ones.

use std::collections::BTreeMap;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Blocks start and end at multiples of this: what the widest loads and the copy engines like.
pub const ALIGNMENT: u64 = 512;

/// Rounds up to a whole number of [`ALIGNMENT`]s.
pub const fn aligned(bytes: u64) -> u64 {
    bytes.div_ceil(ALIGNMENT) * ALIGNMENT
}

/// From which end a block is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The lowest gap that is wide enough.
    Low,
    /// The highest gap that is wide enough, at its top.
    High,
}

/// Which bytes are taken.
#[derive(Debug)]
pub struct Arena {
    capacity: u64,
    /// Start, length and end of each taken block.
    taken: BTreeMap<u64, (u64, End)>,
    held: u64,
    peak: u64,
}

impl Arena {
    /// An arena of `capacity` bytes, rounded down to a whole number of [`ALIGNMENT`]s.
    pub fn new(capacity: u64) -> Self {
        let capacity = capacity / ALIGNMENT * ALIGNMENT;
        Self { capacity, taken: BTreeMap::new(), held: 0, peak: 0 }
    }

    /// Bytes in all.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that are taken.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// The most bytes that were ever taken at once.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Takes a block and returns where it starts, or nothing when no gap is wide enough. An empty block takes
    /// one [`ALIGNMENT`], so that its start is its own.
    pub fn take(&mut self, bytes: u64, end: End) -> Option<u64> {
        if bytes > self.capacity {
            return None;
        }
        let bytes = aligned(bytes.max(1));
        let start = self.gap(bytes, end)?;
        self.taken.insert(start, (bytes, end));
        self.held += bytes;
        self.peak = self.peak.max(self.held);
        Some(start)
    }

    /// Whether a block that cannot be had now may be had once short-lived blocks are given back: there are bytes enough,
    /// but not side by side.
    fn is_worth_waiting(&self, bytes: u64) -> bool {
        let enough = self.held.saturating_add(bytes) <= self.capacity;
        enough && self.taken.values().any(|(_, end)| *end == End::High)
    }

    /// Where a block of `bytes` bytes can start.
    fn gap(&self, bytes: u64, end: End) -> Option<u64> {
        let mut gaps = self.gaps().filter(|(start, end)| end - start >= bytes);
        match end {
            End::Low => gaps.next().map(|(start, _)| start),
            End::High => gaps.last().map(|(_, end)| end - bytes),
        }
    }

    /// Gives a block back.
    ///
    /// # Panics
    /// When no taken block starts at `start`.
    pub fn give_back(&mut self, start: u64) {
        let (bytes, _) = self.taken.remove(&start).expect("a block is given back once");
        self.held -= bytes;
    }

    /// The free ranges, from low to high.
    fn gaps(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let ends = self.taken.iter().map(|(start, (bytes, _))| start + bytes);
        let starts = self.taken.keys().copied().chain([self.capacity]);
        std::iter::once(0).chain(ends).zip(starts)
    }
}

/// An arena for several threads.
pub struct SharedArena {
    arena: Mutex<Arena>,
    given_back: Condvar,
}

impl SharedArena {
    /// See [`Arena::new`].
    pub fn new(capacity: u64) -> Self {
        Self { arena: Mutex::new(Arena::new(capacity)), given_back: Condvar::new() }
    }

    /// The arena itself.
    pub fn lock(&self) -> MutexGuard<'_, Arena> {
        self.arena.lock()
    }

    /// As [`Arena::take`]. The ledger counts bytes and knows no gaps: where there are bytes enough, but not side by side,
    /// this waits for blocks from the high end, which are given back as soon as a Compute is done.
    ///
    /// # Errors
    /// How many bytes are taken, when there is nothing to wait for.
    pub fn take(&self, bytes: u64, end: End) -> Result<u64, u64> {
        let mut arena = self.arena.lock();
        loop {
            if let Some(start) = arena.take(bytes, end) {
                return Ok(start);
            }
            if !arena.is_worth_waiting(bytes) {
                return Err(arena.held());
            }
            self.given_back.wait(&mut arena);
        }
    }

    /// See [`Arena::give_back`].
    pub fn give_back(&self, start: u64) {
        self.arena.lock().give_back(start);
        self.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_from_their_end_and_gaps_are_used_again() {
        let mut arena = Arena::new(10 * ALIGNMENT + 7);
        assert_eq!(arena.capacity(), 10 * ALIGNMENT);
        let low = arena.take(1, End::Low).unwrap();
        let high = arena.take(2 * ALIGNMENT, End::High).unwrap();
        assert_eq!((low, high), (0, 8 * ALIGNMENT));
        let second = arena.take(3 * ALIGNMENT, End::Low).unwrap();
        assert_eq!(second, ALIGNMENT);
        assert_eq!(arena.take(5 * ALIGNMENT, End::Low), None);
        assert_eq!(arena.take(4 * ALIGNMENT, End::High), Some(4 * ALIGNMENT));
        arena.give_back(second);
        assert_eq!(arena.take(3 * ALIGNMENT, End::High), Some(ALIGNMENT));
        assert_eq!((arena.held(), arena.peak()), (10 * ALIGNMENT, 10 * ALIGNMENT));
        assert_eq!(arena.take(1, End::Low), None);
    }

    #[test]
    fn bytes_that_are_not_side_by_side_are_waited_for() {
        let unit = |units: u64| units * ALIGNMENT;
        let arena = SharedArena::new(unit(6));
        let [staged_a, staged_b] = [(); 2].map(|()| arena.take(unit(1), End::Low).unwrap());
        let [a, b] = [(); 2].map(|()| arena.take(unit(2), End::High).unwrap());
        [staged_a, a].into_iter().for_each(|start| arena.give_back(start));
        let [_, staged_d] = [(); 2].map(|()| arena.take(unit(1), End::Low).unwrap());
        assert_eq!(staged_d, unit(4), "where a computed");
        [staged_b, b].into_iter().for_each(|start| arena.give_back(start));
        let c = arena.take(unit(2), End::High).unwrap();
        assert_eq!((c, arena.lock().held()), (unit(2), unit(4)));
        std::thread::scope(|scope| {
            let d = scope.spawn(|| arena.take(unit(2), End::High));
            arena.give_back(c);
            assert_eq!(d.join().unwrap(), Ok(unit(2)));
        });
        assert_eq!(arena.take(unit(3), End::High), Err(unit(4)), "too much is told at once");
    }

    #[test]
    fn random_blocks_never_overlap_and_all_comes_back() {
        let mut arena = Arena::new(1 << 20);
        let mut live: Vec<(u64, u64)> = Vec::new();
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..2_000 {
            if random(2) == 0 && !live.is_empty() {
                let (start, _) = live.swap_remove(random(live.len() as u64) as usize);
                arena.give_back(start);
                continue;
            }
            let bytes = random(100_000);
            let end = if random(2) == 0 { End::Low } else { End::High };
            if let Some(start) = arena.take(bytes, end) {
                assert!(start + bytes <= arena.capacity());
                assert!(
                    live.iter().all(|(other, length)| start + bytes <= *other || other + length <= start)
                );
                live.push((start, bytes));
            }
        }
        for (start, _) in live {
            arena.give_back(start);
        }
        assert_eq!(arena.held(), 0);
        assert_eq!(arena.take(1 << 20, End::High), Some(0));
    }
}
