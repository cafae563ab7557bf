//! Multi-scalar multiplication: Pippenger's method with signed windows and affine buckets.
//!
//! Scalars that are 0, 1 or -1, which is most of what a real witness holds, are told apart
//! beforehand: they cost nothing, or one addition. All sums of a proof are cut into jobs, which the
//! threads take from a common list, each with its own `Arena` of known size.

use std::collections::TryReserveError;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use blst::blst_fr;
use group::Group;
use parking_lot::Mutex;
use rayon::prelude::*;

use crate::arith::affine::AffinePoint;
use crate::arith::window::Window;

mod tile;

use tile::{Arena, Terms};

/// Terms that are sorted and added at once.
const TILE: usize = 1 << 14;

/// Terms with scalar 1 or -1 that make one job.
const UNIT_JOB: usize = TILE;

/// A product to add up: indices into the points and into the scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Index of the point.
    pub point: u32,
    /// Index of the scalar.
    pub scalar: u32,
}

/// Which scalars belong to which points.
#[derive(Clone, Copy, Debug)]
pub enum Products<'a> {
    /// Scalar `i` to point `i`.
    InOrder,
    /// As listed.
    Listed(&'a [Product]),
}

/// A sum to compute: `sum scalar * point + sum plus - sum minus`.
#[derive(Clone, Copy, Debug)]
pub struct Sum<'a, P: AffinePoint> {
    /// The points.
    pub points: &'a [P::Public],
    /// The scalars, as integers below r.
    pub scalars: &'a [blst_fr],
    /// What to multiply.
    pub products: Products<'a>,
    /// Points that are added as they are.
    pub plus: &'a [u32],
    /// Points that are subtracted.
    pub minus: &'a [u32],
}

impl<P: AffinePoint> Sum<'_, P> {
    fn num_products(&self) -> usize {
        match self.products {
            Products::InOrder => self.scalars.len(),
            Products::Listed(list) => list.len(),
        }
    }
}

/// Bytes that one thread needs for sums of at most `terms` terms.
pub fn arena_bytes<P: AffinePoint>(terms: usize) -> u64 {
    Arena::<P>::bytes(terms.min(TILE), Window::for_terms(terms).buckets())
}

/// Bytes, besides arenas, for a batch of `sums` sums of at most `terms` terms on `threads` threads.
pub fn list_bytes<P: AffinePoint>(sums: usize, terms: usize, threads: usize) -> u64 {
    let most_windows = Window::for_terms(0).count();
    // See `splits`; plus one job at the end of each list of units.
    let jobs = most_windows + 2 * threads + terms / UNIT_JOB + 2;
    let parts = size_of::<Mutex<P::Group>>() * (most_windows + 1);
    // The job list is held twice while it grows.
    let per_sum = 2 * jobs * size_of::<Job>() + parts + size_of::<Plan<P>>() + size_of::<P::Group>();
    (sums * per_sum) as u64
}

/// Into how many jobs a window is cut, so that all threads find something to do.
fn splits(windows: usize, terms: usize, threads: usize) -> usize {
    (2 * threads).div_ceil(windows).min(terms.div_ceil(TILE)).max(1)
}

/// One piece of one sum.
#[derive(Clone, Debug)]
struct Job {
    sum: usize,
    kind: Kind,
    terms: Range<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Window(usize),
    Plus,
    Minus,
}

/// How one sum is cut up, and what has come of it so far.
#[derive(Debug)]
struct Plan<P: AffinePoint> {
    window: Window,
    /// One for each window, the last for the points with scalar 1 and -1.
    parts: Vec<Mutex<P::Group>>,
}

/// Sums in one group, cut into jobs that any number of threads work off.
#[derive(Debug)]
pub struct Batch<'a, P: AffinePoint> {
    sums: &'a [Sum<'a, P>],
    plans: Vec<Plan<P>>,
    jobs: Vec<Job>,
    next: AtomicUsize,
    tile: usize,
    buckets: usize,
}

impl<'a, P: AffinePoint> Batch<'a, P> {
    /// Cuts `sums` up for `threads` threads.
    ///
    /// # Errors
    /// When the memory for the lists cannot be had.
    pub fn new(sums: &'a [Sum<'a, P>], threads: usize) -> Result<Self, TryReserveError> {
        let mut batch = Self {
            sums,
            plans: Vec::new(),
            jobs: Vec::new(),
            next: AtomicUsize::new(0),
            tile: 0,
            buckets: 1,
        };
        batch.plans.try_reserve_exact(sums.len())?;
        for (index, sum) in sums.iter().enumerate() {
            batch.plan(index, sum, threads)?;
        }
        Ok(batch)
    }

    fn plan(&mut self, index: usize, sum: &Sum<'_, P>, threads: usize) -> Result<(), TryReserveError> {
        let products = sum.num_products();
        let window = Window::for_terms(products);
        let windows = if products == 0 { 0 } else { window.count() };
        let mut parts = Vec::new();
        parts.try_reserve_exact(windows + 1)?;
        parts.resize_with(windows + 1, || Mutex::new(P::Group::identity()));
        let splits = splits(windows.max(1), products, threads);
        let units = sum.plus.len().div_ceil(UNIT_JOB) + sum.minus.len().div_ceil(UNIT_JOB);
        self.jobs.try_reserve_exact(windows * splits + units)?;
        let mut push = |kind, terms| self.jobs.push(Job { sum: index, kind, terms });
        for window in 0..windows {
            for split in 0..splits {
                let bound = |split| (products as u64 * split as u64 / splits as u64) as usize;
                push(Kind::Window(window), bound(split)..bound(split + 1));
            }
        }
        for (kind, len) in [(Kind::Plus, sum.plus.len()), (Kind::Minus, sum.minus.len())] {
            for start in (0..len).step_by(UNIT_JOB) {
                push(kind, start..len.min(start + UNIT_JOB));
            }
        }
        self.plans.push(Plan { window, parts });
        let largest = products.max(sum.plus.len()).max(sum.minus.len());
        self.tile = self.tile.max(largest.min(TILE));
        if windows > 0 {
            self.buckets = self.buckets.max(window.buckets());
        }
        Ok(())
    }

    /// Takes jobs until there are none. Made to be called on several threads at once; the arena of
    /// each is allocated here and freed at the end.
    ///
    /// # Errors
    /// When the memory for the arena cannot be had: the jobs are then left to other threads.
    pub fn work(&self) -> Result<(), TryReserveError> {
        let mut arena = None;
        loop {
            if self.next.load(Ordering::Relaxed) >= self.jobs.len() {
                return Ok(());
            }
            let arena = match &mut arena {
                Some(arena) => arena,
                none => none.insert(Arena::new(self.tile, self.buckets)?),
            };
            let Some(job) = self.jobs.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                return Ok(());
            };
            let (part, result) = self.run(job, arena);
            *self.plans[job.sum].parts[part].lock() += result;
        }
    }

    /// Does one job: which part of its sum it belongs to, and what it adds to it.
    fn run(&self, job: &Job, arena: &mut Arena<P>) -> (usize, P::Group) {
        let sum = &self.sums[job.sum];
        let plan = &self.plans[job.sum];
        let buckets = match job.kind {
            Kind::Window(_) => plan.window.buckets(),
            Kind::Plus | Kind::Minus => 1,
        };
        arena.clear(buckets);
        for start in job.terms.clone().step_by(TILE) {
            let len = TILE.min(job.terms.end - start);
            match job.kind {
                Kind::Window(index) => {
                    let window = plan.window;
                    arena.accumulate(&WindowTerms { sum, window, index, start, len }, buckets);
                }
                Kind::Plus => {
                    let list = &sum.plus[start..start + len];
                    arena.accumulate(&UnitTerms { sum, list, digit: 1 }, buckets);
                }
                Kind::Minus => {
                    let list = &sum.minus[start..start + len];
                    arena.accumulate(&UnitTerms { sum, list, digit: -1 }, buckets);
                }
            }
        }
        match job.kind {
            Kind::Window(index) => (index, arena.weighted_sum(buckets)),
            Kind::Plus | Kind::Minus => {
                let mut result = P::Group::identity();
                arena.bucket(1).add_to(&mut result);
                (plan.parts.len() - 1, result)
            }
        }
    }

    /// The sums, in order.
    ///
    /// # Panics
    /// When jobs are left.
    pub fn finish(self) -> Vec<P::Group> {
        assert!(self.next.into_inner() >= self.jobs.len(), "not all jobs were done");
        self.plans.into_iter().map(combine).collect()
    }
}

/// Puts the windows of one sum together.
fn combine<P: AffinePoint>(plan: Plan<P>) -> P::Group {
    let mut parts = plan.parts.into_iter().map(Mutex::into_inner).rev();
    let units = parts.next().unwrap_or_else(P::Group::identity);
    let windows = parts.fold(P::Group::identity(), |sum, part| {
        (0..plan.window.bits()).fold(sum, |sum, _| sum.double()) + part
    });
    windows + units
}

/// One window of the products of a sum.
struct WindowTerms<'a, P: AffinePoint> {
    sum: &'a Sum<'a, P>,
    window: Window,
    index: usize,
    start: usize,
    len: usize,
}

impl<P: AffinePoint> WindowTerms<'_, P> {
    #[inline]
    fn product(&self, index: usize) -> (usize, usize) {
        let index = self.start + index;
        match self.sum.products {
            Products::InOrder => (index, index),
            Products::Listed(list) => (list[index].point as usize, list[index].scalar as usize),
        }
    }
}

impl<P: AffinePoint> Terms<P> for WindowTerms<'_, P> {
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn digit(&self, index: usize) -> i32 {
        let (_, scalar) = self.product(index);
        self.window.digit(&self.sum.scalars[scalar].l, self.index)
    }

    #[inline]
    fn point(&self, index: usize) -> &P {
        let (point, _) = self.product(index);
        self.sum.points[point].as_ref()
    }
}

/// Points with scalar 1 or -1.
struct UnitTerms<'a, P: AffinePoint> {
    sum: &'a Sum<'a, P>,
    list: &'a [u32],
    digit: i32,
}

impl<P: AffinePoint> Terms<P> for UnitTerms<'_, P> {
    fn len(&self) -> usize {
        self.list.len()
    }

    #[inline]
    fn digit(&self, _: usize) -> i32 {
        self.digit
    }

    #[inline]
    fn point(&self, index: usize) -> &P {
        self.sum.points[self.list[index] as usize].as_ref()
    }
}

/// `sum scalars[i] * points[i]`, on all threads of the current rayon pool. The scalars are integers
/// below r.
///
/// # Errors
/// When the memory for it cannot be had.
///
/// # Panics
/// When there are more scalars than points.
pub fn multiply<P: AffinePoint>(
    points: &[P::Public],
    scalars: &[blst_fr],
) -> Result<P::Group, TryReserveError> {
    assert!(scalars.len() <= points.len(), "a scalar has no point");
    let sums = [Sum::<P> { points, scalars, products: Products::InOrder, plus: &[], minus: &[] }];
    let threads = rayon::current_num_threads();
    let batch = Batch::new(&sums, threads)?;
    (0..threads).into_par_iter().with_max_len(1).try_for_each(|_| batch.work())?;
    let [sum] = batch.finish()[..] else { unreachable!("one sum was asked for") };
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use blst::{blst_p1_affine, blst_p2_affine};
    use blstrs::Scalar;
    use ff::Field;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::arith::field::canonical;

    /// Points that are random, repeated, each other's negatives, and the identity.
    fn points<P: AffinePoint>(count: usize, rng: &mut ChaCha8Rng) -> Vec<P> {
        let groups: Vec<_> = (0..count).map(|_| P::Group::random(&mut *rng)).collect();
        let mut points = P::normalize(&groups);
        for index in (4..count).step_by(5) {
            points[index] = match index % 4 {
                0 => points[index - 1],
                1 => points[index - 1].neg(),
                _ => P::IDENTITY,
            };
        }
        points
    }

    /// Against one multiplication after the other.
    fn check<P: AffinePoint>(count: usize, scalar: impl Fn(usize, &mut ChaCha8Rng) -> Scalar)
    where
        P::Group: std::ops::Mul<Scalar, Output = P::Group>,
    {
        let rng = &mut ChaCha8Rng::seed_from_u64(count as u64);
        let points = points::<P>(count, rng);
        let scalars: Vec<_> = (0..count).map(|index| scalar(index, rng)).collect();
        let mut expected = P::Group::identity();
        for (point, scalar) in points.iter().zip(&scalars) {
            let mut group = P::Group::identity();
            point.add_to(&mut group);
            expected += group * *scalar;
        }
        let public: Vec<_> = points.iter().map(|point| point.to_public()).collect();
        let integers: Vec<_> =
            scalars.iter().map(|&scalar| blst_fr { l: canonical(&scalar.into()) }).collect();
        assert_eq!(multiply::<P>(&public, &integers).unwrap(), expected);
    }

    #[test]
    fn random_scalars_agree_with_single_multiplications() {
        for count in [0, 1, 2, 3, 33, 700] {
            check::<blst_p1_affine>(count, |_, rng| Scalar::random(rng));
            check::<blst_p2_affine>(count, |_, rng| Scalar::random(rng));
        }
        // More than one tile, and buckets enough to be summed up in chains.
        check::<blst_p1_affine>(TILE + 1000, |_, rng| Scalar::random(rng));
    }

    #[test]
    fn special_scalars_agree_with_single_multiplications() {
        let special = [Scalar::ZERO, Scalar::ONE, -Scalar::ONE, Scalar::from(2), -Scalar::from(4096)];
        check::<blst_p1_affine>(900, |index, _| special[index % special.len()]);
        check::<blst_p2_affine>(90, |_, _| -Scalar::from(3));
    }
}
