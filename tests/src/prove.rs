//! One proof on the CPU core, stage by stage.

use std::sync::Arc;

use blstrs::Bls12;
use interlock_engine::circuit::{Circuit, Witness};
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::{Blinding, Core, ProvingKey};
use interlock_engine::proof::Proof;
use interlock_engine::srs::Srs;

/// Proves `witness` with `srs` on the CPU core.
///
/// # Panics
/// When a stage fails.
pub fn prove(circuit: Circuit, srs: Srs, witness: Witness) -> Proof<Bls12> {
    let core = CpuCore::new(u64::MAX, None).unwrap();
    let key = Arc::new(ProvingKey { circuit, srs });
    let blinding = Blinding::random(rand::rngs::OsRng);
    let mut task = core.task(0, key, Arc::new(witness), blinding).unwrap();
    task.prepare().unwrap();
    task.stage().unwrap();
    task.compute().unwrap();
    task.finish().unwrap()
}
