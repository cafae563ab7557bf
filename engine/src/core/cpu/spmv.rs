//! The three matrices times the assignment: a, b and c on the domain.

use std::collections::TryReserveError;

use blst::blst_fr;
use blstrs::Scalar;
use ff::Field;
use rayon::prelude::*;

use crate::arith::domain::reverse_bits;
use crate::arith::field::RawField;
use crate::circuit::{Circuit, Csr, Witness};

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
        let rows = circuit.num_constraints();
        let z = &witness.values;
        let inputs = &z[..circuit.num_inputs];
        let row_of = |matrix: &Csr, row: usize| {
            if row < rows { matrix.row_dot(row, z, &circuit.coefficients) } else { Scalar::ZERO }
        };
        let size = circuit.domain_size();
        // The implied rows say input_i * 0 = 0.
        let a = evaluate(size, |row| match row.checked_sub(rows) {
            Some(input) => inputs.get(input).copied().unwrap_or(Scalar::ZERO),
            None => row_of(&circuit.a, row),
        })?;
        let b = evaluate(size, |row| row_of(&circuit.b, row))?;
        let c = evaluate(size, |row| row_of(&circuit.c, row))?;
        Ok(Self { a, b, c })
    }
}

fn evaluate(size: usize, value: impl Fn(usize) -> Scalar + Sync) -> Result<Vec<blst_fr>, TryReserveError> {
    let mut values = Vec::new();
    values.try_reserve_exact(size)?;
    values.resize(size, blst_fr::ZERO);
    let log_size = size.ilog2();
    values.par_iter_mut().enumerate().with_min_len(1 << 10).for_each(|(index, slot)| {
        *slot = value(reverse_bits(index, log_size)).into();
    });
    Ok(values)
}
