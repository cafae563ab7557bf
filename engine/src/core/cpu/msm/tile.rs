//! Sums of points by bucket, a tile of terms at a time, all additions affine and in batches.
//!
//! The terms of a tile are sorted by bucket; then each bucket's terms are added pairwise, level by
//! level, the additions of all buckets in common batches. However the digits are spread, even when
//! all fall into one bucket, batches stay full. Points are not copied: what is sorted are
//! references to them, 4 bytes each.

use std::collections::TryReserveError;

use group::Group;

use crate::arith::affine::{AffinePoint, add_batch};
use crate::arith::field::RawField;
use crate::arith::window::Window;

/// Additions that share an inversion. An inversion takes as long as about 80 multiplications.
const BATCH: usize = 512;

/// Runs of buckets that are summed side by side.
const CHAINS: usize = Window::MANY_BUCKETS / 2;

/// The terms of one tile.
pub trait Terms<P> {
    /// How many.
    fn len(&self) -> usize;
    /// Where term `index` goes: 0 nowhere, `k` into bucket `k`, `-k` into bucket `k` negated.
    fn digit(&self, index: usize) -> i32;
    /// The point of term `index`.
    fn point(&self, index: usize) -> &P;
}

/// A reference to a summand: the index of a term, or of a slot in [`Arena::sums`].
#[derive(Clone, Copy, Default)]
struct Ref(u32);

impl Ref {
    const SLOT: u32 = 1 << 31;
    const NEGATED: u32 = 1 << 30;
    const INDEX: u32 = Self::NEGATED - 1;

    fn term(index: usize, negated: bool) -> Self {
        Self(index as u32 | if negated { Self::NEGATED } else { 0 })
    }

    fn slot(index: u32) -> Self {
        Self(index | Self::SLOT)
    }

    #[inline]
    fn is_slot(self) -> bool {
        self.0 & Self::SLOT != 0
    }

    #[inline]
    fn index(self) -> usize {
        (self.0 & Self::INDEX) as usize
    }

    /// The point that is meant.
    #[inline]
    fn get<P: AffinePoint>(self, terms: &impl Terms<P>, sums: &[P]) -> P {
        if self.is_slot() {
            return sums[self.index()];
        }
        let point = *terms.point(self.index());
        if self.0 & Self::NEGATED != 0 { point.neg() } else { point }
    }

    /// Asks the processor to fetch the point that is meant.
    #[inline]
    fn prefetch<P: AffinePoint>(self, terms: &impl Terms<P>, sums: &[P]) {
        prefetch(if self.is_slot() { &sums[self.index()] } else { terms.point(self.index()) });
    }
}

/// How many additions ahead points are fetched.
const AHEAD: usize = 6;

/// Asks the processor to fetch `value` into its caches.
#[inline]
fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(value).cast::<i8>();
        for line in (0..size_of::<T>()).step_by(64) {
            // SAFETY: within `value`; and a prefetch has no effect besides speed.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// One addition to do: `target` gets the sum of both.
#[derive(Clone, Copy, Default)]
struct Planned {
    left: Ref,
    right: Ref,
    target: u32,
}

/// The working memory of one thread.
#[derive(Debug)]
pub struct Arena<P: AffinePoint> {
    buckets: Vec<P>,
    lens: Vec<u32>,
    starts: Vec<u32>,
    digits: Vec<i32>,
    refs: Vec<Ref>,
    sums: Vec<P>,
    chains: Vec<P>,
    planned: Vec<Planned>,
    left: Vec<P>,
    right: Vec<P>,
    scratch: Vec<P::Field>,
}

impl std::fmt::Debug for Ref {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl std::fmt::Debug for Planned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} + {:?} -> {}", self.left, self.right, self.target)
    }
}

fn filled<T: Copy>(value: T, len: usize) -> Result<Vec<T>, TryReserveError> {
    let mut out = Vec::new();
    out.try_reserve_exact(len)?;
    out.resize(len, value);
    Ok(out)
}

/// Points that summing up `buckets` buckets in chains needs.
fn chain_points(buckets: usize) -> usize {
    if buckets < Window::MANY_BUCKETS { 0 } else { 2 * CHAINS }
}

impl<P: AffinePoint> Arena<P> {
    /// Bytes of an arena for tiles of up to `terms` terms and up to `buckets` buckets.
    pub fn bytes(terms: usize, buckets: usize) -> u64 {
        let per_bucket = size_of::<P>() + 2 * size_of::<u32>();
        let per_term = size_of::<i32>() + size_of::<Ref>();
        let batch = size_of::<Planned>() + 2 * size_of::<P>() + size_of::<P::Field>();
        let points = (terms / 2 + chain_points(buckets)) * size_of::<P>();
        (buckets * per_bucket + terms * per_term + points + BATCH * batch) as u64
    }

    /// An arena for tiles of up to `terms` terms and up to `buckets` buckets.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn new(terms: usize, buckets: usize) -> Result<Self, TryReserveError> {
        Ok(Self {
            buckets: filled(P::IDENTITY, buckets)?,
            lens: filled(0, buckets)?,
            starts: filled(0, buckets)?,
            digits: filled(0, terms)?,
            refs: filled(Ref::default(), terms)?,
            sums: filled(P::IDENTITY, terms / 2)?,
            chains: filled(P::IDENTITY, chain_points(buckets))?,
            planned: filled(Planned::default(), BATCH)?,
            left: filled(P::IDENTITY, BATCH)?,
            right: filled(P::IDENTITY, BATCH)?,
            scratch: filled(P::Field::ZERO, BATCH)?,
        })
    }

    /// Empties the first `buckets` buckets.
    pub fn clear(&mut self, buckets: usize) {
        self.buckets[..buckets].fill(P::IDENTITY);
    }

    /// The sum in bucket `bucket`, counted from 1.
    pub fn bucket(&self, bucket: usize) -> &P {
        &self.buckets[bucket - 1]
    }

    /// Adds each term to its bucket, one of the first `buckets`.
    ///
    /// # Panics
    /// When the arena is too small for so many terms or buckets.
    pub fn accumulate(&mut self, terms: &impl Terms<P>, buckets: usize) {
        self.sort(terms, buckets);
        self.add_pairwise(terms, buckets);
        self.add_to_buckets(terms, buckets);
    }

    /// Counting sort of the terms by bucket into `refs`; `lens` gets the number in each bucket.
    fn sort(&mut self, terms: &impl Terms<P>, buckets: usize) {
        let lens = &mut self.lens[..buckets];
        lens.fill(0);
        for (index, slot) in self.digits[..terms.len()].iter_mut().enumerate() {
            let digit = terms.digit(index);
            *slot = digit;
            if digit != 0 {
                lens[digit.unsigned_abs() as usize - 1] += 1;
            }
        }
        let mut start = 0;
        for (slot, len) in self.starts.iter_mut().zip(&*lens) {
            *slot = start;
            start += len;
        }
        for (index, &digit) in self.digits[..terms.len()].iter().enumerate() {
            if digit != 0 {
                let start = &mut self.starts[digit.unsigned_abs() as usize - 1];
                self.refs[*start as usize] = Ref::term(index, digit < 0);
                *start += 1;
            }
        }
    }

    /// Adds the terms of each bucket pairwise until one is left.
    fn add_pairwise(&mut self, terms: &impl Terms<P>, buckets: usize) {
        let mut next_slot = 0;
        loop {
            let (mut read, mut write, mut planned) = (0, 0, 0);
            let mut again = false;
            for bucket in 0..buckets {
                let len = self.lens[bucket] as usize;
                for _ in 0..len / 2 {
                    let (left, right) = (self.refs[read], self.refs[read + 1]);
                    let target = if left.is_slot() {
                        left.index() as u32
                    } else if right.is_slot() {
                        right.index() as u32
                    } else {
                        next_slot += 1;
                        next_slot - 1
                    };
                    self.planned[planned] = Planned { left, right, target };
                    self.refs[write] = Ref::slot(target);
                    (read, write, planned) = (read + 2, write + 1, planned + 1);
                    if planned == BATCH {
                        self.run_planned(terms, planned);
                        planned = 0;
                    }
                }
                if len % 2 == 1 {
                    self.refs[write] = self.refs[read];
                    (read, write) = (read + 1, write + 1);
                }
                self.lens[bucket] = len.div_ceil(2) as u32;
                again |= len > 2;
            }
            self.run_planned(terms, planned);
            if !again {
                return;
            }
        }
    }

    /// Does the first `count` planned additions. The points are first brought together: the terms
    /// are scattered, and each point is read several times.
    fn run_planned(&mut self, terms: &impl Terms<P>, count: usize) {
        let planned = &self.planned[..count];
        let (left, right) = (&mut self.left[..count], &mut self.right[..count]);
        for (index, addition) in planned.iter().enumerate() {
            if let Some(later) = planned.get(index + AHEAD) {
                later.left.prefetch(terms, &self.sums);
                later.right.prefetch(terms, &self.sums);
            }
            left[index] = addition.left.get(terms, &self.sums);
            right[index] = addition.right.get(terms, &self.sums);
        }
        add_batch(left, right, &mut self.scratch);
        for (sum, planned) in left.iter().zip(planned) {
            self.sums[planned.target as usize] = *sum;
        }
    }

    /// Adds what is left of each bucket's terms to the bucket.
    fn add_to_buckets(&mut self, terms: &impl Terms<P>, buckets: usize) {
        let (mut read, mut planned) = (0, 0);
        for bucket in 0..buckets {
            if self.lens[bucket] == 0 {
                continue;
            }
            let right = self.refs[read];
            read += 1;
            if self.buckets[bucket].is_identity() {
                self.buckets[bucket] = right.get(terms, &self.sums);
                continue;
            }
            self.planned[planned] = Planned { left: Ref::default(), right, target: bucket as u32 };
            planned += 1;
            if planned == BATCH {
                self.run_merge(terms, planned);
                planned = 0;
            }
        }
        self.run_merge(terms, planned);
    }

    /// Does the first `count` planned additions to buckets.
    fn run_merge(&mut self, terms: &impl Terms<P>, count: usize) {
        let planned = &self.planned[..count];
        let (left, right) = (&mut self.left[..count], &mut self.right[..count]);
        for (index, addition) in planned.iter().enumerate() {
            if let Some(later) = planned.get(index + AHEAD) {
                later.right.prefetch(terms, &self.sums);
            }
            left[index] = self.buckets[addition.target as usize];
            right[index] = addition.right.get(terms, &self.sums);
        }
        add_batch(left, right, &mut self.scratch);
        for (sum, planned) in left.iter().zip(planned) {
            self.buckets[planned.target as usize] = *sum;
        }
    }

    /// `1 * bucket 1 + 2 * bucket 2 + ...` over the first `buckets` buckets, a power of two.
    pub fn weighted_sum(&mut self, buckets: usize) -> P::Group {
        if chain_points(buckets) == 0 {
            return weighted_sum_of(&self.buckets[..buckets]);
        }
        // Chain s takes buckets s * run + i + 1 for i below run. Going down from the top, its
        // `total` is the sum of the buckets so far and its `weighted` the sum of all totals, in the
        // end the sum of (i + 1) * bucket; the rest, s * run * total, is added at the end.
        let run = buckets / CHAINS;
        self.chains.fill(P::IDENTITY);
        for step in (0..run).rev() {
            // Both halves at once: `weighted` takes in the totals of the step before.
            let right = &mut self.right[..2 * CHAINS];
            right[CHAINS..].copy_from_slice(&self.chains[..CHAINS]);
            for (chain, slot) in right[..CHAINS].iter_mut().enumerate() {
                *slot = self.buckets[chain * run + step];
            }
            add_batch(&mut self.chains, right, &mut self.scratch);
        }
        let (totals, weighted) = self.chains.split_at(CHAINS);
        // `weighted` lags one step behind.
        let mut sum = P::Group::identity();
        for point in totals.iter().chain(weighted) {
            point.add_to(&mut sum);
        }
        // totals[s] weighs s = 1 * totals[1] + 2 * totals[2] + ...
        let mut shifted = weighted_sum_of(&totals[1..]);
        for _ in 0..run.ilog2() {
            shifted = shifted.double();
        }
        sum + shifted
    }
}

/// `1 * points[0] + 2 * points[1] + ...`
fn weighted_sum_of<P: AffinePoint>(points: &[P]) -> P::Group {
    let (mut total, mut sum) = (P::Group::identity(), P::Group::identity());
    for point in points.iter().rev() {
        point.add_to(&mut total);
        sum += total;
    }
    sum
}
