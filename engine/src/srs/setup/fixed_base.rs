//! Many multiples of one point.

use blst::blst_fr;
use blstrs::Scalar;
use group::Group;
use rayon::prelude::*;

use crate::arith::affine::{AffinePoint, add_batch};
use crate::arith::field::{RawField, canonical};
use crate::arith::window::Window;

/// Multiples that one thread computes together: they pass through the table window by window, so
/// that one window's part of it stays in the cache.
const GROUP: usize = 1 << 12;

/// Additions that share an inversion.
const BATCH: usize = 512;

/// Widest window, in bits: the table takes 28 MB for G1 and 57 MB for G2.
const MAX_BITS: u32 = 15;

/// A table of multiples of one point: `k 2^(b j) base` for all windows `j` of `b` bits and all digits
/// `k` from 1 to `2^(b - 1)`.
pub struct FixedBase<P> {
    window: Window,
    table: Vec<P>,
}

impl<P: AffinePoint> FixedBase<P> {
    /// A table that pays for computing about `multiples` multiples.
    pub fn new(base: P::Group, multiples: usize) -> Self {
        let cost = |bits: &u32| {
            let window = Window::new(*bits);
            window.count() * (window.buckets() + multiples)
        };
        let bits = (*Window::WIDTHS.start()..=MAX_BITS).min_by_key(cost).unwrap_or(MAX_BITS);
        let window = Window::new(bits);
        let mut shifted = Vec::with_capacity(window.count());
        let mut power = base;
        for _ in 0..window.count() {
            shifted.push(power);
            power = (0..bits).fold(power, |power, _| power.double());
        }
        let bases = P::normalize(&shifted);
        let mut table = vec![P::IDENTITY; window.count() * window.buckets()];
        table.par_chunks_mut(window.buckets()).zip(bases).for_each(|(row, base)| fill_row(row, base));
        Self { window, table }
    }

    /// `scalar * base` for each of `scalars`.
    pub fn multiply(&self, scalars: &[Scalar]) -> Vec<P::Public> {
        let mut products = vec![P::Public::default(); scalars.len()];
        products.par_chunks_mut(GROUP).zip(scalars.par_chunks(GROUP)).for_each(|(products, scalars)| {
            let mut work = Work::new(scalars);
            self.multiply_group(&mut work);
            for (product, sum) in products.iter_mut().zip(&work.sums) {
                *product = sum.to_public();
            }
        });
        products
    }

    fn multiply_group(&self, work: &mut Work<P>) {
        for (index, row) in self.table.chunks(self.window.buckets()).enumerate() {
            for (sums, scalars) in work.sums.chunks_mut(BATCH).zip(work.scalars.chunks(BATCH)) {
                let multiples = &mut work.multiples[..sums.len()];
                for (multiple, scalar) in multiples.iter_mut().zip(scalars) {
                    *multiple = match self.window.digit(scalar, index) {
                        0 => P::IDENTITY,
                        digit @ 1.. => row[digit as usize - 1],
                        digit => row[digit.unsigned_abs() as usize - 1].neg(),
                    };
                }
                add_batch(sums, multiples, &mut work.scratch);
            }
        }
    }
}

/// The working memory of one thread.
struct Work<P: AffinePoint> {
    /// As secret as the scalars they are made from.
    scalars: Vec<[u64; 4]>,
    sums: Vec<P>,
    multiples: Vec<P>,
    scratch: Vec<P::Field>,
}

impl<P: AffinePoint> Work<P> {
    fn new(scalars: &[Scalar]) -> Self {
        Self {
            scalars: scalars.iter().map(|scalar| canonical(&blst_fr::from(*scalar))).collect(),
            sums: vec![P::IDENTITY; scalars.len()],
            multiples: vec![P::IDENTITY; BATCH],
            scratch: vec![P::Field::ZERO; BATCH],
        }
    }
}

impl<P: AffinePoint> Drop for Work<P> {
    fn drop(&mut self) {
        for scalar in &mut self.scalars {
            // SAFETY: valid, aligned, no destructor. Volatile: see `Secret`.
            unsafe { std::ptr::write_volatile(scalar, [0; 4]) };
        }
    }
}

/// Sets `row[k - 1]` to `k * base`. Its length is a power of two.
fn fill_row<P: AffinePoint>(row: &mut [P], base: P) {
    let mut scratch = vec![P::Field::ZERO; BATCH];
    row[0] = base;
    let mut known = 1;
    while known < row.len() {
        // The multiples from `known` + 1 to twice `known` are those so far plus the largest.
        let (multiples, rest) = row.split_at_mut(known);
        let largest = [multiples[known - 1]; BATCH];
        rest[..known].copy_from_slice(multiples);
        for targets in rest[..known].chunks_mut(BATCH) {
            add_batch(targets, &largest[..targets.len()], &mut scratch);
        }
        known *= 2;
    }
}

#[cfg(test)]
mod tests {
    use blst::{blst_p1_affine, blst_p2_affine};
    use blstrs::{G1Projective, G2Projective};
    use ff::Field;
    use group::Curve;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn scalars(count: usize) -> Vec<Scalar> {
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        let mut scalars = vec![Scalar::ZERO, Scalar::ONE, -Scalar::ONE, Scalar::from(2), -Scalar::from(4)];
        scalars.extend((0..count).map(|_| Scalar::random(&mut rng)));
        scalars
    }

    #[test]
    fn multiples_agree_with_blst() {
        let base = G1Projective::generator() * Scalar::from(77);
        for (count, pays_for) in [(5, 1), (1100, 1100), (60, 1_000_000)] {
            let scalars = scalars(count);
            let products = FixedBase::<blst_p1_affine>::new(base, pays_for).multiply(&scalars);
            for (scalar, product) in scalars.iter().zip(&products) {
                assert_eq!(*product, (base * scalar).to_affine());
            }
        }
        let base = G2Projective::generator();
        let scalars = scalars(40);
        let products = FixedBase::<blst_p2_affine>::new(base, 40).multiply(&scalars);
        for (scalar, product) in scalars.iter().zip(&products) {
            assert_eq!(*product, (base * scalar).to_affine());
        }
    }
}
