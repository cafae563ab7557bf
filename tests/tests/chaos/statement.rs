//! What is proved: knowledge of a square root. The root is a number of the test's own, so that a proof tells whose it is.

use std::sync::Arc;

use bellpepper_core::{Circuit, ConstraintSystem, SynthesisError};
use blstrs::Scalar;
use ff::{Field, PrimeField};
use interlock_engine::circuit::{Witness, bellpepper};
use interlock_engine::core::ProvingKey;
use interlock_engine::srs::setup;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

#[derive(Clone, Copy)]
struct Root(Option<Scalar>);

impl Circuit<Scalar> for Root {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let missing = SynthesisError::AssignmentMissing;
        let root = cs.alloc(|| "root", || self.0.ok_or(missing))?;
        let square = self.0.map(|root| root.square());
        let square = cs.alloc_input(|| "square", || square.ok_or(SynthesisError::AssignmentMissing))?;
        cs.enforce(|| "square", |lc| lc + root, |lc| lc + root, |lc| lc + square);
        Ok(())
    }
}

/// The keys that jobs are made for.
pub struct Statements {
    pub keys: Vec<Arc<ProvingKey>>,
}

impl Statements {
    pub fn new(seed: u64) -> Self {
        let key = |index| {
            let circuit = bellpepper::record(Root(None)).expect("it records");
            let srs = setup::generate(&circuit, ChaCha20Rng::seed_from_u64(seed ^ index));
            Arc::new(ProvingKey { circuit, srs })
        };
        Self { keys: (0..4).map(key).collect() }
    }
}

/// The witness of partition `number`.
pub fn witness(number: u64) -> Witness {
    bellpepper::synthesize_witness(Root(Some(root(number)))).expect("it is made")
}

/// What is public about it.
pub fn square(number: u64) -> Scalar {
    root(number).square()
}

fn root(number: u64) -> Scalar {
    Scalar::from(number + 2)
}

/// The number that a witness was made from.
pub fn number(witness: &Witness) -> u64 {
    let root = witness.values.last().expect("the root comes last").to_repr();
    u64::from_le_bytes(root.as_ref()[..8].try_into().expect("eight bytes")) - 2
}
