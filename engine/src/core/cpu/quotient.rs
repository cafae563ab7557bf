//! The scalars of the `h` query: from a, b, c on the domain to what the SRS's `h` points expect.
//!
//! Symbols as in [`crate::srs`]: with `z` the assignment, `a(X) = sum z_i u_i(X)`, likewise `b` and
//! `c`, and `h = (a b - c) / t`. `n` is the size of the domain, `w` its root.

use blst::blst_fr;
use blstrs::Scalar;
use ff::PrimeField;
use rayon::prelude::*;

use super::ntt::{Twiddles, scale_by_powers};
use super::spmv::{Evaluations, permute_bit_reversed};
use crate::arith::domain::Domain;
use crate::arith::field::{RawField, canonical};
use crate::srs::HBasis;

/// Elements that one thread takes at a time.
const STRIPE: usize = 1 << 10;

/// Turns `evaluations` into the scalars of the `h` query, as integers, one per `h` point. Done in
/// the memory of one of the three; the other two are freed.
///
/// # Panics
/// When `twiddles` are for another domain.
pub fn h_scalars(evaluations: Evaluations, twiddles: &Twiddles, basis: HBasis) -> Vec<blst_fr> {
    match basis {
        HBasis::Monomial => monomial(evaluations, twiddles),
        HBasis::OddCoset => odd_coset(evaluations, twiddles),
    }
}

/// The coefficients of `h(X)`.
///
/// On a coset `g w^i` the vanishing polynomial is the constant `g^n - 1`, and reducing
/// `h t + c = a b` modulo `X^n - g^n` gives `h = (R - c) / (g^n - 1)`, where `R` interpolates
/// `a b` there. So `c` never leaves coefficient form: six transforms do.
fn monomial(evaluations: Evaluations, twiddles: &Twiddles) -> Vec<blst_fr> {
    let Evaluations { mut a, mut b, mut c } = evaluations;
    let domain = twiddles.domain();
    let size_inverse = one_over(&Scalar::from(domain.size() as u64));
    let shift = Scalar::MULTIPLICATIVE_GENERATOR;
    in_parallel([&mut a, &mut b, &mut c], |values| twiddles.inverse_scaled(values));
    scale_by_powers([&mut a, &mut b], &size_inverse, &shift);
    in_parallel([&mut a, &mut b], |values| twiddles.forward(values));
    a.par_iter_mut().with_min_len(STRIPE).zip(&b).for_each(|(a, b)| *a = a.mul(b));
    drop(b);
    twiddles.inverse_scaled(&mut a);
    // a = n g^i R_i, c = n c_i
    let factor = size_inverse * one_over(&domain.vanishing(&shift));
    scale_by_powers([&mut a], &factor, &one_over(&shift));
    let factor = blst_fr::from(factor);
    a.par_iter_mut().with_min_len(STRIPE).zip(&c).for_each(|(a, c)| {
        *a = blst_fr { l: canonical(&a.sub(&c.mul(&factor))) };
    });
    // The degree of h is at most n - 2: bellperson's SRS has no point for the last coefficient.
    a.truncate(domain.size() - 1);
    a
}

/// `a b - c` at `g w^i`, where `g^2 = w`.
///
/// As snarkjs does, `c` is taken to be `a b` on the domain: the same, when the witness satisfies
/// the circuit.
fn odd_coset(evaluations: Evaluations, twiddles: &Twiddles) -> Vec<blst_fr> {
    let Evaluations { mut a, mut b, mut c } = evaluations;
    let domain = twiddles.domain();
    c.par_iter_mut().with_min_len(STRIPE).zip(&a).zip(&b).for_each(|((c, a), b)| *c = a.mul(b));
    let size_inverse = one_over(&Scalar::from(domain.size() as u64));
    let shift = Domain::new(HBasis::OddCoset, domain.log_size + 1).root;
    in_parallel([&mut a, &mut b, &mut c], |values| twiddles.inverse_scaled(values));
    scale_by_powers([&mut a, &mut b, &mut c], &size_inverse, &shift);
    in_parallel([&mut a, &mut b, &mut c], |values| twiddles.forward(values));
    c.par_iter_mut().with_min_len(STRIPE).zip(&a).zip(&b).for_each(|((c, a), b)| {
        *c = blst_fr { l: canonical(&a.mul(b).sub(c)) };
    });
    permute_bit_reversed(&mut c);
    c
}

fn in_parallel<const N: usize>(lists: [&mut Vec<blst_fr>; N], work: impl Fn(&mut [blst_fr]) + Sync) {
    lists.into_par_iter().for_each(|list| work(list));
}

fn one_over(value: &Scalar) -> Scalar {
    blst_fr::from(*value).invert().into()
}

#[cfg(test)]
mod tests {
    use ff::Field;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::arith::domain::reverse_bits;

    type Polynomial = Vec<Scalar>;

    fn evaluate(coefficients: &[Scalar], x: Scalar) -> Scalar {
        coefficients.iter().rev().fold(Scalar::ZERO, |sum, coefficient| sum * x + coefficient)
    }

    /// Random `a`, `b` below degree `n`, and `c = a b mod (X^n - 1)`.
    fn polynomials(n: usize) -> [Polynomial; 3] {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let a: Vec<_> = (0..n).map(|_| Scalar::random(&mut rng)).collect();
        let b: Vec<_> = (0..n).map(|_| Scalar::random(&mut rng)).collect();
        let mut c = vec![Scalar::ZERO; n];
        for (i, a) in a.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                c[(i + j) % n] += a * b;
            }
        }
        [a, b, c]
    }

    fn on_domain(domain: &Domain, polynomials: &[Polynomial; 3]) -> Evaluations {
        let values = |coefficients: &Polynomial| {
            let at = |index| {
                let exponent = reverse_bits(index, domain.log_size) as u64;
                evaluate(coefficients, domain.root.pow_vartime([exponent])).into()
            };
            (0..domain.size()).map(at).collect()
        };
        let [a, b, c] = polynomials.each_ref().map(values);
        Evaluations { a, b, c }
    }

    fn integers(scalars: &[blst_fr]) -> Vec<Scalar> {
        scalars.iter().map(|scalar| Scalar::from_u64s_le(&scalar.l).unwrap()).collect()
    }

    #[test]
    fn monomial_scalars_are_the_coefficients_of_h() {
        for log_size in [1, 2, 5] {
            let domain = Domain::new(HBasis::Monomial, log_size);
            let polynomials = polynomials(domain.size());
            let twiddles = Twiddles::new(domain).unwrap();
            let scalars = h_scalars(on_domain(&domain, &polynomials), &twiddles, HBasis::Monomial);
            let h = integers(&scalars);
            assert_eq!(h.len(), domain.size() - 1);
            let x = Scalar::from(1234567);
            let [a, b, c] = polynomials.each_ref().map(|p| evaluate(p, x));
            assert_eq!(evaluate(&h, x) * domain.vanishing(&x), a * b - c);
        }
    }

    #[test]
    fn odd_coset_scalars_are_values_between_the_domain_points() {
        for log_size in [0, 1, 2, 5] {
            let domain = Domain::new(HBasis::OddCoset, log_size);
            let polynomials = polynomials(domain.size());
            let twiddles = Twiddles::new(domain).unwrap();
            let scalars = h_scalars(on_domain(&domain, &polynomials), &twiddles, HBasis::OddCoset);
            let g = Domain::new(HBasis::OddCoset, log_size + 1).root;
            for (index, value) in integers(&scalars).into_iter().enumerate() {
                let x = g.pow_vartime([2 * index as u64 + 1]);
                let [a, b, c] = polynomials.each_ref().map(|p| evaluate(p, x));
                assert_eq!(value, a * b - c);
            }
        }
    }
}
