//! A tiny statement, and a core that fails when it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bellpepper_core::{Circuit, ConstraintSystem, SynthesisError};
use blstrs::{Bls12, Scalar};
use ff::Field;
use interlock_engine::circuit::{Witness, bellpepper};
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::{Blinding, Core, CoreError, CoreTask, Device, Plan, ProvingKey};
use interlock_engine::proof::Proof;
use interlock_engine::srs::setup;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

/// Knowledge of a 16th root of a public number.
#[derive(Clone, Copy)]
pub struct Root(pub Option<Scalar>);

impl Circuit<Scalar> for Root {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let missing = SynthesisError::AssignmentMissing;
        let mut value = self.0;
        let mut variable = cs.alloc(|| "root", || value.ok_or(missing))?;
        for step in 0..4 {
            let square = value.map(|value| value.square());
            let next = || square.ok_or(SynthesisError::AssignmentMissing);
            let squared =
                if step == 3 { cs.alloc_input(|| "power", next)? } else { cs.alloc(|| "square", next)? };
            cs.enforce(|| "square", |lc| lc + variable, |lc| lc + variable, |lc| lc + squared);
            (value, variable) = (square, squared);
        }
        Ok(())
    }
}

pub fn key() -> Arc<ProvingKey> {
    let circuit = bellpepper::record(Root(None)).expect("the circuit records");
    let srs = setup::generate(&circuit, ChaCha20Rng::seed_from_u64(7));
    Arc::new(ProvingKey { circuit, srs })
}

pub fn witness(root: u64) -> Witness {
    bellpepper::synthesize_witness(Root(Some(Scalar::from(root)))).expect("the witness is made")
}

pub fn power(root: u64) -> Scalar {
    Scalar::from(root).pow_vartime([16])
}

/// What a [`FaultyCore`] does in a stage of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Error,
    OutOfMemory,
    Panic,
    WrongProof,
}

/// The CPU core, but the first `count` tasks fail in their Compute stage.
pub struct FaultyCore {
    inner: CpuCore,
    fault: Fault,
    left: Arc<AtomicU32>,
}

impl FaultyCore {
    pub fn new(fault: Fault, count: u32) -> Self {
        Self {
            inner: CpuCore::new(1 << 30, Some(1)).expect("a thread"),
            fault,
            left: Arc::new(AtomicU32::new(count)),
        }
    }
}

impl Core for FaultyCore {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn devices(&self) -> &[Device] {
        self.inner.devices()
    }

    fn plan(&self, key: &ProvingKey) -> Plan {
        self.inner.plan(key)
    }

    fn task(
        &self,
        device: usize,
        key: Arc<ProvingKey>,
        witness: Arc<Witness>,
        blinding: Blinding,
    ) -> Result<Box<dyn CoreTask>, CoreError> {
        let inner = self.inner.task(device, key, witness, blinding)?;
        let fails =
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        Ok(Box::new(FaultyTask { inner, fault: fails.then_some(self.fault) }))
    }
}

struct FaultyTask {
    inner: Box<dyn CoreTask>,
    fault: Option<Fault>,
}

impl CoreTask for FaultyTask {
    fn prepare(&mut self) -> Result<(), CoreError> {
        self.inner.prepare()
    }

    fn stage(&mut self) -> Result<(), CoreError> {
        self.inner.stage()
    }

    fn compute(&mut self) -> Result<(), CoreError> {
        match self.fault {
            Some(Fault::Error) => {
                Err(CoreError::Device { core: "faulty", device: 0, message: "kernel error".into() })
            }
            Some(Fault::OutOfMemory) => {
                Err(CoreError::OutOfMemory { core: "faulty", what: "buckets".into(), bytes: 1 })
            }
            Some(Fault::Panic) => panic!("the card is on fire"),
            Some(Fault::WrongProof) | None => self.inner.compute(),
        }
    }

    fn finish(self: Box<Self>) -> Result<Proof<Bls12>, CoreError> {
        let mut proof = self.inner.finish()?;
        if self.fault == Some(Fault::WrongProof) {
            proof.c = proof.a;
        }
        Ok(proof)
    }
}
