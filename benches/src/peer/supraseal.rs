//! supraseal-c2's prover.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use blstrs::{Bls12, G1Affine, G2Affine, Scalar};
use interlock_engine::circuit::Witness;
use interlock_engine::core::Blinding;
use interlock_engine::proof::Proof;
use supraseal_c2::{SRS, generate_groth16_proof};

use super::inputs::ProverInputs;
use super::{Error, PeerProver};

/// Whether supraseal-c2 finds a card; false where there is no driver.
pub fn is_available() -> bool {
    unsafe extern "C" {
        fn cuda_available() -> bool;
    }
    // SAFETY: a function without arguments of sppark's, which supraseal-c2 links.
    unsafe { cuda_available() }
}

/// supraseal-c2 with an SRS, which it keeps in pinned host memory.
pub struct Supraseal {
    srs: SRS,
}

/// A proof as supraseal-c2 writes it. An affine point of either group is its x and its y, as in blst.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawProof {
    a: G1Affine,
    b: G2Affine,
    c: G1Affine,
}

const _: () = assert!(size_of::<RawProof>() == 96 + 192 + 96, "two points of G1 and one of G2");

impl Supraseal {
    /// Reads a `.params` file.
    ///
    /// # Errors
    /// What supraseal-c2 says.
    pub fn open(file: &Path) -> Result<Self, Error> {
        let srs = SRS::try_new(file.to_owned(), false)
            .map_err(|error| format!("supraseal-c2 cannot read {}: {error}", file.display()))?;
        Ok(Self { srs })
    }
}

impl PeerProver for Supraseal {
    /// All proofs in one call, as bellperson makes it; `witness` stands for each circuit of the batch.
    fn prove(
        &self,
        inputs: &ProverInputs,
        witness: &Witness,
        blindings: &[Blinding],
    ) -> Result<Vec<Proof<Bls12>>, Error> {
        let count = blindings.len();
        let (public, private) = witness.values.split_at(inputs.num_inputs);
        if private.len() != inputs.num_aux {
            return Err("the witness is not of these inputs".into());
        }
        let each = |values: &[Scalar]| vec![values.as_ptr(); count];
        let r: Vec<Scalar> = blindings.iter().map(|blinding| blinding.r).collect();
        let s: Vec<Scalar> = blindings.iter().map(|blinding| blinding.s).collect();
        let mut proofs = vec![RawProof::default(); count];
        // It answers a failure with a panic.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            generate_groth16_proof(
                &each(&inputs.a),
                &each(&inputs.b),
                &each(&inputs.c),
                inputs.a.len(),
                &each(public),
                &each(private),
                public.len(),
                private.len(),
                &inputs.a_aux_density.words,
                &inputs.b_input_density.words,
                &inputs.b_aux_density.words,
                inputs.a_aux_density.ones,
                inputs.b_input_density.ones,
                inputs.b_aux_density.ones,
                count,
                &r,
                &s,
                &mut proofs,
                &self.srs,
            );
        }));
        outcome.map_err(|_| "supraseal-c2 failed; it has said why")?;
        Ok(proofs.into_iter().map(|RawProof { a, b, c }| Proof { a, b, c }).collect())
    }
}
