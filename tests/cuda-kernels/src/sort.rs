//! Sorting the digits of scalars into buckets that all windows share, in one step and in two, as `cuda/src/msm/sort.rs` has a
//! card do it.

use crate::alone;

/// A scalar as the kernels read it.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Aligned([u32; 8]);

/// `digits_t` of the kernels.
#[repr(C)]
#[derive(Clone, Copy)]
struct Digits {
    scalars: *const Aligned,
    variables: *const u32,
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

/// `split_t` of the kernels.
#[repr(C)]
struct Split {
    entries: *mut u32,
    members: *mut u16,
    counts: *mut u32,
    begins: *mut u32,
    ends: *mut u32,
    chunks: *mut u32,
    member_bits: u32,
}

unsafe extern "C" {
    fn test_count_digits(counts: *mut u32, digits: *const Digits);
    fn test_place_digits(entries: *mut u32, counts: *mut u32, starts: *const u32, digits: *const Digits);
    fn test_sum_counts(starts: *mut u32, totals: *mut u32, counts: *const u32, buckets: u32);
    fn test_split_windows(threads: u32, split: *const Split, digits: *const Digits);
    fn test_count_members(blocks: u32, counts: *mut u32, split: *const Split);
    fn test_place_members(
        blocks: u32,
        entries: *mut u32,
        counts: *mut u32,
        starts: *const u32,
        split: *const Split,
        first_mark: u32,
    );
}

/// Bits of digits that make members of all groups, and no more than there is room for.
const BITS: std::ops::RangeInclusive<u32> = 14..=20;

/// The most windows that are split at a time.
const MOST_SPLIT: u32 = 16;

/// Groups of buckets, and to what multiple of entries a group's run is rounded up.
const GROUPS: usize = 512;
const QUAD: usize = 4;

/// Entries of a bucket, which begin where `starts` says; one start more is the end of all.
#[derive(Debug, PartialEq, Eq)]
pub struct Sorted {
    /// Point plus window times the number of points; sign and mark in the top bits.
    pub entries: Vec<u32>,
    /// Where each bucket's entries start.
    pub starts: Vec<u32>,
}

/// Scalars whose digits are sorted.
pub struct Scalars<'a> {
    /// Below 2^255, eight words each, the lowest first.
    pub scalars: &'a [[u32; 8]],
    /// Point i has the scalar whose index has the bits of i in reverse order, where there are 2^`reversed_bits` points; in their order
    /// for 0.
    pub reversed_bits: u32,
    /// Bits of a digit.
    pub bits: u32,
    /// Is set in the first entry of each bucket.
    pub first_mark: u32,
}

impl Scalars<'_> {
    /// Digits of a scalar.
    pub fn windows(&self) -> u32 {
        256_u32.div_ceil(self.bits)
    }

    fn buckets(&self) -> usize {
        1 << (self.bits - 1)
    }

    /// As many entries as there can be.
    fn room(&self) -> Vec<u32> {
        vec![0; self.scalars.len() * self.windows() as usize]
    }

    /// # Panics
    /// When digits are not of 14 to 20 bits, or there are not as many points as reversed bits say.
    fn aligned(&self) -> Vec<Aligned> {
        assert!(BITS.contains(&self.bits), "digits of {} bits", self.bits);
        assert!(self.reversed_bits == 0 || self.scalars.len() == 1 << self.reversed_bits);
        self.scalars.iter().copied().map(Aligned).collect()
    }

    fn digits(&self, scalars: &[Aligned], first_window: u32, windows: u32) -> Digits {
        let mut offset = [0; 9];
        for window in 0..self.windows() {
            let position = window * self.bits + self.bits - 1;
            offset[position as usize / 32] |= 1 << (position % 32);
        }
        Digits {
            scalars: scalars.as_ptr(),
            variables: std::ptr::null(),
            first: 0,
            reversed_bits: self.reversed_bits,
            points: self.scalars.len() as u32,
            stride: self.scalars.len() as u32,
            bits: self.bits,
            first_window,
            windows,
            first_mark: self.first_mark,
            first_bucket: 0,
            end_bucket: self.buckets() as u32,
            offset,
        }
    }

    /// Counted, then placed, for so many ranges of buckets one after the other.
    ///
    /// # Panics
    /// When a counter is not back at 0, digits are not of 14 to 20 bits, or there are not as many points as reversed bits say.
    pub fn sort_in_one_step(&self, ranges: u32) -> Sorted {
        let scalars = self.aligned();
        let _alone = alone();
        let buckets = self.buckets();
        let (mut counts, mut entries) = (vec![0; buckets], self.room());
        let mut digits = self.digits(&scalars, 0, self.windows());
        // SAFETY: there is a count for each bucket and room for all entries; the digits' pointers hold while the kernels run.
        unsafe {
            test_count_digits(counts.as_mut_ptr(), &digits);
            let starts = starts_of(&counts);
            for range in 0..ranges {
                digits.first_bucket = buckets as u32 * range / ranges;
                digits.end_bucket = buckets as u32 * (range + 1) / ranges;
                test_place_digits(entries.as_mut_ptr(), counts.as_mut_ptr(), starts.as_ptr(), &digits);
            }
            finished(entries, starts, &counts)
        }
    }

    /// By groups of buckets, then within each; so many windows at a time. Blocks of `split_digits` have `threads` threads.
    ///
    /// # Panics
    /// As [`Scalars::sort_in_one_step`], and when the kernels do not take so many windows, or do not have so many threads.
    pub fn sort_in_two_steps(&self, windows_at_a_time: u32, threads: u32) -> Sorted {
        assert!((1..=MOST_SPLIT).contains(&windows_at_a_time), "{windows_at_a_time} windows");
        assert!([512, 1024].contains(&threads), "{threads} threads");
        let scalars = self.aligned();
        let _alone = alone();
        let room = windows_at_a_time as usize * self.scalars.len() + QUAD * GROUPS;
        let (mut group_entries, mut members) = (vec![0; room], vec![0; room]);
        let (mut group_counts, mut begins, mut ends) = (vec![0; GROUPS], vec![0; GROUPS], vec![0; GROUPS]);
        let mut chunks = vec![0_u32; GROUPS + 1];
        let split = Split {
            entries: group_entries.as_mut_ptr(),
            members: members.as_mut_ptr(),
            counts: group_counts.as_mut_ptr(),
            begins: begins.as_mut_ptr(),
            ends: ends.as_mut_ptr(),
            chunks: chunks.as_mut_ptr(),
            member_bits: self.bits - 1 - GROUPS.ilog2(),
        };
        let (mut counts, mut entries) = (vec![0; self.buckets()], self.room());
        let turns: Vec<u32> = (0..self.windows()).step_by(windows_at_a_time as usize).collect();
        let digits =
            |first: &u32| self.digits(&scalars, *first, windows_at_a_time.min(self.windows() - first));
        // A card has a block for each chunk that there may be; those without one do nothing.
        let blocks = || {
            // SAFETY: it is as long, and no kernel runs now.
            unsafe { *split.chunks.add(GROUPS) + 2 }
        };
        // SAFETY: there is a count for each bucket and group, room for the entries of as many windows, rounded up for each group, and
        // for all; all pointers hold while the kernels run.
        unsafe {
            for first in &turns {
                test_split_windows(threads, &split, &digits(first));
                test_count_members(blocks(), counts.as_mut_ptr(), &split);
            }
            let starts = starts_of(&counts);
            for (turn, first) in turns.iter().rev().enumerate() {
                // The last windows to be counted are there already.
                if turn > 0 {
                    test_split_windows(threads, &split, &digits(first));
                }
                let (entries, counts) = (entries.as_mut_ptr(), counts.as_mut_ptr());
                test_place_members(blocks(), entries, counts, starts.as_ptr(), &split, self.first_mark);
            }
            finished(entries, starts, &counts)
        }
    }
}

/// Where buckets start.
fn starts_of(counts: &[u32]) -> Vec<u32> {
    let (mut starts, mut totals) = (vec![0; counts.len() + 1], vec![0; counts.len() / 2048 + 2]);
    // SAFETY: a start more than there are counts, and a total for each block of 2048 and one more.
    unsafe {
        test_sum_counts(starts.as_mut_ptr(), totals.as_mut_ptr(), counts.as_ptr(), counts.len() as u32)
    };
    starts
}

fn finished(mut entries: Vec<u32>, starts: Vec<u32>, counts: &[u32]) -> Sorted {
    assert!(counts.iter().all(|count| *count == 0), "all that was counted is placed");
    entries.truncate(starts[starts.len() - 1] as usize);
    Sorted { entries, starts }
}
