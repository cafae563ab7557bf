//! Many multiples of one point.

use blst::blst_fr;
use blstrs::Scalar;
use group::Group;
use rayon::prelude::*;

use crate::arith::affine::{Additions, AffinePoint, add_batch};
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
            let mut work = Work {
                scalars: scalars.iter().map(|scalar| canonical(&blst_fr::from(*scalar))).collect(),
                scratch: vec![P::Field::ZERO; BATCH],
            };
            self.multiply_group(products, &mut work);
            work.wipe();
        });
        products
    }

    fn multiply_group(&self, products: &mut [P::Public], work: &mut Work<P>) {
        for (index, row) in self.table.chunks(self.window.buckets()).enumerate() {
            for (sums, scalars) in products.chunks_mut(BATCH).zip(work.scalars.chunks(BATCH)) {
                let mut step = Step { sums, scalars, row, window: self.window, index };
                add_batch(&mut step, &mut work.scratch);
            }
        }
    }
}

/// The private memory of one thread: the integers are as secret as the scalars.
struct Work<P: AffinePoint> {
    scalars: Vec<[u64; 4]>,
    scratch: Vec<P::Field>,
}

impl<P: AffinePoint> Work<P> {
    fn wipe(&mut self) {
        for scalar in &mut self.scalars {
            // SAFETY: valid, aligned, no destructor. Volatile: see `Secret`.
            unsafe { std::ptr::write_volatile(scalar, [0; 4]) };
        }
    }
}

/// One window of a batch of multiples.
struct Step<'a, P: AffinePoint> {
    sums: &'a mut [P::Public],
    scalars: &'a [[u64; 4]],
    row: &'a [P],
    window: Window,
    index: usize,
}

impl<P: AffinePoint> Additions<P> for Step<'_, P> {
    fn count(&self) -> usize {
        self.sums.len()
    }

    #[inline]
    fn operands(&self, index: usize) -> (P, P) {
        let digit = self.window.digit(&self.scalars[index], self.index);
        let multiple = match digit {
            0 => P::IDENTITY,
            1.. => self.row[digit as usize - 1],
            _ => self.row[digit.unsigned_abs() as usize - 1].neg(),
        };
        (*self.sums[index].as_ref(), multiple)
    }

    #[inline]
    fn store(&mut self, index: usize, sum: P) {
        *self.sums[index].as_mut() = sum;
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
        let largest = multiples[known - 1];
        for (multiples, targets) in multiples.chunks(BATCH).zip(rest[..known].chunks_mut(BATCH)) {
            add_batch(&mut Shift { multiples, largest, targets }, &mut scratch);
        }
        known *= 2;
    }
}

/// `targets[i] = multiples[i] + largest`.
struct Shift<'a, P> {
    multiples: &'a [P],
    largest: P,
    targets: &'a mut [P],
}

impl<P: AffinePoint> Additions<P> for Shift<'_, P> {
    fn count(&self) -> usize {
        self.targets.len()
    }

    #[inline]
    fn operands(&self, index: usize) -> (P, P) {
        (self.multiples[index], self.largest)
    }

    #[inline]
    fn store(&mut self, index: usize, sum: P) {
        self.targets[index] = sum;
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
