//! How a multi-scalar multiplication is cut up to fit its workspace, and where everything is in there.

use crate::arena::aligned;

/// The most points that a sum leaves to the host: one for each bit of each window.
pub const MOST_RESULTS: u64 = (SUM_BITS + MOST_BITS) as u64;

/// The narrowest and the widest digits.
const LEAST_BITS: u32 = 4;
const MOST_BITS: u32 = 20;

/// Bits that a scalar and the constant that makes its digits unsigned fit in.
const SUM_BITS: u32 = 256;

/// Entries that a block of `sum_blocks` takes.
pub const SUM_BLOCK: u64 = 2048;

/// Lanes of a block of the kernels over points.
pub const LANES: u64 = 128;

/// Lanes of a block whose threads share inversions.
pub const BATCHED_LANES: u64 = 128;

/// Parts that a thread of `merge_runs` takes.
const MERGE_RUN: u64 = 8;

/// Runs of buckets that a thread of `weigh` takes.
const WEIGH_RUN: u64 = 8;

/// Costs, in multiplications of the group's field: an addition of an affine point to one in XYZZ coordinates, one of
/// two points in XYZZ coordinates, and one of two affine points that shares an inversion with others
/// (<https://hyperelliptic.org/EFD/g1p/auto-shortw-xyzz.html>).
const MIXED_ADDITION: u64 = 10;
const FULL_ADDITION: u64 = 14;
const BATCHED_ADDITION: u64 = 6;

/// What each thread's part in an inversion costs that a block shares, in multiplications: measured, as most of it is waiting.
const SHARED_INVERSION: u64 = 19;

/// What it costs, in multiplications, to add what a run left of a bucket to that: an addition of an affine point, and what is
/// passed on to be merged again; measured.
const MERGE_COST: u64 = 10;

/// Windows with fewer bits than this have few counters, and counting an entry of theirs costs so many multiplications more.
const CROWDED_BITS: u32 = 12;
const CROWDED_COST: u64 = 12;

/// Most additions of a thread that share an inversion. At 2^22 32 would be 1 % faster, for 170 MB more.
const MOST_BATCH: u64 = 24;

/// One of the two groups, as the kernels see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Bytes of a point in affine coordinates, as keys have them.
    pub affine_bytes: u64,
    /// Bytes of a point in the kernels' own coordinates.
    pub point_bytes: u64,
    /// Lanes that work on one point.
    pub lanes: u64,
    /// Runs of entries that one multiprocessor adds up at a time.
    runs_per_multiprocessor: u64,
    /// Threads of one multiprocessor that have several runs each, whose additions share inversions; 0 where there
    /// is no kernel for that.
    batched_threads_per_multiprocessor: u64,
}

/// G1: one lane a point.
pub const G1: Group = Group {
    affine_bytes: 96,
    point_bytes: 192,
    lanes: 1,
    runs_per_multiprocessor: 640,
    batched_threads_per_multiprocessor: 640,
};
/// G2: two lanes a point.
pub const G2: Group = Group {
    affine_bytes: 192,
    point_bytes: 384,
    lanes: 2,
    runs_per_multiprocessor: 192,
    batched_threads_per_multiprocessor: 0,
};

impl Group {
    /// Points of a block.
    pub fn block_points(&self) -> u64 {
        LANES / self.lanes
    }

    /// Runs into which the entries of a sum over `points` points are cut: a whole number of blocks.
    pub fn runs(&self, points: u64, multiprocessors: u64) -> u64 {
        let most = multiprocessors * self.runs_per_multiprocessor;
        (2 * points).next_multiple_of(128).clamp(128, most.max(128))
    }
}

/// Windows of a scalar whose digits have `bits` bits.
///
/// Scalars are below 0.91 * 2^255, the constant that is added to them is below 1.13 * 2^(bits * windows - 1):
/// the sum fits when `bits * windows` is at least 256.
pub fn window_count(bits: u32) -> u64 {
    u64::from(SUM_BITS.div_ceil(bits))
}

/// `sum 2^(bits - 1) 2^(bits w)` over all windows: 288 bits.
pub fn digit_offset(bits: u32) -> [u32; 9] {
    let mut limbs = [0; 9];
    for window in 0..window_count(bits) as u32 {
        let position = window * bits + bits - 1;
        limbs[(position / 32) as usize] |= 1 << (position % 32);
    }
    limbs
}

/// How the buckets of a pass are weighed: runs of them first, then the runs by their numbers' bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weighing {
    /// Sets of buckets, one for each window that has its own.
    pub sets: u64,
    /// Logarithm of a run's length.
    pub log_run: u32,
    /// Logarithm of the number of runs of a set.
    pub log_runs: u32,
    /// Blocks for each bit of a run's number.
    pub slices: u64,
}

impl Weighing {
    /// For sets of buckets with the weights of digits of `bits` bits.
    pub fn new(group: Group, bits: u32, sets: u64) -> Self {
        // Longer runs cost less in all, but more one after another: as long as there are runs for all threads.
        const LOG_ENOUGH_RUNS: u32 = 15;
        const LONGEST: u32 = 4;
        let log_buckets = bits - 1;
        let log_all = log_buckets + (sets * group.lanes).next_power_of_two().ilog2();
        let log_run = log_all.saturating_sub(LOG_ENOUGH_RUNS).clamp(1, LONGEST).min(log_buckets);
        let log_runs = log_buckets - log_run;
        let slices = (1_u64 << log_runs).div_ceil(2 * WEIGH_RUN * group.block_points());
        Self { sets, log_run, log_runs, slices }
    }

    /// Runs of all sets.
    pub fn runs(&self) -> u64 {
        self.sets << self.log_runs
    }

    /// Sums of a set that are left for the host: one for each bit of a run's number, and one of all runs.
    pub fn results(&self) -> u64 {
        u64::from(self.log_runs) + 1
    }

    /// Points that are made on the way: two for each run, and what the slices hold.
    fn points(&self) -> u64 {
        2 * self.runs() + self.sets * self.results() * self.slices
    }
}

/// Where everything is in the workspace while some windows are summed. Offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Points, sorted by bucket: `u32` each.
    pub entries: u64,
    /// Entries of each bucket: `u32`.
    pub counts: u64,
    /// Where each bucket starts: `u32`, one more than there are buckets.
    pub starts: u64,
    /// Sums of blocks of counts: `u32`.
    pub totals: u64,
    /// Sums of buckets.
    pub sums: u64,
    /// Parts of buckets, one for each run, then those of each level of merging. Those of the runs are affine where
    /// runs share inversions.
    pub parts: u64,
    /// The bucket of each part: `u32`.
    pub part_buckets: u64,
    /// Where runs share inversions: the affine sum of each run, a product for it, and its bucket (`u32`).
    pub run_sums: u64,
    /// See [`Layout::run_sums`].
    pub run_products: u64,
    /// See [`Layout::run_sums`].
    pub run_buckets: u64,
    /// All of it.
    pub bytes: u64,
}

impl Layout {
    /// For `sets` sets of buckets for digits of `bits` bits, which make at most `entries` entries.
    pub fn new(group: Group, bits: u32, sets: u64, entries: u64, runs: Runs) -> Self {
        let buckets = sets << (bits - 1);
        let mut end = 0;
        let mut place = |bytes: u64| {
            let start = end;
            end += aligned(bytes);
            start
        };
        let levels = runs.merge_levels(group);
        let merged = levels[1..].iter().sum::<u64>();
        let parts = runs.count() * runs.part_bytes(group) + merged * group.point_bytes;
        let weighed = Weighing::new(group, bits, sets).points() * group.point_bytes;
        let side_by_side = if runs.batch > 1 { runs.count() } else { 0 };
        Layout {
            entries: place(4 * entries),
            counts: place(4 * buckets),
            starts: place(4 * (buckets + 1)),
            totals: place(4 * (buckets.div_ceil(SUM_BLOCK) + 1)),
            sums: place(group.point_bytes * buckets),
            // What weighing makes comes in the same place, once the parts are merged.
            parts: place(parts.max(weighed)),
            part_buckets: place(4 * (runs.count() + merged)),
            run_sums: place(group.affine_bytes * side_by_side),
            run_products: place(group.affine_bytes / 2 * side_by_side),
            run_buckets: place(4 * side_by_side),
            bytes: end,
        }
    }
}

/// Into how many runs the entries are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Threads, which make whole blocks.
    pub threads: u64,
    /// Runs of each. If there are several, their additions share inversions.
    pub batch: u64,
}

impl Runs {
    /// All of them.
    pub fn count(&self) -> u64 {
        self.threads * self.batch
    }

    /// Bytes of what a run leaves of a bucket that began in an earlier one.
    pub fn part_bytes(&self, group: Group) -> u64 {
        if self.batch > 1 { group.affine_bytes } else { group.point_bytes }
    }

    /// Number of parts at each level of merging; the last one is of no parts, but its bucket number is written.
    pub fn merge_levels(&self, group: Group) -> Vec<u64> {
        let mut levels = vec![self.count()];
        if self.batch > 1 {
            levels.push(self.count().div_ceil(MERGE_RUN));
        }
        loop {
            let next = levels[levels.len() - 1].div_ceil(group.block_points());
            levels.push(next);
            if next == 1 {
                return levels;
            }
        }
    }
}

/// How a sum is done: in several passes, a few windows each, and a pass in chunks of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// Bits of a digit.
    pub bits: u32,
    /// Windows of a pass; the last pass may have fewer.
    pub windows: u64,
    /// How the entries of a pass are added up.
    pub runs: Runs,
}

/// What is to be summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Points and scalars.
    pub points: u64,
    /// Scalars that may be neither 0 nor 1.
    pub wide: u64,
    /// Points that are at hand at once.
    pub chunk: u64,
    /// See [`Group::runs`].
    runs: u64,
    /// Threads that can have several runs each.
    batched_threads: u64,
    /// Bits of a digit, where there is a table of multiples of the points for each window of so many bits; all
    /// windows then share their buckets.
    pub multiples: Option<u32>,
}

impl Work {
    /// `points` points, `wide` of them with a scalar above 1, `chunk` at a time.
    pub fn new(group: Group, points: u64, wide: u64, chunk: u64, multiprocessors: u64) -> Self {
        let chunk = chunk.min(points);
        let runs = group.runs(chunk, multiprocessors);
        let batched_threads = multiprocessors * group.batched_threads_per_multiprocessor;
        Self { points, wide: wide.min(points), chunk, runs, batched_threads, multiples: None }
    }

    /// The same with multiples of the points at hand, if there are.
    #[must_use]
    pub fn with_multiples(self, multiples: Option<u32>) -> Self {
        Self { multiples, ..self }
    }

    /// Windows with buckets of their own, of some windows of a pass.
    fn sets(&self, windows: u64) -> u64 {
        if self.multiples.is_some() { 1 } else { windows }
    }

    /// The most entries that windows from `first` on can make of one chunk: a scalar 1 makes one, in window 0.
    pub fn most_entries(&self, first: u64, windows: u64) -> u64 {
        let wide = self.wide.min(self.chunk);
        if first == 0 { self.chunk + (windows - 1) * wide } else { windows * wide }
    }

    /// The layout for some windows.
    pub fn layout(&self, group: Group, bits: u32, first: u64, windows: u64, runs: Runs) -> Layout {
        Layout::new(group, bits, self.sets(windows), self.most_entries(first, windows), runs)
    }

    /// One run a thread.
    fn single(&self) -> Runs {
        Runs { threads: self.runs, batch: 1 }
    }

    /// Several runs a thread for a pass over all windows, where that is worth its while: they all have to fill the same
    /// buckets, from the first entry to the last.
    fn batched(&self, bits: u32) -> Option<Runs> {
        // With fewer it gains little over one run a thread by the costs above, for several times the memory.
        const LEAST_BATCH: u64 = 14;
        let all = window_count(bits);
        let in_one_pass = self.multiples.is_some() && self.chunk >= self.points;
        // A bit of an entry says that it is the first of its bucket.
        if !in_one_pass || self.batched_threads == 0 || all * self.points >= 1 << 30 {
            return None;
        }
        // More runs share an inversion among more, and leave more parts to be merged.
        let each = self.most_entries(0, all) / self.batched_threads;
        let batch = (each * SHARED_INVERSION / MERGE_COST).isqrt().min(MOST_BATCH);
        (batch >= LEAST_BATCH).then_some(Runs { threads: self.batched_threads, batch })
    }

    /// What a pass over some windows costs, in multiplications.
    fn cost(&self, group: Group, passes: &Passes) -> u64 {
        const PASS_COST: u64 = 3_000_000;
        const CHUNK_COST: u64 = 1_000_000;
        let Passes { bits, windows, runs } = *passes;
        let (all, chunks) = (window_count(bits), self.points.div_ceil(self.chunk.max(1)).max(1));
        let additions = self.points + self.wide * all;
        let entries = if runs.batch > 1 {
            let inversions = additions / runs.batch * SHARED_INVERSION;
            additions * BATCHED_ADDITION + inversions + runs.count() * MERGE_COST
        } else {
            additions * MIXED_ADDITION
        };
        // A bucket is weighed with two additions, and fetched once for each chunk.
        let buckets = (self.sets(all) << (bits - 1)) * (2 * FULL_ADDITION + 5 * (chunks - 1));
        // Where the last window is narrow, few counters are fought over.
        let last_bits = SUM_BITS - bits * (all as u32 - 1);
        let crowded =
            if bits > CROWDED_BITS && last_bits < CROWDED_BITS { self.wide * CROWDED_COST } else { 0 };
        let passes = all.div_ceil(windows) * (PASS_COST + (chunks - 1) * CHUNK_COST) / group.lanes;
        entries + buckets + crowded + passes
    }

    /// The cheapest way in a workspace.
    pub fn choose(&self, group: Group, workspace: u64) -> Option<Passes> {
        let widths = self.multiples.map_or(LEAST_BITS..=MOST_BITS, |bits| bits..=bits);
        let ways = widths.flat_map(|bits| {
            let all = window_count(bits);
            let fits = |windows, runs| self.layout(group, bits, 0, windows, runs).bytes <= workspace;
            let batched = self.batched(bits).filter(|runs| fits(all, *runs));
            let windows = (1..=all).rev().find(|windows| fits(*windows, self.single()));
            let batched = batched.map(|runs| Passes { bits, windows: all, runs });
            let single = windows.map(|windows| Passes { bits, windows, runs: self.single() });
            batched.into_iter().chain(single)
        });
        ways.min_by_key(|passes| self.cost(group, passes))
    }

    /// Bits of the windows for which a table of multiples is worth the most, with a workspace to match.
    pub fn best_multiples(&self, group: Group) -> Option<u32> {
        // The number of an entry's point shares its word with a sign.
        let can_be_numbered = |bits: &u32| window_count(*bits) * self.points < 1 << 31;
        let cost = |bits: &u32| {
            let work = self.with_multiples(Some(*bits));
            work.choose(group, u64::MAX).map(|passes| work.cost(group, &passes))
        };
        let costs =
            (LEAST_BITS..=MOST_BITS).filter(can_be_numbered).filter_map(|bits| Some((cost(&bits)?, bits)));
        costs.min().map(|(_, bits)| bits)
    }

    /// The workspace in which a sum with multiples takes one pass.
    pub fn multiples_workspace(&self, group: Group) -> u64 {
        let passes = self.choose(group, u64::MAX);
        passes.map_or(0, |passes| self.layout(group, passes.bits, 0, passes.windows, passes.runs).bytes)
    }

    /// A workspace in which this can be done well: all windows at once, if that takes no more than `enough`; if it
    /// does, at least one window.
    pub fn least_workspace(&self, group: Group, enough: u64) -> u64 {
        // Digits whose buckets take little memory beside the entries.
        let bits = self.chunk.max(1).ilog2().saturating_sub(4).clamp(LEAST_BITS, 16);
        let bytes = |windows| self.layout(group, bits, 0, windows, self.single()).bytes;
        bytes(1).max(bytes(window_count(bits)).min(enough))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_can_be_done_in_the_least_workspace() {
        for log_points in 0..=27 {
            let points = 1 << log_points;
            for (group, chunk) in [(G1, points), (G2, points), (G1, points / 3 + 1), (G2, 1 << 16)] {
                let least = Work::new(group, points, points, chunk, 132).least_workspace(group, 48 << 20);
                for wide in [0, points / 10, points] {
                    let work = Work::new(group, points, wide, chunk, 132);
                    let passes = work.choose(group, least).unwrap();
                    let layout = work.layout(group, passes.bits, 0, passes.windows, passes.runs);
                    assert!(layout.bytes <= least);
                }
            }
        }
    }

    #[test]
    fn with_multiples_a_sum_takes_one_pass_in_the_workspace_that_is_made_for_it() {
        for log_points in 0..=26 {
            let points = 1 << log_points;
            let work = Work::new(G1, points, points, u64::MAX, 132);
            let work = work.with_multiples(work.best_multiples(G1));
            let passes = work.choose(G1, work.multiples_workspace(G1)).unwrap();
            assert_eq!(passes.windows, window_count(passes.bits));
            assert_eq!(passes.runs.threads % LANES, 0);
            assert_eq!(passes.runs.batch > 1, log_points >= 20, "2^{log_points}");
            // Marked entries, and sums of places of entries.
            let runs_and_entries = passes.runs.count() + passes.windows * points;
            assert!(
                passes.runs.batch == 1 || runs_and_entries < 1 << 31 && passes.windows * points < 1 << 30
            );
        }
    }

    #[test]
    fn weights_of_buckets_are_made_of_runs_and_places() {
        for group in [G1, G2] {
            for (bits, sets) in [(LEAST_BITS, 1), (5, 52), (16, 1), (16, 16), (19, 1), (MOST_BITS, 1)] {
                let weighing = Weighing::new(group, bits, sets);
                assert_eq!(weighing.log_run + weighing.log_runs, bits - 1);
                let taken = weighing.slices * 2 * WEIGH_RUN * group.block_points();
                assert!(taken >= 1 << weighing.log_runs);
            }
        }
    }

    #[test]
    fn digits_cover_the_scalars() {
        for bits in LEAST_BITS..=MOST_BITS {
            let windows = window_count(bits);
            assert!(windows * u64::from(bits) <= MOST_RESULTS);
            assert!(windows * u64::from(bits) >= 256 && windows * u64::from(bits) <= 288);
            let ones: u32 = digit_offset(bits).iter().map(|limb| limb.count_ones()).sum();
            assert_eq!(u64::from(ones), windows);
        }
    }

    #[test]
    fn merging_ends() {
        for group in [G1, G2] {
            for runs in [1, 8, 9, 128, 129, 50_688] {
                let levels = Runs { threads: runs, batch: 1 }.merge_levels(group);
                assert!(levels.len() > 1);
                for pair in levels.windows(2) {
                    assert_eq!(pair[1], pair[0].div_ceil(group.block_points()));
                }
                assert_eq!(levels.last(), Some(&1));
            }
        }
        let levels = Runs { threads: 101_376, batch: 16 }.merge_levels(G1);
        assert_eq!(levels, [1_622_016, 202_752, 1_584, 13, 1]);
    }
}
