//! How much device memory a task takes, and how it is laid out: pure arithmetic.
//!
//! A task holds two blocks. The staged block is the witness, 32 bytes a variable. The block of Compute is
//!
//! | part | bytes | in the quotient | in the sums |
//! |---|---|---|---|
//! | results | [`RESULT_BYTES`] | | sums of windows |
//! | `a` | 32 n | a, then a b, then the quotient's scalars | scalars of `h`; workspace once `h` is done |
//! | workspace | at least 32 n | b, then c | sorted entries and buckets |
//!
//! where n is the size of the domain: `compute_extra` is 64 n plus what small circuits need on top.

use crate::arena::aligned;

/// Bytes of a scalar.
pub const SCALAR_BYTES: u64 = 32;

/// The most windows a sum can have: digits of [`LEAST_BITS`] bits.
pub const MOST_WINDOWS: u64 = 64;

/// The narrowest and the widest digits.
const LEAST_BITS: u32 = 4;
const MOST_BITS: u32 = 20;

/// Bits that a scalar and the constant that makes its digits unsigned fit in.
const SUM_BITS: u32 = 256;

/// Sums of the windows of four sums over G1 and one over G2, and the counts of wide scalars.
pub const RESULT_BYTES: u64 = aligned(MOST_WINDOWS * (4 * G1.point_bytes + G2.point_bytes) + 16);

/// Where in the results the counts are.
pub const COUNTS_OFFSET: u64 = MOST_WINDOWS * (4 * G1.point_bytes + G2.point_bytes);

/// Entries that a block of `sum_blocks` takes.
pub const SUM_BLOCK: u64 = 2048;

/// Parts that a thread of `merge` takes.
pub const MERGE_RUN: u64 = 4;

/// A workspace that lets small circuits sum all windows at once.
const SMALL_WORKSPACE: u64 = 48 << 20;

/// One of the two groups, as the kernels see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Bytes of a point in the kernels' own coordinates.
    pub point_bytes: u64,
    /// Lanes that work on one point.
    pub lanes: u64,
    /// Runs of entries that one multiprocessor adds up at a time.
    runs_per_multiprocessor: u64,
}

/// G1: one lane a point.
pub const G1: Group = Group { point_bytes: 192, lanes: 1, runs_per_multiprocessor: 384 };
/// G2: two lanes a point.
pub const G2: Group = Group { point_bytes: 384, lanes: 2, runs_per_multiprocessor: 192 };

impl Group {
    /// Runs into which the entries of a sum over `points` points are cut: a whole number of blocks.
    pub fn runs(&self, points: u64, multiprocessors: u64) -> u64 {
        let most = multiprocessors * self.runs_per_multiprocessor;
        (2 * points).next_multiple_of(128).clamp(128, most.max(128))
    }
}

/// What the plan of a task depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Logarithm of the domain's size.
    pub log_domain: u32,
    /// Variables.
    pub variables: u64,
    /// Points of the longest query in G1.
    pub g1_points: u64,
    /// Points of the query in G2.
    pub g2_points: u64,
    /// Of the device.
    pub multiprocessors: u64,
}

impl Shape {
    /// Bytes of the staged block.
    pub fn staged_bytes(&self) -> u64 {
        aligned(SCALAR_BYTES * self.variables)
    }

    /// Bytes of one vector over the domain.
    pub fn vector_bytes(&self) -> u64 {
        aligned(SCALAR_BYTES << self.log_domain)
    }

    /// Bytes of the workspace.
    pub fn workspace_bytes(&self) -> u64 {
        let least = |group: Group, points| {
            let runs = group.runs(points, self.multiprocessors);
            let bits = safe_bits(points);
            let all = Layout::new(group, bits, window_count(bits), points * window_count(bits), runs).bytes;
            let one = Layout::new(group, bits, 1, points, runs).bytes;
            one.max(all.min(SMALL_WORKSPACE))
        };
        self.vector_bytes().max(least(G1, self.g1_points)).max(least(G2, self.g2_points))
    }

    /// Bytes of the block of Compute.
    pub fn compute_bytes(&self) -> u64 {
        RESULT_BYTES + self.vector_bytes() + self.workspace_bytes()
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

/// Digits whose buckets take little memory beside the entries.
fn safe_bits(points: u64) -> u32 {
    points.max(1).ilog2().saturating_sub(4).clamp(LEAST_BITS, 16)
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
        let parts = merge_levels(runs).iter().sum::<u64>();
        let weighed = buckets / weigh_run(bits);
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

/// Number of parts at each level of merging; the last level leaves none.
pub fn merge_levels(runs: u64) -> Vec<u64> {
    let mut levels = vec![runs];
    while let Some(&last) = levels.last()
        && last > MERGE_RUN
    {
        levels.push(last.div_ceil(MERGE_RUN));
    }
    // The merge of the last level writes one bucket number, though no part.
    levels.push(1);
    levels
}

/// Buckets that a thread of `weigh` takes: few, so that little waits for the last thread; more where there are
/// threads enough.
pub fn weigh_run(bits: u32) -> u64 {
    if bits < 15 { 4 } else { 8 }
}

/// How a sum is done: in several passes, a few windows each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// Bits of a digit.
    pub bits: u32,
    /// Windows of a pass; the last pass may have fewer.
    pub windows: u64,
}

/// The most entries that windows from `first` on can make: a scalar 1 makes one, in window 0.
pub fn most_entries(points: u64, wide: u64, first: u64, windows: u64) -> u64 {
    let wide = wide.min(points);
    if first == 0 { points + (windows - 1) * wide } else { windows * wide }
}

/// The cheapest way to sum `points` points, of which at most `wide` have a scalar above 1, in a workspace.
///
/// The costs are in additions: one an entry; 8 a bucket, for weighing it; and what a pass takes in launches and in
/// waiting for its last threads.
pub fn choose(group: Group, points: u64, wide: u64, runs: u64, workspace: u64) -> Option<Passes> {
    const BUCKET_COST: u64 = 8;
    const PASS_COST: u64 = 400_000;
    let wide = wide.min(points);
    let mut best = None;
    for bits in LEAST_BITS..=MOST_BITS {
        let all = window_count(bits);
        let fits = |windows: &u64| {
            let entries = most_entries(points, wide, 0, *windows);
            Layout::new(group, bits, *windows, entries, runs).bytes <= workspace
        };
        let Some(windows) = (1..=all).rev().find(fits) else { continue };
        let cost = points
            + wide * all
            + BUCKET_COST * (all << (bits - 1))
            + PASS_COST / group.lanes * all.div_ceil(windows);
        if best.is_none_or(|(least, _)| cost < least) {
            best = Some((cost, Passes { bits, windows }));
        }
    }
    best.map(|(_, passes)| passes)
}

/// One pass over the bits of a transform's index: `bits` of them, above the lowest `low_bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NttPass {
    /// Bits below.
    pub low_bits: u32,
    /// Bits that the pass transforms.
    pub bits: u32,
    /// Logarithm of the neighbours that a block takes together.
    pub log_columns: u32,
}

/// The passes of a transform of `2^log_n` elements, from the highest bits to the lowest.
pub fn ntt_passes(log_n: u32) -> Vec<NttPass> {
    const MOST: u32 = 8;
    const COLUMNS: u32 = 2;
    let count = log_n.div_ceil(MOST);
    let mut rest = log_n;
    let pass = |left: u32| {
        let bits = rest.div_ceil(left);
        rest -= bits;
        let log_columns = if rest == 0 { COLUMNS.min(log_n - bits) } else { COLUMNS };
        NttPass { low_bits: rest, bits, log_columns }
    };
    (1..=count).rev().map(pass).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(log_domain: u32) -> Shape {
        let points = 1 << log_domain;
        Shape { log_domain, variables: points, g1_points: points, g2_points: points, multiprocessors: 132 }
    }

    #[test]
    fn a_sum_can_be_done_in_the_workspace_that_is_planned() {
        for log_domain in 0..=27 {
            let shape = shape(log_domain);
            for (group, points) in [(G1, shape.g1_points), (G2, shape.g2_points)] {
                let runs = group.runs(points, shape.multiprocessors);
                for wide in [0, points / 10, points] {
                    let passes = choose(group, points, wide, runs, shape.workspace_bytes()).unwrap();
                    let entries = most_entries(points, wide, 0, passes.windows);
                    let layout = Layout::new(group, passes.bits, passes.windows, entries, runs);
                    assert!(layout.bytes <= shape.workspace_bytes(), "2^{log_domain} {group:?}");
                }
            }
        }
    }

    #[test]
    fn large_circuits_take_two_vectors_beside_the_witness() {
        for log_domain in 22..=27 {
            let shape = shape(log_domain);
            assert_eq!(shape.staged_bytes(), 32 << log_domain);
            assert_eq!(shape.compute_bytes(), (64 << log_domain) + RESULT_BYTES);
        }
    }

    #[test]
    fn digits_cover_the_scalars() {
        for bits in LEAST_BITS..=MOST_BITS {
            let windows = window_count(bits);
            assert!(windows <= MOST_WINDOWS);
            assert!(windows * u64::from(bits) >= 256 && windows * u64::from(bits) <= 288);
            let ones: u32 = digit_offset(bits).iter().map(|limb| limb.count_ones()).sum();
            assert_eq!(u64::from(ones), windows);
        }
    }

    #[test]
    fn ntt_passes_cover_each_bit_once_and_fit_a_block() {
        assert!(ntt_passes(0).is_empty());
        for log_n in 1..=27 {
            let passes = ntt_passes(log_n);
            let mut top = log_n;
            for pass in &passes {
                assert_eq!(pass.low_bits + pass.bits, top);
                assert!(pass.bits >= 1 && pass.bits + pass.log_columns <= 10);
                assert!(pass.low_bits == 0 || pass.low_bits >= pass.log_columns);
                top = pass.low_bits;
            }
            assert_eq!(top, 0);
        }
    }

    #[test]
    fn merging_ends() {
        for runs in [1, 8, 9, 128, 50_688] {
            let levels = merge_levels(runs);
            for pair in levels.windows(2) {
                assert_eq!(pair[1], pair[0].div_ceil(MERGE_RUN));
            }
            assert_eq!(levels.last(), Some(&1));
        }
    }
}
