//! Our CUDA core against another prover for the same card: same circuit, same witness, same SRS file, one process.
//!
//! The peer is supraseal-c2, behind the feature `supraseal` (`benches/README.md` says how to build it). All that needs
//! neither it nor a card is compiled and tested without.

pub mod compare;
pub mod inputs;
pub mod seats;
#[cfg(feature = "supraseal")]
pub mod supraseal;
pub mod synthesis;
pub mod table;

use blstrs::Bls12;
use interlock_engine::circuit::Witness;
use interlock_engine::core::Blinding;
use interlock_engine::proof::Proof;

use inputs::ProverInputs;

/// Whatever went wrong; the message says where.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A prover that takes what synthesis made, and proves it once for each pair of blinding factors, in one call.
pub trait PeerProver {
    /// The proofs, in the order of `blindings`.
    ///
    /// # Errors
    /// What the prover says.
    fn prove(
        &self,
        inputs: &ProverInputs,
        witness: &Witness,
        blindings: &[Blinding],
    ) -> Result<Vec<Proof<Bls12>>, Error>;
}
