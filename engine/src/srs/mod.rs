//! The SRS (proving key): one inner form, and the formats it comes from.
//!
//! Symbols follow Groth16 (eprint 2016/260, section 3.2): `u_i`, `v_i`, `w_i` are the polynomials of
//! A, B, C for variable `i`, `t` is the vanishing polynomial of the domain, `x` the secret point.

pub mod params;
pub mod setup;
pub mod zkey;

use blstrs::{Bls12, G1Affine, G2Affine};

pub use bellperson::groth16::VerifyingKey;

/// The basis in which the `h` points of an SRS commit to the quotient polynomial
/// `h(X) = (a(X) b(X) - c(X)) / t(X)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HBasis {
    /// `h[i] = x^i t(x) / delta`, `domain - 1` points: bellperson's `.params`. The scalars are the
    /// coefficients of `h(X)`.
    Monomial,
    /// `domain` points, Lagrange on the odd coset: snarkjs's `.zkey`. The scalars are
    /// `a b - c` evaluated at `g w^i`, where `w` is the domain's root of unity as snarkjs picks it
    /// and `g^2 = w` (so `g` is the root of the domain of twice the size); they are not divided by `t`.
    OddCoset,
}

/// The proving key of one circuit, in the form every core reads.
#[derive(Clone, Debug)]
pub struct Srs {
    /// The verifying key, with the alpha, beta, delta points that the prover needs too.
    pub vk: VerifyingKey<Bls12>,
    /// Points for the quotient polynomial.
    pub h: Vec<G1Affine>,
    /// What `h` means.
    pub h_basis: HBasis,
    /// `(beta u_i(x) + alpha v_i(x) + w_i(x)) / delta` for each private variable, in order.
    pub l: Vec<G1Affine>,
    /// `u_i(x)` for the variables in `a_variables`.
    pub a: Vec<G1Affine>,
    /// The variables that `a` has points for: ascending, same length as `a`.
    pub a_variables: Vec<u32>,
    /// `v_i(x)` in G1 for the variables in `b_variables`.
    pub b_g1: Vec<G1Affine>,
    /// `v_i(x)` in G2 for the variables in `b_variables`.
    pub b_g2: Vec<G2Affine>,
    /// The variables that `b_g1` and `b_g2` have points for: ascending, same length as both.
    pub b_variables: Vec<u32>,
}

impl Srs {
    /// Bytes of the point vectors in memory.
    pub fn point_bytes(&self) -> u64 {
        let g1 = self.h.len() + self.l.len() + self.a.len() + self.b_g1.len();
        (g1 * size_of::<G1Affine>() + self.b_g2.len() * size_of::<G2Affine>()) as u64
    }
}
