//! The circuit's polynomials at the secret point.

use std::ops::Range;

use blst::blst_fr;
use blstrs::Scalar;
use ff::Field;
use rayon::prelude::*;

use super::secret::Secret;
use super::{STRIPE, one_over};
use crate::arith::domain::Domain;
use crate::arith::field::RawField;
use crate::circuit::{Circuit, Csr};

/// `u_i(x)`, `v_i(x)`, `w_i(x)` for each variable `i`.
pub struct Polynomials {
    /// Of matrix A and the implied input rows.
    pub u: Secret,
    /// Of matrix B.
    pub v: Secret,
    /// Of matrix C.
    pub w: Secret,
}

impl Polynomials {
    /// Evaluates them: each is a sum of the domain's Lagrange polynomials, which are cheap to evaluate
    /// at one point, so that no transform is needed.
    pub fn evaluate(circuit: &Circuit, domain: &Domain, x: &Scalar) -> Self {
        let rows = lagrange(domain, &Scalar::ONE, x);
        let column_sums = |matrix: &Csr| {
            let mut sums = Secret::zeros(circuit.num_variables());
            for (row, weight) in rows[..matrix.num_rows()].iter().enumerate() {
                for (column, coefficient) in matrix.row(row) {
                    let sum = &mut sums[column as usize];
                    match coefficient {
                        Circuit::COEFF_ONE => *sum += weight,
                        Circuit::COEFF_MINUS_ONE => *sum -= weight,
                        other => *sum += circuit.coefficients[other as usize] * weight,
                    }
                }
            }
            sums
        };
        let (mut u, (v, w)) = rayon::join(
            || column_sums(&circuit.a),
            || rayon::join(|| column_sums(&circuit.b), || column_sums(&circuit.c)),
        );
        let implied = &rows[circuit.num_constraints()..];
        for (sum, weight) in u[..circuit.num_inputs].iter_mut().zip(implied) {
            *sum += weight;
        }
        Self { u, v, w }
    }

    /// `(beta u_i + alpha v_i + w_i) * factor` for a range of variables.
    pub fn combine(&self, variables: Range<usize>, alpha: &Scalar, beta: &Scalar, factor: &Scalar) -> Secret {
        let (alpha, beta) = (*alpha * factor, *beta * factor);
        let mut combined = Secret::zeros(variables.len());
        combined.par_iter_mut().with_min_len(STRIPE).zip(variables).for_each(|(slot, variable)| {
            *slot = beta * self.u[variable] + alpha * self.v[variable] + self.w[variable] * factor;
        });
        combined
    }
}

/// Sets element `i` to `first * ratio^i`.
pub fn fill_powers(values: &mut [Scalar], first: &Scalar, ratio: &Scalar) {
    values.par_chunks_mut(STRIPE).enumerate().for_each(|(chunk, values)| {
        let mut power = ratio.pow_vartime([(chunk * STRIPE) as u64]) * first;
        for value in values {
            *value = power;
            power *= ratio;
        }
    });
}

/// The Lagrange polynomials of the points `p_i = shift * root^i`, at `x`: as the points are the roots
/// of `X^n - shift^n`, they are `(x^n - shift^n) p_i / (n shift^n (x - p_i))`.
///
/// `x` must not be one of the points.
pub fn lagrange(domain: &Domain, shift: &Scalar, x: &Scalar) -> Secret {
    let mut values = Secret::zeros(domain.size());
    fill_powers(&mut values, shift, &domain.root);
    let power = domain.vanishing(shift) + Scalar::ONE;
    let factor =
        (domain.vanishing(x) + Scalar::ONE - power) * one_over(&(power * Scalar::from(domain.size() as u64)));
    values.par_chunks_mut(STRIPE).for_each(|points| {
        // Montgomery's trick: before[i] = product of the differences before i.
        let mut before = Secret::zeros(points.len());
        let mut product = Scalar::ONE;
        for (slot, point) in before.iter_mut().zip(&*points) {
            *slot = product;
            product *= *x - point;
        }
        let mut inverse = Scalar::from(blst_fr::from(product).invert());
        for (point, before) in points.iter_mut().zip(before.iter()).rev() {
            let difference = *x - *point;
            *point *= inverse * before * factor;
            inverse *= difference;
        }
    });
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::srs::HBasis;

    #[test]
    fn lagrange_polynomials_interpolate() {
        let (x, shift) = (Scalar::from(987654321), Scalar::from(5));
        for (log_size, shift) in [(0, Scalar::ONE), (3, Scalar::ONE), (3, shift), (13, shift)] {
            let domain = Domain::new(HBasis::Monomial, log_size);
            let basis = lagrange(&domain, &shift, &x);
            // f(X) = X^k for the largest k there is room for, and f(X) = 1
            for power in [0, domain.size() as u64 - 1] {
                let value = |index| (shift * domain.root.pow_vartime([index as u64])).pow_vartime([power]);
                let sum: Scalar = basis.iter().enumerate().map(|(i, weight)| *weight * value(i)).sum();
                assert_eq!(sum, x.pow_vartime([power]));
            }
        }
    }
}
