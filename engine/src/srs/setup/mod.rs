//! Makes an SRS on this machine, for development.
//!
//! Whoever knows the random values that went into an SRS can forge proofs. Here they exist in this
//! process's memory for a while; they are overwritten before the memory is given back, but nobody
//! else can be sure of that. An SRS for real use comes from a ceremony.

use blst::{blst_fr, blst_p1_affine, blst_p2_affine};
use blstrs::Scalar;
use ff::Field;
use group::Group;
use rand_core::{CryptoRng, RngCore};
use rayon::prelude::*;

use super::{HBasis, Srs, VerifyingKey};
use crate::arith::affine::AffinePoint;
use crate::arith::domain::Domain;
use crate::circuit::Circuit;

mod fixed_base;
mod polynomials;
mod secret;

use fixed_base::FixedBase;
use polynomials::Polynomials;
use secret::Secret;

/// Elements that one thread takes at a time.
const STRIPE: usize = 1 << 12;

/// Makes an SRS for `circuit` with `h` in monomial form, as bellperson does.
///
/// Private variables that no constraint mentions are accepted: their points are the identity.
///
/// # Panics
/// When the circuit's domain has more than `2^31` points.
pub fn generate(circuit: &Circuit, rng: impl RngCore + CryptoRng) -> Srs {
    generate_with_basis(circuit, HBasis::Monomial, rng)
}

/// Makes an SRS for `circuit` with `h` in the given basis; see [`generate`].
///
/// # Panics
/// See [`generate`].
pub fn generate_with_basis(circuit: &Circuit, basis: HBasis, rng: impl RngCore + CryptoRng) -> Srs {
    let domain = Domain::new(basis, circuit.domain_size().ilog2());
    generate_from(circuit, basis, &ToxicWaste::random(&domain, rng))
}

/// The random values of an SRS, as in Groth16 (eprint 2016/260, section 3.2): alpha, beta, gamma,
/// delta, x.
struct ToxicWaste(Secret);

impl ToxicWaste {
    /// Fresh values from `rng`; none is zero, and `x` is not in `domain`.
    fn random(domain: &Domain, mut rng: impl RngCore + CryptoRng) -> Self {
        let mut values = Secret::zeros(5);
        for value in values.iter_mut() {
            while value.is_zero_vartime() || domain.vanishing(value).is_zero_vartime() {
                *value = Scalar::random(&mut rng);
            }
        }
        Self(values)
    }
}

fn generate_from(circuit: &Circuit, basis: HBasis, waste: &ToxicWaste) -> Srs {
    let [alpha, beta, gamma, delta, x] = &waste.0[..] else { unreachable!("there are five values") };
    let domain = Domain::new(basis, circuit.domain_size().ilog2());
    let polynomials = Polynomials::evaluate(circuit, &domain, x);
    let over_gamma = polynomials.combine(0..circuit.num_inputs, alpha, beta, &one_over(gamma));
    let over_delta =
        polynomials.combine(circuit.num_inputs..circuit.num_variables(), alpha, beta, &one_over(delta));
    let h = h_query(&domain, basis, x, delta);
    let (a_variables, u) = non_zero(&polynomials.u);
    let (b_variables, v) = non_zero(&polynomials.v);
    drop(polynomials);

    let sums = [&h, &over_gamma, &over_delta, &u, &v].iter().map(|scalars| scalars.len()).sum();
    let g1 = FixedBase::<blst_p1_affine>::new(Group::generator(), sums);
    let query = |scalars: Secret| g1.multiply(&scalars);
    let (h, ic, l, a, b_g1) = (query(h), query(over_gamma), query(over_delta), query(u), g1.multiply(&v));
    let [alpha_g1, beta_g1, delta_g1] = single(&g1, [alpha, beta, delta]);
    drop(g1);
    let g2 = FixedBase::<blst_p2_affine>::new(Group::generator(), v.len());
    let b_g2 = g2.multiply(&v);
    let [beta_g2, gamma_g2, delta_g2] = single(&g2, [beta, gamma, delta]);
    let vk = VerifyingKey { alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1, delta_g2, ic };
    Srs { vk, h, h_basis: basis, l, a, a_variables, b_g1, b_g2, b_variables }
}

/// Multiples of the generator, one by one.
fn single<P: AffinePoint, const N: usize>(base: &FixedBase<P>, scalars: [&Scalar; N]) -> [P::Public; N] {
    scalars.map(|scalar| {
        let secret = Secret::from(vec![*scalar]);
        base.multiply(&secret)[0]
    })
}

fn one_over(value: &Scalar) -> Scalar {
    use crate::arith::field::RawField;
    blst_fr::from(*value).invert().into()
}

/// The variables whose polynomial is not zero at `x`, and its values there.
fn non_zero(values: &Secret) -> (Vec<u32>, Secret) {
    let present = || values.iter().enumerate().filter(|(_, value)| !value.is_zero_vartime());
    let variables = present().map(|(variable, _)| variable as u32).collect();
    let mut kept = Secret::zeros(present().count());
    for (slot, (_, value)) in kept.iter_mut().zip(present()) {
        *slot = *value;
    }
    (variables, kept)
}

/// What the `h` points are multiples by.
///
/// Monomial: `x^i t(x) / delta`. Odd coset: the scalars are `e_i = (a b - c)(p_i)` at the points
/// `p_i = g w^i` with `g^2 = w`, the roots of `X^n + 1`, where `t` is -2. With the coset's Lagrange
/// polynomials `M_i`, `h(x) t(x) / delta = sum e_i (-1/2) M_i(x) t(x) / delta`.
fn h_query(domain: &Domain, basis: HBasis, x: &Scalar, delta: &Scalar) -> Secret {
    let factor = domain.vanishing(x) * one_over(delta);
    match basis {
        HBasis::Monomial => {
            let mut powers = Secret::zeros(domain.size() - 1);
            polynomials::fill_powers(&mut powers, &factor, x);
            powers
        }
        HBasis::OddCoset => {
            let g = Domain::new(basis, domain.log_size + 1).root;
            let mut values = polynomials::lagrange(domain, &g, x);
            let factor = -factor * one_over(&Scalar::from(2));
            values.par_iter_mut().with_min_len(STRIPE).for_each(|value| *value *= factor);
            values
        }
    }
}

#[cfg(test)]
mod tests;
