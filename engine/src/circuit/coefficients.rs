//! The table of distinct coefficients that the three matrices of a circuit share.

use std::collections::HashMap;

use blst::blst_fr;
use blstrs::Scalar;

use super::Circuit;

/// Gives each distinct scalar one index.
///
/// The map keeps the standard library's keyed hasher: coefficients may come from a file that somebody
/// else made.
#[derive(Debug)]
pub(crate) struct Coefficients {
    table: Vec<Scalar>,
    index: HashMap<[u64; 4], u32>,
}

impl Coefficients {
    /// A table with the two fixed entries `1` and `-1`.
    pub(crate) fn new() -> Self {
        Self { table: Circuit::base_coefficients(), index: HashMap::new() }
    }

    /// The index of `value`, or nothing when 32 bits no longer count the distinct values.
    pub(crate) fn intern(&mut self, value: Scalar) -> Option<u32> {
        if value == self.table[Circuit::COEFF_ONE as usize] {
            return Some(Circuit::COEFF_ONE);
        }
        if value == self.table[Circuit::COEFF_MINUS_ONE as usize] {
            return Some(Circuit::COEFF_MINUS_ONE);
        }
        let limbs = blst_fr::from(value).l;
        if let Some(&known) = self.index.get(&limbs) {
            return Some(known);
        }
        let next = u32::try_from(self.table.len()).ok()?;
        self.table.push(value);
        self.index.insert(limbs, next);
        Some(next)
    }

    /// The table, as [`Circuit::coefficients`] keeps it.
    pub(crate) fn finish(self) -> Vec<Scalar> {
        self.table
    }
}

#[cfg(test)]
mod tests {
    use ff::Field;

    use super::*;

    #[test]
    fn equal_values_share_an_index() {
        let mut table = Coefficients::new();
        let seven = Scalar::from(7);
        let indices =
            [Scalar::ONE, -Scalar::ONE, seven, Scalar::from(9), seven].map(|v| table.intern(v).unwrap());
        assert_eq!(indices, [0, 1, 2, 3, 2]);
        assert_eq!(table.finish(), [Scalar::ONE, -Scalar::ONE, seven, Scalar::from(9)]);
    }
}
