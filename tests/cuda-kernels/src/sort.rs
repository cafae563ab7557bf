//! Sorting the digits of scalars into buckets that all windows share, in one step and in two, as `cuda/src/msm/sort.rs` has a
//! card do it.

use crate::alone;

/// A scalar as the kernels read it.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Aligned([u32; 8]);

unsafe extern "C" {
    fn test_sort_in_one_step(
        scalars: *const Aligned,
        points: u32,
        reversed_bits: u32,
        bits: u32,
        first_mark: u32,
        ranges: u32,
        entries: *mut u32,
        starts: *mut u32,
    ) -> bool;
    fn test_sort_in_two_steps(
        scalars: *const Aligned,
        points: u32,
        reversed_bits: u32,
        bits: u32,
        first_mark: u32,
        windows: u32,
        threads: u32,
        entries: *mut u32,
        starts: *mut u32,
    ) -> bool;
}

/// Bits of digits that make members of all groups, and no more than there is room for.
const BITS: std::ops::RangeInclusive<u32> = 14..=20;

/// The most windows that are split at a time.
const MOST_SPLIT: u32 = 16;

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

    /// Counted, then placed, for so many ranges of buckets one after the other.
    ///
    /// # Panics
    /// When a counter is not back at 0, digits are not of 14 to 20 bits, or there are not as many points as reversed bits say.
    pub fn sort_in_one_step(&self, ranges: u32) -> Sorted {
        self.sorted(|scalars, entries, starts| {
            let Self { reversed_bits, bits, first_mark, .. } = *self;
            let points = scalars.len() as u32;
            // SAFETY: there are so many scalars, aligned; `sorted` has room for all entries and starts.
            unsafe {
                test_sort_in_one_step(
                    scalars.as_ptr(),
                    points,
                    reversed_bits,
                    bits,
                    first_mark,
                    ranges,
                    entries,
                    starts,
                )
            }
        })
    }

    /// By groups of buckets, then within each; so many windows at a time. Blocks of `split_digits` have `threads` threads.
    ///
    /// # Panics
    /// As [`Scalars::sort_in_one_step`], and when the kernels do not take so many windows, or do not have so many threads.
    pub fn sort_in_two_steps(&self, windows_at_a_time: u32, threads: u32) -> Sorted {
        assert!((1..=MOST_SPLIT).contains(&windows_at_a_time), "{windows_at_a_time} windows");
        assert!([512, 1024].contains(&threads), "{threads} threads");
        self.sorted(|scalars, entries, starts| {
            let Self { reversed_bits, bits, first_mark, .. } = *self;
            let points = scalars.len() as u32;
            // SAFETY: as above.
            unsafe {
                test_sort_in_two_steps(
                    scalars.as_ptr(),
                    points,
                    reversed_bits,
                    bits,
                    first_mark,
                    windows_at_a_time,
                    threads,
                    entries,
                    starts,
                )
            }
        })
    }

    /// What `sort` writes to the entries and starts it is given; it says whether all that was counted is placed.
    fn sorted(&self, sort: impl FnOnce(&[Aligned], *mut u32, *mut u32) -> bool) -> Sorted {
        assert!(BITS.contains(&self.bits), "digits of {} bits", self.bits);
        assert!(self.reversed_bits == 0 || self.scalars.len() == 1 << self.reversed_bits);
        let scalars: Vec<Aligned> = self.scalars.iter().copied().map(Aligned).collect();
        let buckets = 1_usize << (self.bits - 1);
        let mut entries = vec![0; scalars.len() * self.windows() as usize];
        let mut starts = vec![0; buckets + 1];
        let _alone = alone();
        assert!(sort(&scalars, entries.as_mut_ptr(), starts.as_mut_ptr()), "all that was counted is placed");
        entries.truncate(starts[buckets] as usize);
        Sorted { entries, starts }
    }
}
