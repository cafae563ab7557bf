//! Signed windows of scalars, and how wide to make them.

/// Bits of a scalar: r is below 2^255.
const SCALAR_BITS: u32 = 255;

/// A width in bits: scalars are cut into digits of that many bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window(u32);

impl Window {
    /// Widths there are.
    pub const WIDTHS: std::ops::RangeInclusive<u32> = 3..=16;

    /// From this many buckets on, they are summed up in batches.
    pub const MANY_BUCKETS: usize = 256;

    /// The window of `bits` bits.
    ///
    /// # Panics
    /// When there is no such window: see [`Window::WIDTHS`].
    pub fn new(bits: u32) -> Self {
        assert!(Self::WIDTHS.contains(&bits), "windows have {:?} bits", Self::WIDTHS);
        Self(bits)
    }

    /// The width that makes a sum of `terms` products cheapest.
    ///
    /// Never falls as `terms` grows, so that memory planned for many terms serves fewer.
    pub fn for_terms(terms: usize) -> Self {
        // In quarters of an addition in a batch: each window adds each term once; then it sums up
        // its buckets, with two additions each, which are in batches only if there are many; then
        // there is a fixed part for combining windows.
        let cost = |width: &u32| {
            let window = Window(*width);
            let per_bucket = if window.buckets() < Self::MANY_BUCKETS { 15 } else { 9 };
            window.count() as u64 * (4 * terms as u64 + per_bucket * window.buckets() as u64 + 120)
        };
        Window(Self::WIDTHS.min_by_key(cost).unwrap_or(*Self::WIDTHS.start()))
    }

    /// Width in bits.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Digits of a scalar. The topmost has room for the carry of its neighbour.
    pub fn count(self) -> usize {
        (SCALAR_BITS / self.0 + 1) as usize
    }

    /// How large a digit may be: digits are from `-buckets` to `buckets`.
    pub fn buckets(self) -> usize {
        1 << (self.0 - 1)
    }

    /// Digit number `index` of `scalar` (little-endian limbs), lowest first. The digits, each times
    /// `2^(bits * index)`, add up to the scalar (Booth's recoding).
    #[inline]
    pub fn digit(self, scalar: &[u64; 4], index: usize) -> i32 {
        // Bits low-1 to low+width-1; the digit is the upper `width` of them, counted as signed,
        // plus the lowest, which says that the digit below went negative.
        let low = index as u32 * self.0;
        let bits = if low == 0 { scalar[0] << 1 } else { bits_from(scalar, low - 1) };
        let bits = bits & ((1 << (self.0 + 1)) - 1);
        let negative = bits >> self.0;
        ((bits + 1) >> 1) as i32 - ((negative as i32) << self.0)
    }
}

/// 64 bits of `scalar` from bit `low` on, zeros above the top.
#[inline]
fn bits_from(scalar: &[u64; 4], low: u32) -> u64 {
    let limb = (low / 64) as usize;
    let shift = low % 64;
    let here = scalar.get(limb).map_or(0, |limb| limb >> shift);
    let next = scalar.get(limb + 1).map_or(0, |limb| (limb << 1) << (63 - shift));
    here | next
}

#[cfg(test)]
mod tests {
    use blst::blst_fr;
    use blstrs::Scalar;
    use ff::Field;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::arith::field::canonical;

    #[test]
    fn digits_add_up_to_the_scalar() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut scalars = vec![Scalar::ZERO, Scalar::ONE, -Scalar::ONE, -Scalar::from(2).invert().unwrap()];
        scalars.extend((0..20).map(|_| Scalar::random(&mut rng)));
        for width in Window::WIDTHS {
            let window = Window(width);
            for scalar in &scalars {
                let limbs = canonical(&blst_fr::from(*scalar));
                let mut sum = Scalar::ZERO;
                for index in (0..window.count()).rev() {
                    let digit = window.digit(&limbs, index);
                    assert!(digit.unsigned_abs() as usize <= window.buckets());
                    sum *= Scalar::from(1 << width);
                    let magnitude = Scalar::from(u64::from(digit.unsigned_abs()));
                    sum += if digit < 0 { -magnitude } else { magnitude };
                }
                assert_eq!(sum, *scalar);
            }
        }
    }

    #[test]
    fn windows_never_shrink_as_terms_grow() {
        let widths: Vec<_> = (0..4_000_000).step_by(997).map(|n| Window::for_terms(n).bits()).collect();
        assert!(widths.is_sorted());
        assert!(widths[0] < *widths.last().unwrap());
    }
}
