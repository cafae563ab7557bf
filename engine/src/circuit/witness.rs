//! The full assignment of a circuit's variables.

use blstrs::Scalar;
use ff::Field;

use super::Circuit;

/// A full assignment: one, public inputs, private variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The values, indexed by variable number. `values[0]` is one.
    pub values: Vec<Scalar>,
}

/// Why a witness is not one for a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WitnessError {
    /// The number of values is not the circuit's.
    #[error("witness of another circuit: it has {found} values, the circuit has {expected} variables")]
    OtherCircuit {
        /// Variables of the circuit, the constant one included.
        expected: usize,
        /// Values of the witness.
        found: usize,
    },
    /// The value of variable 0 is not one.
    #[error("the first value of the witness is not one")]
    FirstNotOne,
    /// A constraint does not hold.
    #[error("the witness does not satisfy the circuit: constraint {constraint} is the first that fails")]
    Unsatisfied {
        /// Index of the constraint, counted from 0.
        constraint: usize,
    },
}

impl WitnessError {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::OtherCircuit { .. } => {
                "Make the witness with the program that was compiled with this circuit."
            }
            Self::FirstNotOne => "The witness was not made by circom's witness calculator, or is damaged.",
            Self::Unsatisfied { .. } => {
                "Check the inputs that the witness was made from, and that the program that made it was \
                 compiled with this circuit."
            }
        }
    }
}

impl Witness {
    /// The public inputs, without the constant one.
    ///
    /// # Panics
    /// When the witness is shorter than the circuit's inputs; [`Witness::check_shape`] rules that out.
    pub fn public_inputs<'a>(&'a self, circuit: &Circuit) -> &'a [Scalar] {
        &self.values[1..circuit.num_inputs]
    }

    /// Whether the witness could belong to `circuit`: its length, and the constant one.
    ///
    /// # Errors
    /// [`WitnessError::OtherCircuit`] or [`WitnessError::FirstNotOne`].
    pub fn check_shape(&self, circuit: &Circuit) -> Result<(), WitnessError> {
        let (expected, found) = (circuit.num_variables(), self.values.len());
        if expected != found {
            return Err(WitnessError::OtherCircuit { expected, found });
        }
        if self.values[0] != Scalar::ONE {
            return Err(WitnessError::FirstNotOne);
        }
        Ok(())
    }

    /// Whether the witness satisfies `circuit`.
    ///
    /// # Errors
    /// Any [`WitnessError`].
    pub fn check(&self, circuit: &Circuit) -> Result<(), WitnessError> {
        self.check_shape(circuit)?;
        match circuit.first_unsatisfied(self) {
            Some(constraint) => Err(WitnessError::Unsatisfied { constraint }),
            None => Ok(()),
        }
    }
}
