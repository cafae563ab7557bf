//! From a circuit's inputs to a verified proof, one at a time: synthesis counts, too.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bellpepper_core::{Circuit, ConstraintSystem, SynthesisError};
use bellperson::groth16::{Parameters, create_proof};
use blstrs::{Bls12, Scalar};
use ff::Field;
use interlock_engine::circuit::bellpepper::synthesize_witness_for;
use interlock_engine::core::Core;
use serde::Serialize;

use super::compare::Case;
use super::{Error, PeerProver};
use crate::measure::{median, milliseconds, timed};
use crate::statement::{Statement, hashed};

/// Medians in milliseconds, from the chunk to be hashed to a proof that has been verified.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FromInputs {
    /// bellperson's synthesis, which makes a, b and c as well.
    pub peer_synthesis_ms: f64,
    /// It, the peer's prover and the verifier.
    pub peer_ms: f64,
    /// Our witness.
    pub witness_ms: f64,
    /// It, our core and the verifier.
    pub core_ms: f64,
}

/// Both ways in turns, `rounds` times, after one round that does not count.
///
/// # Errors
/// A prover fails, or a proof does not verify.
pub fn measure(
    case: &Case,
    chunk: &[u8],
    peer: &dyn PeerProver,
    core: &dyn Core,
    rounds: usize,
) -> Result<FromInputs, Error> {
    let mut samples: [Vec<f64>; 4] = Default::default();
    for round in 0..=rounds {
        let synthesis = bellperson_synthesis(hashed(chunk), &case.statement)?;
        let (proved, peer_rest) = timed(|| case.prove_and_verify_on_peer(peer));
        proved?;
        let (witness, witness_ms) =
            timed(|| synthesize_witness_for(&case.statement.key.circuit, hashed(chunk)));
        let statement = Statement { witness: Arc::new(witness?), ..case.statement.clone() };
        let (proved, core_rest) = timed(|| case.prove_and_verify(core, &statement));
        proved?;
        if round > 0 {
            let figures = [synthesis, synthesis + peer_rest, witness_ms, witness_ms + core_rest];
            samples.iter_mut().zip(figures).for_each(|(samples, figure)| samples.push(figure));
        }
    }
    let [peer_synthesis_ms, peer_ms, witness_ms, core_ms] = samples.map(median);
    Ok(FromInputs { peer_synthesis_ms, peer_ms, witness_ms, core_ms })
}

/// A circuit that says when it has been synthesized, and then gives up: nothing is proved.
struct Timed<C> {
    circuit: C,
    milliseconds: Arc<OnceLock<f64>>,
}

impl<C: Circuit<Scalar>> Circuit<Scalar> for Timed<C> {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let start = Instant::now();
        self.circuit.synthesize(cs)?;
        let _ = self.milliseconds.set(milliseconds(start.elapsed()));
        Err(SynthesisError::AssignmentMissing)
    }
}

/// Milliseconds that bellperson's own prover takes to synthesize a circuit, on one thread as always.
fn bellperson_synthesis(circuit: impl Circuit<Scalar> + Send, statement: &Statement) -> Result<f64, Error> {
    let milliseconds = Arc::new(OnceLock::new());
    // It never gets as far as to look at them.
    let parameters = Parameters::<Bls12> {
        vk: statement.key.srs.vk.clone(),
        h: Arc::default(),
        l: Arc::default(),
        a: Arc::default(),
        b_g1: Arc::default(),
        b_g2: Arc::default(),
    };
    let circuit = Timed { circuit, milliseconds: milliseconds.clone() };
    match create_proof(circuit, &parameters, Scalar::ZERO, Scalar::ZERO) {
        Err(SynthesisError::AssignmentMissing) => {}
        Err(error) => return Err(error.into()),
        Ok(_) => return Err("bellperson went on after an error of the circuit".into()),
    }
    milliseconds.get().copied().ok_or_else(|| "the circuit cannot be synthesized".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bellperson_synthesizes_and_goes_no_further() {
        let statement = Statement::demonstration(1);
        assert!(bellperson_synthesis(hashed(b"abc"), &statement).unwrap() > 0.0);
    }
}
