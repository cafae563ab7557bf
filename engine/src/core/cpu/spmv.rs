//! The three matrices times the assignment: a, b and c on the domain.

use std::collections::TryReserveError;

use blst::blst_fr;
use blstrs::Scalar;
use rayon::prelude::*;

use crate::arith::domain::reverse_bits;
use crate::arith::field::RawField;
use crate::circuit::{Circuit, Csr, Witness};

/// Rows that one thread takes at a time.
const STRIPE: usize = 1 << 10;

/// The values of `a(X)`, `b(X)`, `c(X)` on the domain, in bit-reversed order.
#[derive(Debug)]
pub struct Evaluations {
    /// `A z`, then the implied input rows.
    pub a: Vec<blst_fr>,
    /// `B z`.
    pub b: Vec<blst_fr>,
    /// `C z`.
    pub c: Vec<blst_fr>,
}

impl Evaluations {
    /// Bytes that the values on a domain of `size` points take.
    pub fn bytes(size: usize) -> u64 {
        3 * (size * size_of::<blst_fr>()) as u64
    }

    /// Computes them.
    ///
    /// # Errors
    /// When the memory cannot be had.
    ///
    /// # Panics
    /// When the witness is not of this circuit.
    pub fn new(circuit: &Circuit, witness: &Witness) -> Result<Self, TryReserveError> {
        let size = circuit.domain_size();
        let mut a = zeros(size)?;
        let mut b = zeros(size)?;
        let mut c = zeros(size)?;
        let z = &witness.values;
        let coefficients = &circuit.coefficients;
        multiply(&circuit.a, z, coefficients, &mut a);
        multiply(&circuit.b, z, coefficients, &mut b);
        multiply(&circuit.c, z, coefficients, &mut c);
        // The implied rows say input_i * 0 = 0.
        let implied = &mut a[circuit.num_constraints()..];
        for (slot, input) in implied.iter_mut().zip(&z[..circuit.num_inputs]) {
            *slot = (*input).into();
        }
        [&mut a, &mut b, &mut c].into_par_iter().for_each(|values| permute_bit_reversed(values));
        Ok(Self { a, b, c })
    }
}

fn zeros(size: usize) -> Result<Vec<blst_fr>, TryReserveError> {
    let mut values = Vec::new();
    values.try_reserve_exact(size)?;
    values.resize(size, blst_fr::ZERO);
    Ok(values)
}

/// `out[row] = row of matrix * z`.
fn multiply(matrix: &Csr, z: &[Scalar], coefficients: &[Scalar], out: &mut [blst_fr]) {
    out[..matrix.num_rows()].par_chunks_mut(STRIPE).enumerate().for_each(|(chunk, out)| {
        for (index, slot) in out.iter_mut().enumerate() {
            *slot = dot(matrix, chunk * STRIPE + index, z, coefficients);
        }
    });
}

/// One row times `z`. Most values of a real witness are 0 or 1: those take no multiplication.
fn dot(matrix: &Csr, row: usize, z: &[Scalar], coefficients: &[Scalar]) -> blst_fr {
    let mut sum = blst_fr::ZERO;
    for (column, coefficient) in matrix.row(row) {
        let value = blst_fr::from(z[column as usize]);
        if value.is_zero() {
            continue;
        }
        sum = match coefficient {
            Circuit::COEFF_ONE => sum.add(&value),
            Circuit::COEFF_MINUS_ONE => sum.sub(&value),
            other => {
                let coefficient = blst_fr::from(coefficients[other as usize]);
                let is_one = value.l[0] == blst_fr::ONE.l[0] && value == blst_fr::ONE;
                sum.add(&if is_one { coefficient } else { coefficient.mul(&value) })
            }
        };
    }
    sum
}

/// Swaps each element with the one at the reversed index. The length is a power of two.
pub(super) fn permute_bit_reversed(values: &mut [blst_fr]) {
    let bits = values.len().ilog2();
    for index in 0..values.len() {
        let other = reverse_bits(index, bits);
        if index < other {
            values.swap(index, other);
        }
    }
}
