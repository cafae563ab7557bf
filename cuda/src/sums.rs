//! From the sums for single bits, as the card leaves them, to points.

use blst::{
    blst_fp, blst_fp_mul, blst_fp2, blst_fp2_mul, blst_p1, blst_p1_add_or_double, blst_p1_affine,
    blst_p1_double, blst_p1_to_affine, blst_p2, blst_p2_add_or_double, blst_p2_affine, blst_p2_double,
    blst_p2_to_affine,
};
use interlock_core_api::{G1Limbs, G2Limbs};

/// A point of G1 as the kernels keep it: x = X / ZZ, y = Y / ZZZ, infinity when ZZ is zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct G1Xyzz {
    x: blst_fp,
    y: blst_fp,
    zzz: blst_fp,
    zz: blst_fp,
}

/// A point of G2 as the kernels keep it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct G2Xyzz {
    x: blst_fp2,
    y: blst_fp2,
    zzz: blst_fp2,
    zz: blst_fp2,
}

impl G1Xyzz {
    /// (X ZZ, Y ZZZ, ZZ) in Jacobian coordinates: X ZZ / ZZ^2 = x, Y ZZZ / ZZ^3 = y as ZZ^3 = ZZZ^2.
    fn jacobian(&self) -> blst_p1 {
        let mut point = blst_p1 { z: self.zz, ..Default::default() };
        // SAFETY: valid field elements throughout.
        unsafe {
            blst_fp_mul(&mut point.x, &self.x, &self.zz);
            blst_fp_mul(&mut point.y, &self.y, &self.zzz);
        }
        point
    }
}

impl G2Xyzz {
    /// See [`G1Xyzz::jacobian`].
    fn jacobian(&self) -> blst_p2 {
        let mut point = blst_p2 { z: self.zz, ..Default::default() };
        // SAFETY: valid field elements throughout.
        unsafe {
            blst_fp2_mul(&mut point.x, &self.x, &self.zz);
            blst_fp2_mul(&mut point.y, &self.y, &self.zzz);
        }
        point
    }
}

/// `sum 2^i bits[i]`, in affine coordinates.
pub fn combine_g1(bits: &[G1Xyzz]) -> G1Limbs {
    let mut sum = blst_p1::default();
    for bit in bits.iter().rev() {
        let same = sum;
        // SAFETY: valid points; blst allows infinity.
        unsafe { blst_p1_double(&mut sum, &same) };
        let same = sum;
        // SAFETY: as above.
        unsafe { blst_p1_add_or_double(&mut sum, &same, &bit.jacobian()) };
    }
    let mut affine = blst_p1_affine::default();
    // SAFETY: as above.
    unsafe { blst_p1_to_affine(&mut affine, &sum) };
    let mut limbs = [0; 12];
    limbs[..6].copy_from_slice(&affine.x.l);
    limbs[6..].copy_from_slice(&affine.y.l);
    limbs
}

/// See [`combine_g1`].
pub fn combine_g2(bits: &[G2Xyzz]) -> G2Limbs {
    let mut sum = blst_p2::default();
    for bit in bits.iter().rev() {
        let same = sum;
        // SAFETY: valid points; blst allows infinity.
        unsafe { blst_p2_double(&mut sum, &same) };
        let same = sum;
        // SAFETY: as above.
        unsafe { blst_p2_add_or_double(&mut sum, &same, &bit.jacobian()) };
    }
    let mut affine = blst_p2_affine::default();
    // SAFETY: as above.
    unsafe { blst_p2_to_affine(&mut affine, &sum) };
    let mut limbs = [0; 24];
    for (part, limbs) in affine.x.fp.iter().chain(&affine.y.fp).zip(limbs.chunks_exact_mut(6)) {
        limbs.copy_from_slice(&part.l);
    }
    limbs
}
