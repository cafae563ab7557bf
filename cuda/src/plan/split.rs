//! How entries are sorted into buckets in two steps (`kernels/split.cu`): which sums are sorted so, and where everything
//! is meanwhile.

use super::sums::{Layout, Passes, Work, window_count};
use crate::arena::aligned;

/// Groups of buckets, as the kernels have them.
pub const GROUPS: u64 = 512;

/// Bits that say which member of its group a bucket is: no more than there is room for in shared memory, and so many that the
/// groups are all used.
const MEMBER_BITS: std::ops::RangeInclusive<u32> = 4..=10;

/// Threads of a block of the kernels but `split_digits` and `begin_groups`, as these have them.
pub const THREADS: u64 = 512;

/// Threads of a block of `split_digits` where there is shared memory for them: the more, the longer runs it writes; and where there
/// is not.
pub const MORE_THREADS: u64 = 1024;
const FEWER_THREADS: u64 = 512;

/// Points that a thread of `count_groups` takes.
pub const COUNT_POINTS: u64 = 8;

/// Entries that a block takes of a group's run.
pub const CHUNK: u64 = 16 * THREADS;

/// What a launch of `place_members` gives a block of shared memory: entries, and members.
pub const PLACE_SHARED_BYTES: u32 = 6 * CHUNK as u32;

/// The most windows that are split at a time.
pub const MOST_SPLIT: u64 = 16;

/// The fewest that are worth it in turns: points are read twice for so many.
const LEAST_SPLIT: u64 = 3;

/// With fewer points, counters and buckets are in the L2 cache anyway: measured at 2^17, where it wins if all windows are split at
/// once, and from 2^19 on, where it does in two turns too. A key for a domain of 2^k has 2^k points or one less.
const LEAST_POINTS: u64 = (1 << 17) - 1;
const LEAST_POINTS_IN_TURNS: u64 = (1 << 19) - 1;

/// Runs of groups begin at a multiple of so many entries.
const QUAD: u64 = 4;

/// What `split_digits` declares of shared memory itself: two words for each group, and one for each warp.
const SPLIT_TABLES: u64 = 8 * GROUPS + 4 * 32;

/// What a launch of `split_digits` gives a block of shared memory: two words for each window of a point.
pub const fn split_shared_bytes(windows: u64, threads: u64) -> u32 {
    (8 * windows * threads) as u32
}

/// Threads of a block of `split_digits`, where blocks can have so many bytes of shared memory.
pub const fn split_threads(block_shared_bytes: u64) -> u64 {
    let wide = split_shared_bytes(MOST_SPLIT, MORE_THREADS) as u64 + SPLIT_TABLES;
    if wide <= block_shared_bytes { MORE_THREADS } else { FEWER_THREADS }
}

/// Where everything is in the workspace while entries are split. Offsets in bytes. It is the place of the sums of
/// buckets and what comes after them, which nothing is in before the entries are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Windows that are split at a time.
    pub windows: u64,
    /// Entries, by group: `u32` each.
    pub entries: u64,
    /// The member that each belongs to: `u16`.
    pub members: u64,
    /// Entries of each group, where its run begins, where it ends, and the number of its first chunk: `u32`, one more of the last.
    pub tables: u64,
    /// The end of it.
    pub end: u64,
}

impl Split {
    /// After `start`, for some windows of so many points.
    fn new(start: u64, windows: u64, points: u64) -> Self {
        let room = windows * points + QUAD * GROUPS;
        let members = start + aligned(4 * room);
        let tables = members + aligned(2 * room);
        Self { windows, entries: start, members, tables, end: tables + aligned(4 * (4 * GROUPS + 1)) }
    }

    /// The most chunks that the runs of all groups make.
    pub fn most_chunks(&self, points: u64) -> u64 {
        self.windows * points / CHUNK + GROUPS
    }
}

impl Work {
    /// How entries are split, where they are: where all windows share their buckets and are sorted at once, so that nothing is in
    /// the buckets yet; there are many points; and the place is large enough.
    pub fn split(&self, passes: &Passes, at: &Layout) -> Option<Split> {
        let all = window_count(passes.bits);
        let fresh = self.multiples.is_some() && passes.windows == all && self.chunk >= self.points;
        let member_bits = (passes.bits - 1).checked_sub(GROUPS.ilog2())?;
        if !fresh || self.points < LEAST_POINTS || !MEMBER_BITS.contains(&member_bits) {
            return None;
        }
        let fits = |windows: &u64| Split::new(at.sums, *windows, self.points).end <= at.bytes;
        let most = (1..=all.min(MOST_SPLIT)).rev().find(fits)?;
        // As many each time.
        let turns = all.div_ceil(most);
        let windows = all.div_ceil(turns);
        let worth = turns == 1 || self.points >= LEAST_POINTS_IN_TURNS && windows >= LEAST_SPLIT;
        worth.then(|| Split::new(at.sums, windows, self.points))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::G1;

    fn of_size(points: u64) -> (Work, Passes, Layout) {
        let work = Work::new(G1, points, points, u64::MAX, 132);
        let work = work.with_multiples(work.best_multiples(G1));
        let passes = work.choose(G1, work.multiples_workspace(G1)).unwrap();
        (work, passes, work.layout(G1, passes.bits, 0, passes.windows, passes.runs))
    }

    #[test]
    fn large_sums_are_split_in_the_memory_that_they_take_anyway() {
        for log_points in [17, 19, 20, 21, 22, 23, 24] {
            for points in [(1 << log_points) - 1, 1 << log_points] {
                let (work, passes, at) = of_size(points);
                let split = work.split(&passes, &at).unwrap();
                let turns = passes.windows.div_ceil(split.windows);
                assert_eq!(turns > 1, log_points > 22, "{points} points: {turns} turns");
                // What is sorted meanwhile, and by what, stays as it is.
                assert!(at.totals < at.sums && split.entries == at.sums && split.end <= at.bytes);
                let entries = split.windows * points;
                assert!(split.members - split.entries >= 4 * (entries + (QUAD - 1) * GROUPS));
                assert!(split.tables - split.members >= 2 * (entries + (QUAD - 1) * GROUPS));
            }
        }
    }

    #[test]
    fn a_sum_is_not_split_where_its_buckets_hold_something_or_are_few() {
        let (work, passes, at) = of_size(1 << 22);
        assert_eq!(work.split(&Passes { windows: passes.windows - 1, ..passes }, &at), None);
        assert_eq!(work.with_multiples(None).split(&passes, &at), None);
        assert_eq!(work.split(&passes, &Layout { bytes: at.sums + (1 << 20), ..at }), None);
        // At 2^18 there is no room for all windows at once.
        for log_points in [16, 18] {
            let (work, passes, at) = of_size(1 << log_points);
            assert_eq!(work.split(&passes, &at), None, "2^{log_points}");
        }
    }

    #[test]
    fn every_card_has_shared_memory_for_a_block() {
        // Of sm_86, sm_89 and sm_120; sm_80; sm_90 and sm_100.
        for (kib, threads) in [(99, FEWER_THREADS), (163, MORE_THREADS), (227, MORE_THREADS)] {
            let bytes = kib << 10;
            assert_eq!(split_threads(bytes), threads);
            assert!(u64::from(split_shared_bytes(MOST_SPLIT, threads)) + SPLIT_TABLES <= bytes);
            // Two words for each member, some more for each warp.
            assert!(u64::from(PLACE_SHARED_BYTES) + (8 << MEMBER_BITS.end()) + 128 <= bytes);
        }
    }

    #[test]
    fn members_are_numbered_and_ranked_in_half_a_word() {
        assert!(CHUNK < 1 << 16 && MOST_SPLIT * MORE_THREADS < 1 << 16 && *MEMBER_BITS.end() < 16);
    }
}
