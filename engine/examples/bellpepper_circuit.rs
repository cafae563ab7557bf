//! Prove your own bellpepper circuit: knowledge of a cube root.
//!
//! ```sh
//! cargo run --release -p interlock-engine --example bellpepper_circuit
//! ```

use std::error::Error;
use std::sync::Arc;

use bellpepper_core::{Circuit, ConstraintSystem, SynthesisError};
use blstrs::Scalar;
use ff::Field;
use interlock_engine::circuit::bellpepper;
use interlock_engine::core::ProvingKey;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::pipeline::{Engine, Job};
use interlock_engine::proof;
use interlock_engine::srs::setup;
use rand_core::OsRng;

/// "I know `root` with `root^3 = cube`", where `cube` is public.
struct CubeRoot {
    /// Missing while the shape is recorded.
    root: Option<Scalar>,
}

impl Circuit<Scalar> for CubeRoot {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let known = |value: Option<Scalar>| move || value.ok_or(SynthesisError::AssignmentMissing);
        let square = self.root.map(|root| root.square());
        let cube = square.zip(self.root).map(|(square, root)| square * root);
        let x = cs.alloc(|| "root", known(self.root))?;
        let xx = cs.alloc(|| "square", known(square))?;
        let xxx = cs.alloc_input(|| "cube", known(cube))?;
        cs.enforce(|| "x * x = xx", |lc| lc + x, |lc| lc + x, |lc| lc + xx);
        cs.enforce(|| "xx * x = xxx", |lc| lc + xx, |lc| lc + x, |lc| lc + xxx);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // Once for each circuit: its shape, and an SRS. This one is for development only.
    let circuit = bellpepper::record(CubeRoot { root: None })?;
    let srs = setup::generate(&circuit, OsRng);
    let key = Arc::new(ProvingKey { circuit, srs });

    // Once for each program: an engine. 256 MiB is what tasks may hold at once.
    let engine = Engine::builder(Arc::new(CpuCore::new(256 << 20, None)?)).start()?;

    // A partition for each witness.
    let mut job = Job::new(key.clone());
    for root in [3_u64, 5, 7] {
        job.push_synthesis(move || {
            Ok(bellpepper::synthesize_witness(CubeRoot { root: Some(Scalar::from(root)) })?)
        });
    }
    for outcome in engine.submit(job)?.wait() {
        let proved = outcome.result?;
        assert!(proof::verify(&key.srs.vk, &proved.proof, &proved.public_inputs)?);
        println!("cube {}: {}", proof::public_to_json(&proved.public_inputs), proof::to_json(&proved.proof));
    }
    Ok(())
}
