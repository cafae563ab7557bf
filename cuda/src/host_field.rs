//! The few scalar field operations that the host does itself: constants of a domain.

use blst::{
    blst_fr, blst_fr_from_uint64, blst_fr_inverse, blst_fr_mul, blst_fr_sqr, blst_fr_sub, blst_uint64_from_fr,
};
use interlock_core_api::ScalarLimbs;

/// A scalar in Montgomery form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar(blst_fr);

impl Scalar {
    /// From limbs in Montgomery form.
    pub fn from_limbs(limbs: &ScalarLimbs) -> Self {
        Self(blst_fr { l: *limbs })
    }

    /// The limbs, in Montgomery form.
    pub fn limbs(&self) -> ScalarLimbs {
        self.0.l
    }

    /// The limbs of the number itself.
    pub fn canonical(&self) -> ScalarLimbs {
        let mut out = ScalarLimbs::default();
        // SAFETY: a valid field element, and room for the four limbs that are written.
        unsafe { blst_uint64_from_fr(out.as_mut_ptr(), &self.0) };
        out
    }

    /// A small number.
    pub fn from_integer(value: u64) -> Self {
        let mut out = blst_fr::default();
        // SAFETY: `out` is a field element, the source has the four limbs that are read.
        unsafe { blst_fr_from_uint64(&mut out, [value, 0, 0, 0].as_ptr()) };
        Self(out)
    }

    /// The product.
    pub fn times(&self, other: &Self) -> Self {
        let mut out = blst_fr::default();
        // SAFETY: three valid field elements.
        unsafe { blst_fr_mul(&mut out, &self.0, &other.0) };
        Self(out)
    }

    /// The difference.
    pub fn minus(&self, other: &Self) -> Self {
        let mut out = blst_fr::default();
        // SAFETY: three valid field elements.
        unsafe { blst_fr_sub(&mut out, &self.0, &other.0) };
        Self(out)
    }

    /// One over this; zero for zero.
    pub fn inverse(&self) -> Self {
        let mut out = blst_fr::default();
        // SAFETY: two valid field elements.
        unsafe { blst_fr_inverse(&mut out, &self.0) };
        Self(out)
    }

    /// This to the power of `2^squarings`.
    pub fn squared(&self, squarings: u32) -> Self {
        (0..squarings).fold(*self, |power, _| {
            let mut out = blst_fr::default();
            // SAFETY: two valid field elements.
            unsafe { blst_fr_sqr(&mut out, &power.0) };
            Self(out)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_behave() {
        let [two, three, six] = [2, 3, 6].map(Scalar::from_integer);
        assert_eq!(two.times(&three), six);
        assert_eq!(six.times(&three.inverse()), two);
        assert_eq!(two.squared(3), Scalar::from_integer(256));
        assert_eq!(six.minus(&three), three);
        assert_eq!(six.canonical(), [6, 0, 0, 0]);
    }
}
