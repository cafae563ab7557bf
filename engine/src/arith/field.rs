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
    fn neg(&self) -> Self;
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

/// Implements [`RawField`] by calls of the blst functions with the given names.
macro_rules! raw_field {
    ($field:ty, $zero:expr, $one:expr, $is_zero:expr,
     $add:ident, $sub:ident, $cneg:ident, $mul:ident, $sqr:ident, $inv:ident) => {
        impl RawField for $field {
            const ZERO: Self = $zero;
            const ONE: Self = $one;

            #[inline]
            fn is_zero(&self) -> bool {
                $is_zero(self)
            }

            #[inline]
            fn add(&self, other: &Self) -> Self {
                let mut out = Self::ZERO;
                // SAFETY: all three point to valid field elements; blst allows aliasing.
                unsafe { blst::$add(&mut out, self, other) };
                out
            }

            #[inline]
            fn sub(&self, other: &Self) -> Self {
                let mut out = Self::ZERO;
                // SAFETY: as in `add`.
                unsafe { blst::$sub(&mut out, self, other) };
                out
            }

            #[inline]
            fn neg(&self) -> Self {
                let mut out = Self::ZERO;
                // SAFETY: as in `add`.
                unsafe { blst::$cneg(&mut out, self, true) };
                out
            }

            #[inline]
            fn mul(&self, other: &Self) -> Self {
                let mut out = Self::ZERO;
                // SAFETY: as in `add`.
                unsafe { blst::$mul(&mut out, self, other) };
                out
            }

            #[inline]
            fn square(&self) -> Self {
                let mut out = Self::ZERO;
                // SAFETY: as in `add`.
                unsafe { blst::$sqr(&mut out, self) };
                out
            }

            fn invert(&self) -> Self {
                let mut out = Self::ZERO;
                // SAFETY: as in `add`.
                unsafe { blst::$inv(&mut out, self) };
                out
            }
        }
    };
}

/// `2^256 mod r`, likewise.
const FR_ONE: blst_fr = blst_fr {
    l: [0x0000_0001_ffff_fffe, 0x5884_b7fa_0003_4802, 0x998c_4fef_ecbc_4ff5, 0x1824_b159_acc5_056f],
};

const FP_ZERO: blst_fp = blst_fp { l: [0; 6] };

#[inline]
fn fp_is_zero(value: &blst_fp) -> bool {
    value.l == [0; 6]
}

raw_field!(
    blst_fp,
    FP_ZERO,
    FP_ONE,
    fp_is_zero,
    blst_fp_add,
    blst_fp_sub,
    blst_fp_cneg,
    blst_fp_mul,
    blst_fp_sqr,
    blst_fp_eucl_inverse
);

raw_field!(
    blst_fp2,
    blst_fp2 { fp: [FP_ZERO; 2] },
    blst_fp2 { fp: [FP_ONE, FP_ZERO] },
    |value: &blst_fp2| fp_is_zero(&value.fp[0]) && fp_is_zero(&value.fp[1]),
    blst_fp2_add,
    blst_fp2_sub,
    blst_fp2_cneg,
    blst_fp2_mul,
    blst_fp2_sqr,
    blst_fp2_eucl_inverse
);

raw_field!(
    blst_fr,
    blst_fr { l: [0; 4] },
    FR_ONE,
    |value: &blst_fr| value.l == [0; 4],
    blst_fr_add,
    blst_fr_sub,
    blst_fr_cneg,
    blst_fr_mul,
    blst_fr_sqr,
    blst_fr_eucl_inverse
);

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
