//! Statements to prove: the demonstration circuit (SHA-256 of a chunk) at a given size, with a witness and an SRS.

use std::sync::Arc;

use blstrs::{Bls12, Scalar};
use ff::Field;
use interlock_engine::circuit::bellpepper::{record, synthesize_witness};
use interlock_engine::circuit::{Circuit, FileChunk, Witness};
use interlock_engine::core::{Blinding, Core, CoreError, ProvingKey};
use interlock_engine::proof::Proof;
use interlock_engine::srs::setup::generate;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// A SHA-256 block takes about this many constraints.
const BLOCK_CONSTRAINTS: usize = 27_600;

/// What the demonstration circuit hashes at `2^log_size` constraints.
pub fn demonstration_chunk(log_size: u32) -> Vec<u8> {
    let blocks = ((1_usize << log_size) / BLOCK_CONSTRAINTS).max(1);
    (0..64 * blocks - 9).map(|index| (index * 167 + index / 251) as u8).collect()
}

/// The circuit with a chunk that fills it.
pub fn hashed(chunk: &[u8]) -> FileChunk {
    FileChunk::new(chunk, chunk.len()).expect("the chunk fits")
}

/// One statement to prove, again and again.
#[derive(Clone)]
pub struct Statement {
    /// Circuit and SRS.
    pub key: Arc<ProvingKey>,
    /// A witness that satisfies the circuit.
    pub witness: Arc<Witness>,
    /// Blinding factors. They are known to all: for measuring only.
    pub blinding: Blinding,
}

impl Statement {
    /// The demonstration circuit with as many blocks as fit in `2^log_size` constraints, one at least. The same on every
    /// machine.
    pub fn demonstration(log_size: u32) -> Self {
        let chunk = demonstration_chunk(log_size);
        let circuit = record(FileChunk::shape(chunk.len())).expect("the circuit is small");
        let witness = synthesize_witness(hashed(&chunk)).expect("complete");
        Self::new(circuit, witness)
    }

    /// A circuit with a witness that satisfies it, and an SRS that everybody can make again.
    pub fn new(circuit: Circuit, witness: Witness) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let srs = generate(&circuit, &mut rng);
        let blinding = Blinding::random(&mut rng);
        Self { key: Arc::new(ProvingKey { circuit, srs }), witness: Arc::new(witness), blinding }
    }

    /// How many values of the witness are neither 0 nor 1.
    pub fn wide_values(&self) -> usize {
        let is_wide = |value: &&Scalar| **value != Scalar::ZERO && **value != Scalar::ONE;
        self.witness.values.iter().filter(is_wide).count()
    }

    /// One proof on the first device of `core`, all four stages.
    ///
    /// # Errors
    /// What the core says.
    pub fn prove(&self, core: &dyn Core) -> Result<Proof<Bls12>, CoreError> {
        let mut task = core.task(0, self.key.clone(), self.witness.clone(), self.blinding)?;
        task.prepare()?;
        task.stage()?;
        task.compute()?;
        task.finish()
    }
}
