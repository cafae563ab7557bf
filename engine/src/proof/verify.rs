//! Verification, with bellperson's verifier.

use bellperson::groth16::{PreparedVerifyingKey, Proof, prepare_verifying_key, verify_proof};
use blstrs::{Bls12, Scalar};

use super::vkey::VerifyingKey;

/// Why a proof could not be judged. (A proof that is wrong is no error, but `false`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The number of public inputs is not the key's.
    #[error("{found} public inputs, the verifying key takes {expected}")]
    InputCount {
        /// What the key takes.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// The key has no points for public inputs, not even for the constant one.
    #[error("the verifying key is malformed")]
    MalformedKey,
}

/// A verifying key, prepared for many proofs.
pub struct Verifier {
    key: PreparedVerifyingKey<Bls12>,
    num_inputs: usize,
}

impl Verifier {
    /// Prepares `key`.
    ///
    /// # Errors
    /// [`VerifyError::MalformedKey`].
    pub fn new(key: &VerifyingKey<Bls12>) -> Result<Self, VerifyError> {
        let num_inputs = key.ic.len().checked_sub(1).ok_or(VerifyError::MalformedKey)?;
        Ok(Self { key: prepare_verifying_key(key), num_inputs })
    }

    /// Whether `proof` proves that `inputs` (without the constant one) satisfy the circuit.
    ///
    /// # Errors
    /// [`VerifyError::InputCount`].
    pub fn verify(&self, proof: &Proof<Bls12>, inputs: &[Scalar]) -> Result<bool, VerifyError> {
        if inputs.len() != self.num_inputs {
            return Err(VerifyError::InputCount { expected: self.num_inputs, found: inputs.len() });
        }
        verify_proof(&self.key, proof, inputs).map_err(|_| VerifyError::MalformedKey)
    }
}

/// Whether `proof` proves that `inputs` (without the constant one) satisfy the circuit of `key`.
///
/// # Errors
/// Any [`VerifyError`].
pub fn verify(
    key: &VerifyingKey<Bls12>,
    proof: &Proof<Bls12>,
    inputs: &[Scalar],
) -> Result<bool, VerifyError> {
    Verifier::new(key)?.verify(proof, inputs)
}
