//! The last step of every core: from five sums of points to the proof.

use blstrs::{Bls12, G1Projective, G2Projective};
use group::Curve;

use super::Blinding;
use crate::proof::Proof;
use crate::srs::Srs;

/// The five sums of points, named after the queries.
#[derive(Debug)]
pub struct Sums {
    /// `h(x) t(x) / delta`.
    pub h: G1Projective,
    /// `sum z_i l_i` over the private variables.
    pub l: G1Projective,
    /// `sum z_i u_i(x)`.
    pub a: G1Projective,
    /// `sum z_i v_i(x)` in G1.
    pub b_g1: G1Projective,
    /// `sum z_i v_i(x)` in G2.
    pub b_g2: G2Projective,
}

impl Sums {
    /// The proof, as in Groth16 (eprint 2016/260, section 3.2):
    /// `A = alpha + sum z_i u_i(x) + r delta`, `B = beta + sum z_i v_i(x) + s delta`,
    /// `C = sum z_i l_i + h(x) t(x) / delta + s A + r B - r s delta`.
    pub fn assemble(&self, srs: &Srs, blinding: &Blinding) -> Proof<Bls12> {
        let vk = &srs.vk;
        let Blinding { r, s } = blinding;
        let a = self.a + vk.alpha_g1 + vk.delta_g1 * r;
        let b_g1 = self.b_g1 + vk.beta_g1 + vk.delta_g1 * s;
        let b_g2 = self.b_g2 + vk.beta_g2 + vk.delta_g2 * s;
        let c = self.l + self.h + a * s + b_g1 * r - vk.delta_g1 * (*r * s);
        Proof { a: a.to_affine(), b: b_g2.to_affine(), c: c.to_affine() }
    }
}
