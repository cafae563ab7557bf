//! Multi-scalar multiplication on the card: Pippenger's buckets, a few windows at a time.
//!
//! For each pass: for each chunk of points, count the digits, place the points in their buckets' runs and add up each
//! bucket; then add up, for each bit, the buckets whose weight has it. The points of a key that is on the device are one
//! chunk. The host only sees the sums for bits ([`crate::sums`]).

mod sort;

use cust::stream::Stream;
use cust::sys::CUdeviceptr;

use crate::driver;
use crate::fault::Fault;
use crate::feed::Feed;
use crate::gpu::Gpu;
use crate::kernels::MsmKernels;
use crate::key::{Place, Points};
use crate::launch;
use crate::plan::{BATCHED_LANES, Group, LANES, Layout, Passes, Runs, Split, Weighing, Work, window_count};

/// Which scalar belongs to which point.
#[derive(Clone, Copy, Debug)]
pub enum Scalars {
    /// Point i has scalar i + the number.
    Shifted(u32),
    /// Point i has the scalar whose index has i's bits in reverse order.
    Reversed(u32),
    /// Point i has the scalar whose index is entry i of this vector.
    Listed(Place),
}

/// A sum to be done.
pub struct Msm<'a, 'b> {
    /// The device.
    pub gpu: &'a Gpu,
    /// The stream.
    pub stream: &'a Stream,
    /// How points get to the kernels.
    pub feed: &'a mut Feed<'b>,
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
    /// What is to be summed.
    pub work: Work,
    /// Start and length of the workspace.
    pub workspace: (CUdeviceptr, u64),
    /// Where the sums for bits go.
    pub results: CUdeviceptr,
}

/// How many points are left for the host, which makes `sum 2^i point_i` of them; none for an empty sum.
pub type Leftover = usize;

/// The windows of a pass and where everything is while they are summed.
struct Pass {
    bits: u32,
    first: u64,
    windows: u64,
    buckets: u32,
    runs: Runs,
    at: Layout,
    split: Option<Split>,
}

/// Points that are at hand, and the variables they belong to where these are listed.
struct Chunk {
    first: u64,
    count: u64,
    points: CUdeviceptr,
    variables: CUdeviceptr,
}

impl Msm<'_, '_> {
    /// Puts the sum on the stream.
    ///
    /// # Errors
    /// The workspace is too small, or the driver refuses a launch.
    pub fn run(mut self) -> Result<Leftover, Fault> {
        if self.points.count == 0 {
            return Ok(0);
        }
        let bytes = self.workspace.1;
        let Some(passes) = self.work.choose(self.group, bytes) else {
            let reason = "the plan gave too little".to_owned();
            return Err(Fault::OutOfMemory { what: "buckets", bytes, reason });
        };
        let all = window_count(passes.bits);
        if self.work.multiples.is_some() {
            return self.with_multiples(&passes, all);
        }
        // In a single chunk a bucket is written before it is read, or is known to be empty.
        let fresh = self.work.chunk >= self.points.count;
        // All sums for bits that are not made are infinity.
        self.clear_results(passes.bits as u64 * all)?;
        for first in (0..all).step_by(passes.windows as usize) {
            let windows = passes.windows.min(all - first);
            let pass = self.of_windows(&passes, first, windows, windows);
            if !fresh {
                self.clear(&pass)?;
            }
            self.fill(&pass, fresh)?;
            self.weigh(&pass, first, windows, fresh)?;
        }
        Ok(passes.bits as usize * all as usize)
    }

    /// All passes fill the same buckets, which are weighed once.
    fn with_multiples(&mut self, passes: &Passes, all: u64) -> Result<Leftover, Fault> {
        // Passes with the most entries have the layout of all.
        let at = self.work.layout(self.group, passes.bits, 0, passes.windows, passes.runs);
        let fresh = passes.windows == all;
        self.clear_results(passes.bits.into())?;
        for first in (0..all).step_by(passes.windows as usize) {
            let windows = passes.windows.min(all - first);
            let pass = Pass { at, ..self.of_windows(passes, first, windows, 1) };
            if !fresh && first == 0 {
                self.clear(&pass)?;
            }
            self.fill(&pass, fresh)?;
        }
        self.weigh(&Pass { at, ..self.of_windows(passes, 0, 1, 1) }, 0, 1, fresh)?;
        Ok(passes.bits as usize)
    }

    /// A pass over some windows, with buckets for `sets` of them.
    fn of_windows(&self, passes: &Passes, first: u64, windows: u64, sets: u64) -> Pass {
        let Passes { bits, runs, .. } = *passes;
        let at = self.work.layout(self.group, bits, first, windows, runs);
        Pass {
            bits,
            first,
            windows,
            buckets: (sets << (bits - 1)) as u32,
            runs,
            at,
            split: self.work.split(passes, &at),
        }
    }

    fn clear_results(&self, points: u64) -> Result<(), Fault> {
        let words = points * self.group.point_bytes / 4;
        // SAFETY: the results have room for a point for each bit of each window; a point of zeros is infinity.
        unsafe { driver::clear(self.results, words as usize, self.stream) }
    }

    fn clear(&self, pass: &Pass) -> Result<(), Fault> {
        let words = u64::from(pass.buckets) * self.group.point_bytes / 4;
        // SAFETY: the layout has room for all buckets; a point of zeros is infinity.
        unsafe { driver::clear(self.at(pass.at.sums), words as usize, self.stream) }
    }

    /// Adds all points to their buckets, chunk by chunk.
    fn fill(&mut self, pass: &Pass, fresh: bool) -> Result<(), Fault> {
        for first in (0..self.points.count).step_by(self.work.chunk as usize) {
            let chunk = self.bring(first)?;
            self.sort(pass, &chunk)?;
            self.add_up(pass, &chunk, fresh)?;
            self.feed.done()?;
        }
        Ok(())
    }

    /// The chunk of points that begins with number `first`.
    fn bring(&mut self, first: u64) -> Result<Chunk, Fault> {
        let count = self.work.chunk.min(self.points.count - first);
        let size = self.group.affine_bytes;
        let points = (self.points.place, size * first, size * count);
        let [points, variables] = match self.order {
            Scalars::Listed(variables) => self.feed.bring([points, (variables, 4 * first, 4 * count)])?,
            _ => [self.feed.bring([points])?[0], 0],
        };
        Ok(Chunk { first, count, points, variables })
    }

    fn at(&self, offset: u64) -> CUdeviceptr {
        self.workspace.0 + offset
    }

    fn add_up(&self, pass: &Pass, chunk: &Chunk, fresh: bool) -> Result<(), Fault> {
        if pass.runs.batch > 1 {
            self.accumulate_batched(pass, chunk)?
        } else {
            self.accumulate(pass, chunk, fresh)?
        }
        self.merge(pass)
    }

    fn accumulate(&self, pass: &Pass, chunk: &Chunk, fresh: bool) -> Result<(), Fault> {
        let (at, buckets, fresh, points) = (&pass.at, pass.buckets, u32::from(fresh), chunk.points);
        let (entries, starts, sums) = (self.at(at.entries), self.at(at.starts), self.at(at.sums));
        let (parts, part_buckets) = (self.at(at.parts), self.at(at.part_buckets));
        let grid = (pass.runs.threads * self.group.lanes / LANES, LANES as u32, 0);
        // SAFETY: the parameters are those of `accumulate` in `kernels/g1.cu` and `kernels/g2.cu`; there is one part for each run,
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
                points,
                fresh
            )
        }
    }

    fn accumulate_batched(&self, pass: &Pass, chunk: &Chunk) -> Result<(), Fault> {
        let (at, buckets, points, batch) = (&pass.at, pass.buckets, chunk.points, pass.runs.batch as u32);
        let (entries, starts, sums) = (self.at(at.entries), self.at(at.starts), self.at(at.sums));
        let (parts, part_buckets) = (self.at(at.parts), self.at(at.part_buckets));
        let (run_sums, products, run_buckets) =
            (self.at(at.run_sums), self.at(at.run_products), self.at(at.run_buckets));
        let grid = (pass.runs.threads / BATCHED_LANES, BATCHED_LANES as u32, 0);
        // SAFETY: the parameters are those of `accumulate_batched` in `kernels/batched.cu`; the layout has room for
        // as many runs; entries are marked, since `batch` is above 1, and number fewer than 2^30 points.
        unsafe {
            launch!(
                self.gpu.kernels.accumulate_batched,
                self.stream,
                grid,
                sums,
                parts,
                part_buckets,
                entries,
                starts,
                buckets,
                points,
                run_sums,
                products,
                run_buckets,
                batch
            )
        }
    }

    /// Adds the parts that runs left to their buckets.
    fn merge(&self, pass: &Pass) -> Result<(), Fault> {
        let (sums, runs) = (self.at(pass.at.sums), pass.runs);
        let (mut parts, mut part_buckets) = (self.at(pass.at.parts), self.at(pass.at.part_buckets));
        let mut part_bytes = runs.part_bytes(self.group);
        for level in runs.merge_levels(self.group).windows(2) {
            let (count, next) = (level[0] as u32, level[1]);
            let next_parts = parts + level[0] * part_bytes;
            let next_buckets = part_buckets + 4 * level[0];
            let affine = part_bytes == self.group.affine_bytes;
            let (merge, grid) = if affine {
                (&self.gpu.kernels.merge_runs, (next.div_ceil(LANES), LANES as u32, 0))
            } else {
                (&self.kernels.merge, (next, LANES as u32, self.shared_bytes()))
            };
            // SAFETY: the parameters are those of `merge` in `kernels/msm.cuh` and of `merge_runs` in
            // `kernels/batched.cu`; `Layout` has room for the parts of all levels.
            unsafe {
                launch!(
                    merge,
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
            (parts, part_buckets, part_bytes) = (next_parts, next_buckets, self.group.point_bytes);
        }
        Ok(())
    }

    /// Of a block of the kernels: room for its points.
    fn shared_bytes(&self) -> u32 {
        (self.group.block_points() * self.group.point_bytes) as u32
    }

    /// The sums of the buckets of `sets` windows from `first` on, for bits of their weights, to the results.
    fn weigh(&self, pass: &Pass, first: u64, sets: u64, fresh: bool) -> Result<(), Fault> {
        let (at, size) = (&pass.at, self.group.point_bytes);
        let sums = self.at(at.sums);
        // Where the buckets of the last chunk start says nothing of the others.
        let starts = if fresh { self.at(at.starts) } else { 0 };
        let weighing = Weighing::new(self.group, pass.bits, sets);
        let Weighing { log_run, log_runs, slices, .. } = weighing;
        let (runs, slices) = (weighing.runs(), slices as u32);
        let plain = self.at(at.parts);
        let weighed = plain + runs * size;
        let sliced = weighed + runs * size;
        let results = self.results + first * u64::from(pass.bits) * size;
        let blocks = sets * weighing.results();
        let grid = ((runs * self.group.lanes).div_ceil(LANES), LANES as u32, 0);
        let count = runs as u32;
        // SAFETY: the parameters are those of these kernels in `kernels/msm.cuh`; the parts are merged, so that
        // their place is free, and has room for two points a run and those of the slices; the results have room for all bits
        // of all windows.
        unsafe {
            launch!(
                self.kernels.weigh_runs,
                self.stream,
                grid,
                plain,
                weighed,
                sums,
                starts,
                count,
                log_run
            )?;
            let grid = (blocks * u64::from(slices), LANES as u32, self.shared_bytes());
            launch!(self.kernels.weigh, self.stream, grid, sliced, plain, weighed, log_runs, slices)?;
            let grid = (blocks, LANES as u32, self.shared_bytes());
            let bits = pass.bits;
            launch!(self.kernels.sum, self.stream, grid, results, sliced, slices, bits, log_run, log_runs)
        }
    }
}
