//! The scalar field and the coordinate fields of G1 and G2, as thin wrappers over blst's assembly.

use std::fmt::Debug;

use blst::{blst_fp, blst_fp2, blst_fr};

/// A field in the representation of blst.
///
/// Values are in Montgomery form and always reduced, so that equality is equality of limbs.
pub trait RawField: Copy + Debug + PartialEq + Send + Sync + 'static {
    /// The neutral element of addition.
    const ZERO: Self;
    /// The neutral element of multiplication.
    const ONE: Self;

    /// Whether this is zero.
    fn is_zero(&self) -> bool;
    /// `self + other`.
    fn add(&self, other: &Self) -> Self;
    /// `self - other`.
    fn sub(&self, other: &Self) -> Self;
    /// `-self`.
    #[inline(always)]
    fn neg(&self) -> Self {
        Self::ZERO.sub(self)
    }
    /// `self * other`.
    fn mul(&self, other: &Self) -> Self;
    /// `self * self`.
    fn square(&self) -> Self;
    /// `1 / self`, or zero for zero. The time it takes depends on the value.
    fn invert(&self) -> Self;
}

/// `2^384 mod p`, little-endian limbs: one in Montgomery form.
const FP_ONE: blst_fp = blst_fp {
    l: [
        0x7609_0000_0002_fffd,
        0xebf4_000b_c40c_0002,
        0x5f48_9857_53c7_58ba,
        0x77ce_5853_7052_5745,
        0x5c07_1a97_a256_ec6d,
        0x15f6_5ec3_fa80_e493,
    ],
};

/// The order of the base field, little-endian limbs.
const FP_ORDER: [u64; 6] = [
    0xb9fe_ffff_ffff_aaab,
    0x1eab_fffe_b153_ffff,
    0x6730_d2a0_f6b0_f624,
    0x6477_4b84_f385_12bf,
    0x4b1b_a7b6_434b_acd7,
    0x1a01_11ea_397f_e69a,
];

/// `2^256 mod r`, little-endian limbs: one in Montgomery form.
const FR_ONE: blst_fr = blst_fr {
    l: [0x0000_0001_ffff_fffe, 0x5884_b7fa_0003_4802, 0x998c_4fef_ecbc_4ff5, 0x1824_b159_acc5_056f],
};

/// The order of the scalar field, little-endian limbs.
const FR_ORDER: [u64; 4] =
    [0xffff_ffff_0000_0001, 0x53bd_a402_fffe_5bfe, 0x3339_d808_09a1_d805, 0x73ed_a753_299d_7d48];

/// `left - right`, and whether it went below zero.
#[inline(always)]
fn sub_limbs<const N: usize>(left: &[u64; N], right: &[u64; N]) -> ([u64; N], bool) {
    let mut out = [0; N];
    let mut borrow = false;
    for index in 0..N {
        let (difference, below) = left[index].overflowing_sub(right[index]);
        let (difference, again) = difference.overflowing_sub(u64::from(borrow));
        out[index] = difference;
        borrow = below | again;
    }
    (out, borrow)
}

/// `left + right`, without the carry out of the top.
#[inline(always)]
fn add_limbs<const N: usize>(left: &[u64; N], right: &[u64; N]) -> [u64; N] {
    let mut out = [0; N];
    let mut carry = false;
    for index in 0..N {
        let (sum, over) = left[index].overflowing_add(right[index]);
        let (sum, again) = sum.overflowing_add(u64::from(carry));
        out[index] = sum;
        carry = over | again;
    }
    out
}

/// `left + right mod order`. Twice the order must fit, as it does for both fields.
#[inline(always)]
fn add_mod<const N: usize>(left: &[u64; N], right: &[u64; N], order: &[u64; N]) -> [u64; N] {
    let sum = add_limbs(left, right);
    let (reduced, below) = sub_limbs(&sum, order);
    // A mask and not a branch, which would be mispredicted half of the time.
    let keep = 0_u64.wrapping_sub(u64::from(below));
    std::array::from_fn(|index| (sum[index] & keep) | (reduced[index] & !keep))
}

/// `left - right mod order`.
#[inline(always)]
fn sub_mod<const N: usize>(left: &[u64; N], right: &[u64; N], order: &[u64; N]) -> [u64; N] {
    let (difference, below) = sub_limbs(left, right);
    let mask = 0_u64.wrapping_sub(u64::from(below));
    add_limbs(&difference, &order.map(|limb| limb & mask))
}

/// Implements [`RawField`] for a prime field: products by blst's assembly, sums inline, as a call
/// would take longer than the sum.
macro_rules! prime_field {
    ($field:ident, $order:expr, $one:expr, $mul:ident, $sqr:ident, $inv:ident) => {
        impl RawField for $field {
            const ZERO: Self = $field { l: [0; $order.len()] };
            const ONE: Self = $one;

            #[inline(always)]
            fn is_zero(&self) -> bool {
                self.l.iter().fold(0, |bits, limb| bits | limb) == 0
            }

            #[inline(always)]
            fn add(&self, other: &Self) -> Self {
                $field { l: add_mod(&self.l, &other.l, &$order) }
            }

            #[inline(always)]
            fn sub(&self, other: &Self) -> Self {
                $field { l: sub_mod(&self.l, &other.l, &$order) }
            }

            #[inline(always)]
            fn mul(&self, other: &Self) -> Self {
                let mut out = Self::ZERO;
                // SAFETY: all three point to valid field elements; blst allows aliasing.
                unsafe { blst::$mul(&mut out, self, other) };
                out
            }

            #[inline(always)]
            fn square(&self) -> Self {
                let mut out = Self::ZERO;
                // SAFETY: as in `mul`.
                unsafe { blst::$sqr(&mut out, self) };
                out
            }

            fn invert(&self) -> Self {
                let mut out = Self::ZERO;
                // SAFETY: as in `mul`.
                unsafe { blst::$inv(&mut out, self) };
                out
            }
        }
    };
}

prime_field!(blst_fp, FP_ORDER, FP_ONE, blst_fp_mul, blst_fp_sqr, blst_fp_eucl_inverse);
prime_field!(blst_fr, FR_ORDER, FR_ONE, blst_fr_mul, blst_fr_sqr, blst_fr_eucl_inverse);

impl RawField for blst_fp2 {
    const ZERO: Self = blst_fp2 { fp: [blst_fp::ZERO; 2] };
    const ONE: Self = blst_fp2 { fp: [blst_fp::ONE, blst_fp::ZERO] };

    #[inline(always)]
    fn is_zero(&self) -> bool {
        self.fp[0].is_zero() && self.fp[1].is_zero()
    }

    #[inline(always)]
    fn add(&self, other: &Self) -> Self {
        blst_fp2 { fp: [self.fp[0].add(&other.fp[0]), self.fp[1].add(&other.fp[1])] }
    }

    #[inline(always)]
    fn sub(&self, other: &Self) -> Self {
        blst_fp2 { fp: [self.fp[0].sub(&other.fp[0]), self.fp[1].sub(&other.fp[1])] }
    }

    #[inline(always)]
    fn mul(&self, other: &Self) -> Self {
        let mut out = Self::ZERO;
        // SAFETY: all three point to valid field elements; blst allows aliasing.
        unsafe { blst::blst_fp2_mul(&mut out, self, other) };
        out
    }

    #[inline(always)]
    fn square(&self) -> Self {
        let mut out = Self::ZERO;
        // SAFETY: as in `mul`.
        unsafe { blst::blst_fp2_sqr(&mut out, self) };
        out
    }

    fn invert(&self) -> Self {
        let mut out = Self::ZERO;
        // SAFETY: as in `mul`.
        unsafe { blst::blst_fp2_eucl_inverse(&mut out, self) };
        out
    }
}

/// The integer that `value` stands for, as little-endian limbs.
pub fn canonical(value: &blst_fr) -> [u64; 4] {
    let mut out = blst_fr::ZERO;
    // SAFETY: both point to valid field elements; blst allows aliasing.
    unsafe { blst::blst_fr_from(&mut out, value) };
    out.l
}

#[cfg(test)]
mod tests {
    use blstrs::{Fp, Fp2, Scalar};
    use ff::Field;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn agrees<F: RawField + From<R>, R: Field + From<F>>(seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..50 {
            let (a, b) = (R::random(&mut rng), R::random(&mut rng));
            let (x, y) = (F::from(a), F::from(b));
            assert_eq!(R::from(x.add(&y)), a + b);
            assert_eq!(R::from(x.sub(&y)), a - b);
            assert_eq!(R::from(x.neg()), -a);
            assert_eq!(R::from(x.mul(&y)), a * b);
            assert_eq!(R::from(x.square()), a.square());
            assert_eq!(R::from(x.invert()), a.invert().unwrap());
            assert_eq!(x.mul(&F::ONE), x);
        }
        assert_eq!(R::from(F::ONE), R::ONE);
        assert_eq!(R::from(F::ZERO), R::ZERO);
        assert!(F::ZERO.is_zero() && !F::ONE.is_zero());
        assert!(F::ZERO.invert().is_zero());
    }

    #[test]
    fn fp_agrees_with_blstrs() {
        agrees::<blst_fp, Fp>(1);
    }

    #[test]
    fn fr_agrees_with_blstrs() {
        agrees::<blst_fr, Scalar>(4);
        let minus_two = -Scalar::from(2);
        let limbs = canonical(&minus_two.into());
        assert!(limbs.iter().flat_map(|limb| limb.to_le_bytes()).eq(minus_two.to_bytes_le()));
    }

    #[test]
    fn fp2_agrees_with_blstrs() {
        agrees::<blst_fp2, Fp2>(2);
    }
}
