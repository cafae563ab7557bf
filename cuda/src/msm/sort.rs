//! The entries of a chunk of points, sorted by bucket: counted, then placed, in one step or in two.

use cust::sys::CUdeviceptr;

use super::{Chunk, Msm, Pass, Scalars};
use crate::driver;
use crate::fault::Fault;
use crate::kernels::SplitDigits;
use crate::launch;
use crate::plan::split::{COUNT_POINTS, GROUPS, PLACE_SHARED_BYTES, THREADS, split_shared_bytes};
use crate::plan::{SUM_BLOCK, Split, digit_offset};

/// `digits_t` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct DigitsArgument {
    scalars: CUdeviceptr,
    variables: CUdeviceptr,
    first: u32,
    reversed_bits: u32,
    points: u32,
    stride: u32,
    bits: u32,
    first_window: u32,
    windows: u32,
    first_mark: u32,
    first_bucket: u32,
    end_bucket: u32,
    offset: [u32; 9],
}

/// Entries that are placed at a time: they stay in the L2 cache until their sectors are full.
const RANGE_BYTES: u64 = 64 << 20;

/// `FIRST` of `kernels/batched.cu`.
const FIRST: u32 = 1 << 30;

/// `split_t` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct SplitArgument {
    entries: CUdeviceptr,
    members: CUdeviceptr,
    counts: CUdeviceptr,
    begins: CUdeviceptr,
    ends: CUdeviceptr,
    chunks: CUdeviceptr,
    member_bits: u32,
}

impl Msm<'_, '_> {
    /// Sorts the entries of a chunk for a pass.
    pub(super) fn sort(&self, pass: &Pass, chunk: &Chunk) -> Result<(), Fault> {
        let digits = self.digits(pass, chunk);
        // SAFETY: the layout has room for a count for each bucket.
        unsafe { driver::clear(self.at(pass.at.counts), pass.buckets as usize, self.stream)? };
        match &pass.split {
            Some(split) => self.sort_in_two_steps(pass, split, digits),
            None => self.sort_in_one_step(pass, digits),
        }
    }

    fn digits(&self, pass: &Pass, chunk: &Chunk) -> DigitsArgument {
        let (first, reversed_bits) = match self.order {
            Scalars::Shifted(shift) => (chunk.first as u32 + shift, 0),
            Scalars::Reversed(bits) => (chunk.first as u32, bits),
            Scalars::Listed(_) => (chunk.first as u32, 0),
        };
        DigitsArgument {
            scalars: self.scalars,
            variables: chunk.variables,
            first,
            reversed_bits,
            points: chunk.count as u32,
            stride: if self.work.multiples.is_some() { self.points.count as u32 } else { 0 },
            bits: pass.bits,
            first_window: pass.first as u32,
            windows: pass.windows as u32,
            first_mark: if pass.runs.batch > 1 { FIRST } else { 0 },
            first_bucket: 0,
            end_bucket: pass.buckets,
            offset: digit_offset(pass.bits),
        }
    }

    fn sort_in_one_step(&self, pass: &Pass, mut digits: DigitsArgument) -> Result<(), Fault> {
        let (kernels, at, buckets) = (&self.gpu.kernels, &pass.at, pass.buckets);
        let (entries, counts, starts) = (self.at(at.entries), self.at(at.counts), self.at(at.starts));
        let points = (u64::from(digits.points).div_ceil(256), 256, 0);
        // SAFETY: the parameters are those of `kernels/sort.cu`; `Layout` has room for a count for each bucket.
        unsafe { launch!(kernels.count_digits, self.stream, points, counts, digits)? };
        self.sum_counts(pass)?;
        let entry_bytes = 4 * self.work.most_entries(pass.first, pass.windows);
        let ranges = entry_bytes.div_ceil(RANGE_BYTES).clamp(1, u64::from(buckets)) as u32;
        for range in 0..ranges {
            digits.first_bucket = (u64::from(buckets) * u64::from(range) / u64::from(ranges)) as u32;
            digits.end_bucket = (u64::from(buckets) * u64::from(range + 1) / u64::from(ranges)) as u32;
            // SAFETY: as above; and as many entries as there can be.
            unsafe { launch!(kernels.place_digits, self.stream, points, entries, counts, starts, digits)? };
        }
        Ok(())
    }

    /// Where buckets start.
    fn sum_counts(&self, pass: &Pass) -> Result<(), Fault> {
        let (kernels, at, buckets) = (&self.gpu.kernels, &pass.at, pass.buckets);
        let (counts, starts, totals) = (self.at(at.counts), self.at(at.starts), self.at(at.totals));
        let blocks = buckets.div_ceil(SUM_BLOCK as u32);
        let grid = (u64::from(blocks), 256, 0);
        let ends = (u64::from(buckets + 1).div_ceil(256), 256, 0);
        // SAFETY: the parameters are those of `kernels/sort.cu`; `Layout` has room for what they write: one start more than
        // there are buckets, a total for each block and one more.
        unsafe {
            launch!(kernels.sum_blocks, self.stream, grid, starts, totals, counts, buckets)?;
            launch!(kernels.sum_totals, self.stream, (1, 256, 0), totals, blocks)?;
            launch!(kernels.add_totals, self.stream, ends, starts, totals, buckets, blocks)
        }
    }

    /// Where there is no room for all entries by group at once, some windows have their turn to be counted, and another to be
    /// placed; the last ones to be counted are there already.
    fn sort_in_two_steps(&self, pass: &Pass, split: &Split, digits: DigitsArgument) -> Result<(), Fault> {
        let (kernels, at) = (&self.gpu.kernels, &pass.at);
        let (entries, counts, starts) = (self.at(at.entries), self.at(at.counts), self.at(at.starts));
        let tables = self.at(split.tables);
        let [counters, begins, ends, chunks] = [0, 1, 2, 3].map(|table| tables + 4 * GROUPS * table);
        let argument = SplitArgument {
            entries: self.at(split.entries),
            members: self.at(split.members),
            counts: counters,
            begins,
            ends,
            chunks,
            member_bits: pass.bits - 1 - GROUPS.ilog2(),
        };
        let first_windows: Vec<u64> = (0..pass.windows).step_by(split.windows as usize).collect();
        let blocks = split.most_chunks(digits.points.into());
        // SAFETY: the parameters are those of `kernels/split.cu`, whose blocks have as many threads and so much shared memory;
        // `Split` has room for the entries of as many windows, and `Layout` for all.
        unsafe {
            driver::clear(counters, GROUPS as usize, self.stream)?;
            for first in &first_windows {
                self.split_windows(pass, split, *first, argument, digits)?;
                let grid = (blocks, THREADS as u32, 0);
                launch!(kernels.count_members, self.stream, grid, counts, argument)?;
            }
            self.sum_counts(pass)?;
            for (turn, first) in first_windows.iter().rev().enumerate() {
                if turn > 0 {
                    self.split_windows(pass, split, *first, argument, digits)?;
                }
                let (grid, mark) = ((blocks, THREADS as u32, PLACE_SHARED_BYTES), digits.first_mark);
                let place = &kernels.place_members;
                launch!(place, self.stream, grid, entries, counts, starts, argument, mark)?;
            }
        }
        Ok(())
    }

    /// The entries of some windows from `first` on, by group.
    fn split_windows(
        &self,
        pass: &Pass,
        split: &Split,
        first: u64,
        argument: SplitArgument,
        digits: DigitsArgument,
    ) -> Result<(), Fault> {
        let (kernels, points) = (&self.gpu.kernels, u64::from(digits.points));
        let windows = split.windows.min(pass.windows - first);
        let digits = DigitsArgument { first_window: first as u32, windows: windows as u32, ..digits };
        let counting = (points.div_ceil(COUNT_POINTS * THREADS), THREADS as u32, 0);
        let SplitDigits { kernel: split_digits, threads } = &kernels.split_digits;
        let shared_bytes = split_shared_bytes(windows, *threads);
        let splitting = (points.div_ceil(*threads), *threads as u32, shared_bytes);
        // SAFETY: as for the caller.
        unsafe {
            launch!(kernels.count_groups, self.stream, counting, argument, digits)?;
            launch!(kernels.begin_groups, self.stream, (1, GROUPS as u32, 0), argument)?;
            launch!(split_digits, self.stream, splitting, argument, digits)
        }
    }
}
