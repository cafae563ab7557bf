//! Number-theoretic transforms in place, without a bit-reversal pass of their own.
//!
//! The forward transform takes coefficients in natural order to values in bit-reversed order, the
//! inverse goes back: Cooley-Tukey butterflies one way, Gentleman-Sande the other. Seen from the
//! polynomial, a step splits `f mod (X^2k - s^2)` into `f mod (X^k - s)` and `f mod (X^k + s)`; the
//! root `s` of block `i` is the same in every step, so that one table of half the domain's size,
//! itself in bit-reversed order, serves all steps and both directions.

use blst::{blst_fr, blst_fr_ct_bfly, blst_fr_gs_bfly};
use blstrs::Scalar;
use ff::Field;
use rayon::prelude::*;

use crate::arith::domain::Domain;
use crate::arith::field::RawField;

/// Transforms of at most this many elements run on one thread: they fit its second-level cache.
const SEQUENTIAL: usize = 1 << 12;

/// Elements of a half that one thread takes in a step that is shared between threads.
const STRIPE: usize = 1 << 10;

/// The roots of one domain, for both directions.
#[derive(Debug)]
pub struct Twiddles {
    domain: Domain,
    /// `roots[i]` = root to the power of `i` with its `log_size - 1` bits reversed.
    roots: Vec<blst_fr>,
}

impl Twiddles {
    /// Bytes that the table of a domain with `size` points takes.
    pub fn bytes(size: usize) -> u64 {
        (size.div_ceil(2) * size_of::<blst_fr>()) as u64
    }

    /// Makes the table.
    ///
    /// # Errors
    /// When the memory for it cannot be had.
    pub fn new(domain: Domain) -> Result<Self, std::collections::TryReserveError> {
        let len = domain.size().div_ceil(2);
        let mut roots = Vec::new();
        roots.try_reserve_exact(len)?;
        roots.resize(len, blst_fr::ONE);
        // Reversed, bit k of an index stands for the exponent size / 2^(k + 2).
        let mut filled = 1;
        while filled < len {
            let step = domain.root.pow_vartime([(domain.size() / (4 * filled)) as u64]).into();
            let (known, rest) = roots.split_at_mut(filled);
            rest[..filled].par_iter_mut().zip(&*known).with_min_len(STRIPE).for_each(|(root, base)| {
                *root = base.mul(&step);
            });
            filled *= 2;
        }
        Ok(Self { domain, roots })
    }

    /// The domain the table was made for.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// One over the root of block `block`. `s^-1 = -s'` where `s'` belongs to the block that mirrors
    /// this one among those with the same leading bit: `w^-k = -w^(size/2 - k)`.
    #[inline]
    fn inverse_root(&self, block: usize) -> blst_fr {
        if block == 0 {
            return blst_fr::ONE;
        }
        let leading = 1 << block.ilog2();
        self.roots[3 * leading - 1 - block].neg()
    }

    /// Coefficients in natural order to values in bit-reversed order.
    ///
    /// # Panics
    /// When `values` does not have the size of the domain.
    pub fn forward(&self, values: &mut [blst_fr]) {
        assert_eq!(values.len(), self.domain.size(), "the transform is for another domain");
        self.forward_block(values, 0);
    }

    /// Values in bit-reversed order to coefficients in natural order, each times the domain's size.
    ///
    /// # Panics
    /// When `values` does not have the size of the domain.
    pub fn inverse_scaled(&self, values: &mut [blst_fr]) {
        assert_eq!(values.len(), self.domain.size(), "the transform is for another domain");
        self.inverse_block(values, 0);
    }

    fn forward_block(&self, values: &mut [blst_fr], block: usize) {
        if values.len() <= SEQUENTIAL {
            let mut len = values.len();
            let mut first = block;
            while len >= 2 {
                for (index, chunk) in values.chunks_exact_mut(len).enumerate() {
                    let (low, high) = chunk.split_at_mut(len / 2);
                    let block = first + index;
                    cooley_tukey(low, high, block, &self.roots[block]);
                }
                len /= 2;
                first *= 2;
            }
            return;
        }
        let (low, high) = values.split_at_mut(values.len() / 2);
        let root = &self.roots[block];
        low.par_chunks_mut(STRIPE)
            .zip(high.par_chunks_mut(STRIPE))
            .for_each(|(low, high)| cooley_tukey(low, high, block, root));
        rayon::join(|| self.forward_block(low, 2 * block), || self.forward_block(high, 2 * block + 1));
    }

    fn inverse_block(&self, values: &mut [blst_fr], block: usize) {
        if values.len() <= SEQUENTIAL {
            let mut len = 2;
            while len <= values.len() {
                let first = block * (values.len() / len);
                for (index, chunk) in values.chunks_exact_mut(len).enumerate() {
                    let (low, high) = chunk.split_at_mut(len / 2);
                    let block = first + index;
                    gentleman_sande(low, high, block, &self.inverse_root(block));
                }
                len *= 2;
            }
            return;
        }
        let (low, high) = values.split_at_mut(values.len() / 2);
        rayon::join(|| self.inverse_block(low, 2 * block), || self.inverse_block(high, 2 * block + 1));
        let root = self.inverse_root(block);
        low.par_chunks_mut(STRIPE)
            .zip(high.par_chunks_mut(STRIPE))
            .for_each(|(low, high)| gentleman_sande(low, high, block, &root));
    }
}

/// `(u, v)` to `(u + s v, u - s v)`, `s` being the root of `block`: one for the first.
#[inline]
fn cooley_tukey(low: &mut [blst_fr], high: &mut [blst_fr], block: usize, root: &blst_fr) {
    if block == 0 {
        return sum_and_difference(low, high);
    }
    for (u, v) in low.iter_mut().zip(high) {
        // SAFETY: three distinct, valid field elements.
        unsafe { blst_fr_ct_bfly(u, v, root) };
    }
}

/// `(u, v)` to `(u + v, s (u - v))`, `s` being the inverse root of `block`.
#[inline]
fn gentleman_sande(low: &mut [blst_fr], high: &mut [blst_fr], block: usize, root: &blst_fr) {
    if block == 0 {
        return sum_and_difference(low, high);
    }
    for (u, v) in low.iter_mut().zip(high) {
        // SAFETY: three distinct, valid field elements.
        unsafe { blst_fr_gs_bfly(u, v, root) };
    }
}

/// `(u, v)` to `(u + v, u - v)`.
fn sum_and_difference(low: &mut [blst_fr], high: &mut [blst_fr]) {
    for (u, v) in low.iter_mut().zip(high) {
        (*u, *v) = (u.add(v), u.sub(v));
    }
}

/// Multiplies element `i` of each list by `first * ratio^i`.
///
/// # Panics
/// When the lists differ in length.
pub fn scale_by_powers<const N: usize>(lists: [&mut [blst_fr]; N], first: &Scalar, ratio: &Scalar) {
    let len = lists.first().map_or(0, |list| list.len());
    assert!(lists.iter().all(|list| list.len() == len), "the lists differ in length");
    scale_from(lists, len, *first, ratio);
}

/// Halves the lists until they are short.
fn scale_from<const N: usize>(lists: [&mut [blst_fr]; N], len: usize, first: Scalar, ratio: &Scalar) {
    if len > STRIPE {
        let middle = len / 2;
        let mut high = [const { None }; N];
        let mut split = 0;
        let low = lists.map(|list| {
            let (low, rest) = list.split_at_mut(middle);
            high[split] = Some(rest);
            split += 1;
            low
        });
        let high = high.map(Option::unwrap_or_default);
        let second = first * ratio.pow_vartime([middle as u64]);
        rayon::join(
            || scale_from(low, middle, first, ratio),
            || scale_from(high, len - middle, second, ratio),
        );
        return;
    }
    let ratio = blst_fr::from(*ratio);
    let mut lists = lists;
    let mut factor = blst_fr::from(first);
    for index in 0..len {
        for list in &mut lists {
            list[index] = list[index].mul(&factor);
        }
        factor = factor.mul(&ratio);
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::arith::domain::reverse_bits;
    use crate::srs::HBasis;

    fn evaluate(coefficients: &[Scalar], x: Scalar) -> Scalar {
        coefficients.iter().rev().fold(Scalar::ZERO, |sum, coefficient| sum * x + coefficient)
    }

    #[test]
    fn forward_evaluates_and_inverse_returns() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for basis in [HBasis::Monomial, HBasis::OddCoset] {
            for log_size in [0, 1, 2, 3, 6, 14] {
                let domain = Domain::new(basis, log_size);
                let twiddles = Twiddles::new(domain).unwrap();
                let coefficients: Vec<_> = (0..domain.size()).map(|_| Scalar::random(&mut rng)).collect();
                let original: Vec<blst_fr> = coefficients.iter().map(|&c| c.into()).collect();
                let mut values = original.clone();
                twiddles.forward(&mut values);
                for index in (0..domain.size()).step_by(domain.size().div_ceil(16)) {
                    let exponent = reverse_bits(index, log_size) as u64;
                    let x = domain.root.pow_vartime([exponent]);
                    assert_eq!(Scalar::from(values[index]), evaluate(&coefficients, x));
                }
                twiddles.inverse_scaled(&mut values);
                let size = Scalar::from(domain.size() as u64);
                scale_by_powers([&mut values], &size.invert().unwrap(), &Scalar::ONE);
                assert_eq!(values, original);
            }
        }
    }

    #[test]
    fn scaling_multiplies_by_a_geometric_series() {
        let (first, ratio) = (Scalar::from(3), Scalar::from(7));
        let mut values = vec![blst_fr::ONE; 3000];
        scale_by_powers([&mut values], &first, &ratio);
        for index in [0, 1, 1023, 1024, 2999] {
            let expected = first * ratio.pow_vartime([index as u64]);
            assert_eq!(Scalar::from(values[index]), expected);
        }
    }
}
