//! Circuits: the R1CS in one inner form, and the formats it comes from.
//!
//! A circuit is three sparse matrices A, B, C over the scalar field. With the full assignment
//! `z = (1, public inputs, private variables)`, constraint `i` says `(A z)_i * (B z)_i = (C z)_i`.

use blstrs::Scalar;
use ff::Field;

pub mod bellpepper;
mod coefficients;
mod csr;
pub mod file_chunk;
mod huge_pages;
pub mod r1cs;
pub mod recorder;
mod sha256_witness;
mod witness;
pub mod wtns;

pub use csr::{Csr, CsrBuilder};
pub use file_chunk::FileChunk;
pub use recorder::RecordError;
pub use witness::{Witness, WitnessError};

/// A rank-1 constraint system in compressed sparse row form.
///
/// Variables are numbered as in the full assignment: `0` is the constant one, then
/// `1..num_inputs` the public inputs, then the private ("auxiliary") variables.
///
/// The `num_inputs` rows `input_i * 0 = 0` that Groth16 implementations append to keep the public
/// inputs independent are *not* stored; they are implied after the last constraint, in the order
/// of the inputs ([`Circuit::domain_size`] counts them).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circuit {
    /// Public inputs, the constant one included: at least 1.
    pub num_inputs: usize,
    /// Private variables.
    pub num_aux: usize,
    /// The left factors.
    pub a: Csr,
    /// The right factors.
    pub b: Csr,
    /// The products.
    pub c: Csr,
    /// The distinct coefficients of all three matrices. Entry 0 is `1` and entry 1 is `-1`
    /// always ([`Circuit::COEFF_ONE`], [`Circuit::COEFF_MINUS_ONE`]).
    pub coefficients: Vec<Scalar>,
}

impl Circuit {
    /// Index of the coefficient `1`.
    pub const COEFF_ONE: u32 = 0;
    /// Index of the coefficient `-1`.
    pub const COEFF_MINUS_ONE: u32 = 1;

    /// The largest evaluation domain: the field has roots of unity of order `2^32`, and the odd coset
    /// of a domain takes one of twice its size.
    pub const MAX_DOMAIN: usize = 1 << 31;

    /// Number of constraints, without the implied input rows.
    pub fn num_constraints(&self) -> usize {
        self.a.num_rows()
    }

    /// Number of variables, the constant one included: the length of a full assignment.
    pub fn num_variables(&self) -> usize {
        self.num_inputs + self.num_aux
    }

    /// Size of the evaluation domain: the power of two at or above
    /// `num_constraints + num_inputs`.
    pub fn domain_size(&self) -> usize {
        (self.num_constraints() + self.num_inputs).next_power_of_two()
    }

    /// The first constraint that `witness` does not satisfy, if there is one.
    ///
    /// # Panics
    /// When the witness is shorter than [`Circuit::num_variables`].
    pub fn first_unsatisfied(&self, witness: &Witness) -> Option<usize> {
        use rayon::prelude::*;
        let z = &witness.values;
        (0..self.num_constraints()).into_par_iter().find_first(|&row| {
            let a = self.a.row_dot(row, z, &self.coefficients);
            let b = self.b.row_dot(row, z, &self.coefficients);
            a * b != self.c.row_dot(row, z, &self.coefficients)
        })
    }

    /// The variables that A (first) and B (second) mention at least once, as ascending variable
    /// numbers: the density of the `a` and `b` queries of an SRS. Every public input counts as
    /// mentioned by A, because of its implied row.
    pub fn densities(&self) -> (Vec<u32>, Vec<u32>) {
        let mark = |matrix: &Csr, inputs: usize| {
            let mut seen = vec![false; self.num_variables()];
            seen[..inputs].fill(true);
            for &column in matrix.columns() {
                seen[column as usize] = true;
            }
            let dense = seen.iter().enumerate().filter(|(_, seen)| **seen);
            dense.map(|(variable, _)| variable as u32).collect()
        };
        (mark(&self.a, self.num_inputs), mark(&self.b, 0))
    }

    /// A coefficient table that holds only the two fixed entries.
    pub(crate) fn base_coefficients() -> Vec<Scalar> {
        vec![Scalar::ONE, -Scalar::ONE]
    }
}
