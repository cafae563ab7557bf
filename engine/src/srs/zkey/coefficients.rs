//! Section 4 of a `.zkey`, held against a circuit without being kept.
//!
//! A `u32` count, then {matrix, constraint, variable, value} of 44 bytes each; the matrix is 0 for A and
//! 1 for B. The value is `coefficient * R^2 mod r` with `R = 2^256`, in canonical little-endian bytes. The
//! rows of the public inputs follow the constraints: 1 at each input, in A.
//!
//! snarkjs writes the terms as they stand in the `.r1cs`, in any order. The inner form has them sorted
//! and summed. So each term is looked up; a bit per entry says that it was found. What is not found at
//! once (terms that are to be summed, and differences) is collected by place, up to a limit, and
//! compared at the end.

use std::collections::BTreeMap;

use blstrs::Scalar;
use ff::{Field, PrimeField};
use rayon::prelude::*;

use crate::circuit::{Circuit, Csr};
use crate::format::field::scalar_from_bytes;
use crate::format::{FormatError, Reason, Section};

const TERM_BYTES: usize = 3 * 4 + 32;

/// Places that may hold terms to be summed. circom leaves none.
const MOST_IRREGULAR: usize = 1 << 16;

/// A matrix, a row and a column.
type Place = (u32, u32, u32);

/// Fails unless the section's terms are the entries of A and B of `circuit`.
pub(super) fn check(mut section: Section, circuit: &Circuit) -> Result<(), FormatError> {
    let count = section.u32_le()?;
    section.require_exactly(count.into(), TERM_BYTES as u64)?;
    let entries = Entries::new(circuit);
    let mut seen = vec![0u64; entries.count().div_ceil(64)];
    let mut irregular: BTreeMap<Place, Scalar> = BTreeMap::new();
    let mut left = count as usize;
    while left > 0 {
        let start = section.position();
        let bytes = section.take_items(TERM_BYTES, left)?;
        let terms: Vec<Term> = bytes.par_chunks_exact(TERM_BYTES).map(Term::read).collect();
        let found: Vec<Option<usize>> = terms.par_iter().map(|term| entries.find(term)).collect();
        for (index, (term, found)) in terms.iter().zip(found).enumerate() {
            let fail = |reason| Err(section.error_at(start + (index * TERM_BYTES) as u64, reason));
            match found {
                Some(entry) if seen[entry / 64] >> (entry % 64) & 1 == 0 => {
                    seen[entry / 64] |= 1 << (entry % 64);
                }
                _ => {
                    let Some(value) = term.value() else {
                        return fail(Reason::NonCanonicalScalar { index: index as u64 });
                    };
                    *irregular.entry(term.place).or_default() += value * entries.unscale;
                    if !entries.has_place(term.place) || irregular.len() > MOST_IRREGULAR {
                        return fail(other_entry(term.place));
                    }
                }
            }
        }
        left -= terms.len();
    }
    entries.settle(seen, irregular).map_err(|place| section.error(other_entry(place)))
}

fn other_entry((matrix, row, column): Place) -> Reason {
    let matrix = if matrix == 0 { 'A' } else { 'B' };
    Reason::OtherCircuitEntry { matrix, row: row.into(), column: column.into() }
}

struct Term {
    place: Place,
    bytes: [u8; 32],
}

impl Term {
    fn read(bytes: &[u8]) -> Self {
        let number = |i: usize| u32::from_le_bytes(std::array::from_fn(|k| bytes[4 * i + k]));
        let place = (number(0), number(1), number(2));
        Self { place, bytes: std::array::from_fn(|k| bytes[12 + k]) }
    }

    fn value(&self) -> Option<Scalar> {
        scalar_from_bytes(&self.bytes)
    }
}

/// The entries of A, of the implied rows in A, and of B, numbered in this order.
struct Entries<'a> {
    circuit: &'a Circuit,
    /// Each coefficient as the file would hold it.
    scaled: Vec<[u8; 32]>,
    /// Takes a file's value to the coefficient.
    unscale: Scalar,
}

impl<'a> Entries<'a> {
    fn new(circuit: &'a Circuit) -> Self {
        let r = Scalar::from(2).pow_vartime([256]);
        let scale = r.square();
        let scaled = circuit.coefficients.par_iter().map(|value| (value * scale).to_repr()).collect();
        // 2 is not zero in the field, so that neither is R^2.
        let unscale = scale.invert().unwrap_or(Scalar::ZERO);
        Self { circuit, scaled, unscale }
    }

    fn count(&self) -> usize {
        self.circuit.a.num_entries() + self.circuit.num_inputs + self.circuit.b.num_entries()
    }

    /// Where the entries of a matrix start in the numbering.
    fn base(&self, matrix: u32) -> usize {
        if matrix == 0 { 0 } else { self.circuit.a.num_entries() + self.circuit.num_inputs }
    }

    fn matrix(&self, matrix: u32) -> Option<&'a Csr> {
        match matrix {
            0 => Some(&self.circuit.a),
            1 => Some(&self.circuit.b),
            _ => None,
        }
    }

    /// Whether `place` lies in the matrices, the implied rows included.
    fn has_place(&self, (matrix, row, column): Place) -> bool {
        let rows = self.circuit.num_constraints() + self.circuit.num_inputs;
        matrix <= 1 && (row as usize) < rows && (column as usize) < self.circuit.num_variables()
    }

    /// The number and the coefficient index of the entry at `place`.
    fn at(&self, (matrix, row, column): Place) -> Option<(usize, u32)> {
        let csr = self.matrix(matrix)?;
        let (row, constraints) = (row as usize, self.circuit.num_constraints());
        if row >= constraints {
            let input = row - constraints;
            let implied = matrix == 0 && input < self.circuit.num_inputs && column as usize == input;
            return implied.then_some((self.circuit.a.num_entries() + input, Circuit::COEFF_ONE));
        }
        let (start, end) = (csr.row_starts()[row] as usize, csr.row_starts()[row + 1] as usize);
        let entry = start + csr.columns()[start..end].binary_search(&column).ok()?;
        Some((self.base(matrix) + entry, csr.coefficient_indices()[entry]))
    }

    /// The number of the entry that `term` is.
    fn find(&self, term: &Term) -> Option<usize> {
        let (entry, coefficient) = self.at(term.place)?;
        (self.scaled[coefficient as usize] == term.bytes).then_some(entry)
    }

    /// Compares what was not found at once: at each place, the terms of the file, the one that was found
    /// included, must sum to the entry.
    fn settle(&self, mut seen: Vec<u64>, irregular: BTreeMap<Place, Scalar>) -> Result<(), Place> {
        for (place, mut sum) in irregular {
            let mut due = Scalar::ZERO;
            if let Some((entry, coefficient)) = self.at(place) {
                due = self.circuit.coefficients[coefficient as usize];
                if seen[entry / 64] >> (entry % 64) & 1 == 1 {
                    sum += due;
                }
                seen[entry / 64] |= 1 << (entry % 64);
            }
            if sum != due {
                return Err(place);
            }
        }
        let missing = (0..self.count()).find(|&entry| seen[entry / 64] >> (entry % 64) & 1 == 0);
        missing.map_or(Ok(()), |entry| Err(self.place(entry)))
    }

    /// Where the entry with a number lies.
    fn place(&self, entry: usize) -> Place {
        let of = |matrix: u32, csr: &Csr, entry: usize| {
            let row = csr.row_starts().partition_point(|&start| start as usize <= entry) - 1;
            (matrix, row as u32, csr.columns()[entry])
        };
        let in_a = self.circuit.a.num_entries();
        match entry {
            entry if entry < in_a => of(0, &self.circuit.a, entry),
            entry if entry < self.base(1) => {
                let input = (entry - in_a) as u32;
                (0, self.circuit.num_constraints() as u32 + input, input)
            }
            entry => of(1, &self.circuit.b, entry - self.base(1)),
        }
    }
}
