//! Multi-scalar multiplication on the card: Pippenger's buckets, a few windows at a time.
//!
//! For each pass: count the digits, place the points in their buckets' runs, add up each bucket, weigh the
//! buckets, add up each window. The host only sees the sums of windows ([`crate::sums`]).

use cust::stream::Stream;
use cust::sys::CUdeviceptr;

use crate::driver;
use crate::fault::Fault;
use crate::gpu::{Gpu, MsmKernels};
use crate::key::Points;
use crate::launch;
use crate::plan::{
    Group, Layout, MERGE_RUN, Passes, SUM_BLOCK, choose, digit_offset, merge_levels, most_entries, weigh_run,
    window_count,
};

/// Which scalar belongs to which point.
#[derive(Clone, Copy, Debug)]
pub enum Scalars {
    /// Point i has scalar i + the number.
    Shifted(u32),
    /// Point i has the scalar whose index has i's bits in reverse order.
    Reversed(u32),
    /// Point i has the scalar whose index is entry i of this vector.
    Listed(CUdeviceptr),
}

/// A sum to be done.
pub struct Msm<'a> {
    /// The device.
    pub gpu: &'a Gpu,
    /// The stream.
    pub stream: &'a Stream,
    /// The group of the points.
    pub group: Group,
    /// Its kernels.
    pub kernels: &'a MsmKernels,
    /// The points, affine.
    pub points: Points,
    /// The scalars, canonical.
    pub scalars: CUdeviceptr,
    /// Whose they are.
    pub order: Scalars,
    /// How many of the scalars may be neither 0 nor 1.
    pub wide: u64,
    /// Start and length of the workspace.
    pub workspace: (CUdeviceptr, u64),
    /// Where the sums of windows go.
    pub results: CUdeviceptr,
}

/// `digits_t` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct DigitsArgument {
    scalars: CUdeviceptr,
    variables: CUdeviceptr,
    shift: u32,
    reversed_bits: u32,
    points: u32,
    bits: u32,
    first_window: u32,
    windows: u32,
    offset: [u32; 9],
}

/// What is left for the host: `sum 2^(bits w) window_w` over that many windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Bits of a digit.
    pub bits: u32,
    /// Number of windows; 0 for an empty sum.
    pub count: usize,
}

/// Lanes of a block of the kernels over points.
const LANES: u64 = 128;

impl Msm<'_> {
    /// Puts the sum on the stream.
    ///
    /// # Errors
    /// The workspace is too small, or the driver refuses a launch.
    pub fn run(&self) -> Result<Windows, Fault> {
        if self.points.count == 0 {
            return Ok(Windows::default());
        }
        let runs = self.group.runs(self.points.count, self.gpu.multiprocessors);
        let bytes = self.workspace.1;
        let Some(passes) = choose(self.group, self.points.count, self.wide, runs, bytes) else {
            let reason = "the plan gave too little".to_owned();
            return Err(Fault::OutOfMemory { what: "buckets", bytes, reason });
        };
        let all = window_count(passes.bits);
        for first in (0..all).step_by(passes.windows as usize) {
            self.pass(&passes, first, passes.windows.min(all - first), runs)?;
        }
        Ok(Windows { bits: passes.bits, count: all as usize })
    }

    fn pass(&self, passes: &Passes, first: u64, windows: u64, runs: u64) -> Result<(), Fault> {
        let entries = most_entries(self.points.count, self.wide, first, windows);
        let layout = Layout::new(self.group, passes.bits, windows, entries, runs);
        let buckets = (windows << (passes.bits - 1)) as u32;
        self.sort(passes.bits, first as u32, windows as u32, buckets, &layout)?;
        self.add_up(buckets, runs, &layout)?;
        self.weigh(passes.bits, first, windows, buckets, &layout)
    }

    fn at(&self, offset: u64) -> CUdeviceptr {
        self.workspace.0 + offset
    }

    fn sort(&self, bits: u32, first: u32, windows: u32, buckets: u32, at: &Layout) -> Result<(), Fault> {
        let kernels = &self.gpu.kernels;
        let (entries, counts, starts, totals) =
            (self.at(at.entries), self.at(at.counts), self.at(at.starts), self.at(at.totals));
        let mut digits = DigitsArgument {
            scalars: self.scalars,
            variables: 0,
            shift: 0,
            reversed_bits: 0,
            points: self.points.count as u32,
            bits,
            first_window: first,
            windows,
            offset: digit_offset(bits),
        };
        match self.order {
            Scalars::Shifted(shift) => digits.shift = shift,
            Scalars::Reversed(bits) => digits.reversed_bits = bits,
            Scalars::Listed(variables) => digits.variables = variables,
        }
        let points = (self.points.count.div_ceil(256), 256, 0);
        let blocks = buckets.div_ceil(SUM_BLOCK as u32);
        let ends = (u64::from(buckets + 1).div_ceil(256), 256, 0);
        // SAFETY: the parameters are those of `kernels/sort.cu`; `Layout` has room for what they write: `buckets`
        // counts, one start more, a total for each block and one more, and as many entries as there can be.
        unsafe {
            driver::clear(counts, buckets as usize, self.stream)?;
            launch!(kernels.count_digits, self.stream, points, counts, digits)?;
            let grid = (u64::from(blocks), 256, 0);
            launch!(kernels.sum_blocks, self.stream, grid, starts, totals, counts, buckets)?;
            launch!(kernels.sum_totals, self.stream, (1, 256, 0), totals, blocks)?;
            launch!(kernels.add_totals, self.stream, ends, starts, totals, buckets, blocks)?;
            launch!(kernels.place_digits, self.stream, points, entries, counts, starts, digits)
        }
    }

    fn add_up(&self, buckets: u32, runs: u64, at: &Layout) -> Result<(), Fault> {
        let (entries, starts, sums) = (self.at(at.entries), self.at(at.starts), self.at(at.sums));
        let (mut parts, mut part_buckets) = (self.at(at.parts), self.at(at.part_buckets));
        let points = self.points.address;
        let grid = (runs * self.group.lanes / LANES, LANES as u32, 0);
        // SAFETY: the parameters are those of `accumulate` in `kernels/msm.cuh`; there is one part for each run,
        // and a whole number of blocks of runs.
        unsafe {
            launch!(
                self.kernels.accumulate,
                self.stream,
                grid,
                sums,
                parts,
                part_buckets,
                entries,
                starts,
                buckets,
                points
            )?;
        }
        for level in merge_levels(runs).windows(2) {
            let (count, next) = (level[0] as u32, level[0].div_ceil(MERGE_RUN));
            let next_parts = parts + level[0] * self.group.point_bytes;
            let next_buckets = part_buckets + 4 * level[0];
            let grid = ((next * self.group.lanes).div_ceil(LANES), LANES as u32, 0);
            // SAFETY: the parameters are those of `merge`; `Layout` has room for the parts of all levels.
            unsafe {
                launch!(
                    self.kernels.merge,
                    self.stream,
                    grid,
                    sums,
                    next_parts,
                    next_buckets,
                    parts,
                    part_buckets,
                    count
                )?;
            }
            (parts, part_buckets) = (next_parts, next_buckets);
        }
        Ok(())
    }

    fn weigh(&self, bits: u32, first: u64, windows: u64, buckets: u32, at: &Layout) -> Result<(), Fault> {
        let (starts, sums, weighed) = (self.at(at.starts), self.at(at.sums), self.at(at.parts));
        let (window_buckets, run) = (1_u32 << (bits - 1), weigh_run(bits) as u32);
        let threads = u64::from(buckets / run) * self.group.lanes;
        let grid = (threads.div_ceil(LANES), LANES as u32, 0);
        let results = self.results + first * self.group.point_bytes;
        let count = window_buckets / run;
        let shared = (LANES / self.group.lanes * self.group.point_bytes) as u32;
        // SAFETY: the parameters are those of `weigh` and `sum` in `kernels/msm.cuh`; the parts are merged, so that
        // their place is free; the results have room for all windows.
        unsafe {
            launch!(
                self.kernels.weigh,
                self.stream,
                grid,
                weighed,
                sums,
                starts,
                window_buckets,
                run,
                buckets
            )?;
            launch!(self.kernels.sum, self.stream, (windows, LANES as u32, shared), results, weighed, count)
        }
    }
}
