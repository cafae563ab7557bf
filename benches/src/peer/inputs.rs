//! What bellperson's synthesis hands to a prover: a, b, c, and which variables the queries of the SRS have points for.

use blstrs::Scalar;
use ff::Field;
use interlock_engine::circuit::{Circuit, Csr, Witness};
use interlock_engine::core::ProvingKey;
use rayon::prelude::*;

/// A bit for each of some variables, 64 to a word, the lowest bit first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitMap {
    /// The bits; those beyond the last variable are 0.
    pub words: Vec<u64>,
    /// How many are 1.
    pub ones: usize,
}

impl BitMap {
    /// Bits for `len` variables, of which those in `ones` are 1.
    fn new(len: usize, ones: impl Iterator<Item = usize>) -> Self {
        let mut map = Self { words: vec![0; len.div_ceil(64)], ones: 0 };
        for index in ones {
            map.words[index / 64] |= 1 << (index % 64);
            map.ones += 1;
        }
        map
    }

    /// Whether bit `index` is 1.
    ///
    /// # Panics
    /// When there is no such bit.
    pub fn contains(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 == 1
    }
}

/// Everything but the witness that a prover takes which leaves synthesis to bellperson.
#[derive(Clone, Debug)]
pub struct ProverInputs {
    /// `A z`: a value for each constraint, then one for each public input (the rows that say input times 0 is 0).
    pub a: Vec<Scalar>,
    /// `B z`, as long as `a`.
    pub b: Vec<Scalar>,
    /// `C z`, as long as `a`.
    pub c: Vec<Scalar>,
    /// Public inputs, the constant one included.
    pub num_inputs: usize,
    /// Private variables.
    pub num_aux: usize,
    /// Private variables with a point in the `a` query; all public inputs have one.
    pub a_aux_density: BitMap,
    /// Public inputs with a point in the `b` queries.
    pub b_input_density: BitMap,
    /// Private variables with a point in the `b` queries.
    pub b_aux_density: BitMap,
}

impl ProverInputs {
    /// Computes them.
    ///
    /// # Panics
    /// When the witness is not of this circuit.
    pub fn new(key: &ProvingKey, witness: &Witness) -> Self {
        let ProvingKey { circuit, srs } = key;
        let (num_inputs, num_aux) = (circuit.num_inputs, circuit.num_aux);
        let inputs = |variables: &[u32]| {
            let below = variables.iter().map(|variable| *variable as usize);
            BitMap::new(num_inputs, below.filter(|variable| *variable < num_inputs))
        };
        let aux = |variables: &[u32]| {
            let above = variables.iter().filter_map(|variable| (*variable as usize).checked_sub(num_inputs));
            BitMap::new(num_aux, above)
        };
        let implied = vec![Scalar::ZERO; num_inputs];
        Self {
            a: product(circuit, &circuit.a, witness, &witness.values[..num_inputs]),
            b: product(circuit, &circuit.b, witness, &implied),
            c: product(circuit, &circuit.c, witness, &implied),
            num_inputs,
            num_aux,
            a_aux_density: aux(&srs.a_variables),
            b_input_density: inputs(&srs.b_variables),
            b_aux_density: aux(&srs.b_variables),
        }
    }

    /// The first row with `a b` other than `c`, if there is one.
    pub fn first_unsatisfied(&self) -> Option<usize> {
        (0..self.a.len()).into_par_iter().find_first(|row| self.a[*row] * self.b[*row] != self.c[*row])
    }

    /// Whether the SRS has as many points as these inputs need.
    ///
    /// # Errors
    /// A sentence with the first number that differs.
    pub fn check_counts(&self, key: &ProvingKey) -> Result<(), String> {
        let srs = &key.srs;
        let b = self.b_input_density.ones + self.b_aux_density.ones;
        let counts = [
            ("h", srs.h.len(), self.a.len().next_power_of_two() - 1),
            ("l", srs.l.len(), self.num_aux),
            ("a", srs.a.len(), self.num_inputs + self.a_aux_density.ones),
            ("b in G1", srs.b_g1.len(), b),
            ("b in G2", srs.b_g2.len(), b),
        ];
        match counts.into_iter().find(|(_, found, expected)| found != expected) {
            Some((name, found, expected)) => {
                Err(format!("the SRS has {found} points in {name}, the prover's inputs need {expected}"))
            }
            None => Ok(()),
        }
    }
}

/// `matrix z`, then the rows in `implied`.
fn product(circuit: &Circuit, matrix: &Csr, witness: &Witness, implied: &[Scalar]) -> Vec<Scalar> {
    let row = |row| matrix.row_dot(row, &witness.values, &circuit.coefficients);
    let mut values = Vec::with_capacity(matrix.num_rows() + implied.len());
    values.par_extend((0..matrix.num_rows()).into_par_iter().map(row));
    values.extend_from_slice(implied);
    values
}

#[cfg(test)]
mod tests;
