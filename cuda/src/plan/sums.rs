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

/// Buckets that a thread of `weigh` takes.
const WEIGH_RUN: u64 = 8;

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
}

/// G1: one lane a point.
pub const G1: Group = Group { affine_bytes: 96, point_bytes: 192, lanes: 1, runs_per_multiprocessor: 384 };
/// G2: two lanes a point.
pub const G2: Group = Group { affine_bytes: 192, point_bytes: 384, lanes: 2, runs_per_multiprocessor: 192 };

impl Group {
    /// Points of a block.
    pub fn block_points(&self) -> u64 {
        LANES / self.lanes
    }

    /// Blocks that `weigh` takes for each bit of a window's weights: half of the buckets have it.
    pub fn slices(&self, bits: u32) -> u64 {
        (1_u64 << (bits - 2)).div_ceil(WEIGH_RUN * self.block_points())
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
    /// Parts of buckets, one for each run, then those of each level of merging.
    pub parts: u64,
    /// The bucket of each part: `u32`.
    pub part_buckets: u64,
    /// All of it.
    pub bytes: u64,
}

impl Layout {
    /// For `windows` windows with `bits` bits whose digits make at most `entries` entries.
    pub fn new(group: Group, bits: u32, windows: u64, entries: u64, runs: u64) -> Self {
        let buckets = windows << (bits - 1);
        let mut end = 0;
        let mut place = |bytes: u64| {
            let start = end;
            end += aligned(bytes);
            start
        };
        let parts = merge_levels(group, runs).iter().sum::<u64>();
        let weighed = windows * u64::from(bits) * group.slices(bits);
        Layout {
            entries: place(4 * entries),
            counts: place(4 * buckets),
            starts: place(4 * (buckets + 1)),
            totals: place(4 * (buckets.div_ceil(SUM_BLOCK) + 1)),
            sums: place(group.point_bytes * buckets),
            // What `weigh` makes comes in the same place, once the parts are merged.
            parts: place(group.point_bytes * parts.max(weighed)),
            part_buckets: place(4 * parts),
            bytes: end,
        }
    }
}

/// Number of parts at each level of merging; the last one is of no parts, but its bucket number is written.
pub fn merge_levels(group: Group, runs: u64) -> Vec<u64> {
    let mut levels = vec![runs];
    loop {
        let next = levels[levels.len() - 1].div_ceil(group.block_points());
        levels.push(next);
        if next == 1 {
            return levels;
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
    pub runs: u64,
    /// Bits of a digit, where there is a table of multiples of the points for each window of so many bits; all
    /// windows then share their buckets.
    pub multiples: Option<u32>,
}

impl Work {
    /// `points` points, `wide` of them with a scalar above 1, `chunk` at a time.
    pub fn new(group: Group, points: u64, wide: u64, chunk: u64, multiprocessors: u64) -> Self {
        let chunk = chunk.min(points);
        let runs = group.runs(chunk, multiprocessors);
        Self { points, wide: wide.min(points), chunk, runs, multiples: None }
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
    pub fn layout(&self, group: Group, bits: u32, first: u64, windows: u64) -> Layout {
        Layout::new(group, bits, self.sets(windows), self.most_entries(first, windows), self.runs)
    }

    /// The cheapest way in a workspace.
    ///
    /// The costs are in additions: one an entry; half of one a bucket for each bit of its weight, and for each chunk, for
    /// fetching it; and what passes and chunks take in launches and in waiting for their last threads.
    pub fn choose(&self, group: Group, workspace: u64) -> Option<Passes> {
        const PASS_COST: u64 = 300_000;
        const CHUNK_COST: u64 = 100_000;
        let chunks = self.points.div_ceil(self.chunk.max(1)).max(1);
        let mut best = None;
        let widths = self.multiples.map_or(LEAST_BITS..=MOST_BITS, |bits| bits..=bits);
        for bits in widths {
            let all = window_count(bits);
            let fits = |windows: &u64| self.layout(group, bits, 0, *windows).bytes <= workspace;
            let Some(windows) = (1..=all).rev().find(fits) else { continue };
            let passes = all.div_ceil(windows);
            let buckets = self.sets(all) << (bits - 1);
            let cost = self.points
                + self.wide * all
                + buckets * (u64::from(bits) + chunks - 1) / 2
                + passes * (PASS_COST + (chunks - 1) * CHUNK_COST) / group.lanes;
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, Passes { bits, windows }));
            }
        }
        best.map(|(_, passes)| passes)
    }

    /// Bits of the windows for which a table of multiples is worth the most in a workspace.
    pub fn best_multiples(&self, group: Group, workspace: u64) -> Option<u32> {
        let cost = |bits: &u32| {
            let work = self.with_multiples(Some(*bits));
            let passes = work.choose(group, workspace)?;
            let all = window_count(*bits);
            // A pass beyond the first costs little: sorting, and fetching the buckets.
            let pass = (1 << (*bits - 2)) + 100_000;
            Some(self.wide * all + (u64::from(*bits) << (*bits - 2)) + all.div_ceil(passes.windows) * pass)
        };
        // The number of an entry's point shares its word with a sign.
        let can_be_numbered = |bits: &u32| window_count(*bits) * self.points < 1 << 31;
        let costs =
            (LEAST_BITS..=MOST_BITS).filter(can_be_numbered).filter_map(|bits| Some((cost(&bits)?, bits)));
        costs.min().map(|(_, bits)| bits)
    }

    /// A workspace in which this can be done well: all windows at once, if that takes no more than `enough`; if it
    /// does, at least one window.
    pub fn least_workspace(&self, group: Group, enough: u64) -> u64 {
        // Digits whose buckets take little memory beside the entries.
        let bits = self.chunk.max(1).ilog2().saturating_sub(4).clamp(LEAST_BITS, 16);
        let all = self.layout(group, bits, 0, window_count(bits)).bytes;
        self.layout(group, bits, 0, 1).bytes.max(all.min(enough))
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
                    assert!(work.layout(group, passes.bits, 0, passes.windows).bytes <= least);
                }
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
                let levels = merge_levels(group, runs);
                assert!(levels.len() > 1);
                for pair in levels.windows(2) {
                    assert_eq!(pair[1], pair[0].div_ceil(group.block_points()));
                }
                assert_eq!(levels.last(), Some(&1));
            }
        }
    }
}
