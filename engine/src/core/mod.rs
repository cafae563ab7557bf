//! Proving cores: the trait each one keeps, and the cores that ship.
//!
//! A core turns a witness into a proof in four steps that mirror the stages the arbiter schedules:
//!
//! | stage | where | what the core does |
//! |---|---|---|
//! | Prepare | CPU | whatever needs no device memory |
//! | Stage | device | places the task's data in the memory that was granted |
//! | Compute | device | the transforms and multi-scalar multiplications |
//! | Finish | CPU | assembles the proof |
//!
//! A core tells its [`Plan`] before a task runs and allocates nothing outside the grant: the ledger
//! is only as honest as the plan. Tasks share nothing but the read-only [`ProvingKey`], so that any
//! policy may overlap any two of them.

pub mod cpu;
pub mod loaded;
mod sums;

use std::borrow::Cow;
use std::sync::Arc;

use blstrs::{Bls12, Scalar};
use ff::Field;
use rand_core::{CryptoRng, RngCore};

use crate::circuit::{Circuit, Witness};
use crate::proof::Proof;
use crate::srs::{HBasis, Srs};

/// A circuit with its SRS: what all tasks of a job share, read-only.
#[derive(Debug)]
pub struct ProvingKey {
    /// The constraint system.
    pub circuit: Circuit,
    /// The SRS made for it.
    pub srs: Srs,
}

impl ProvingKey {
    /// Whether the sizes of circuit, SRS and `witness` fit together.
    ///
    /// # Errors
    /// [`CoreError::Mismatch`] with the first that does not.
    pub fn check_sizes(&self, witness: &Witness) -> Result<(), CoreError> {
        let Self { circuit, srs } = self;
        let domain = circuit.domain_size();
        let h = match srs.h_basis {
            HBasis::Monomial => domain - 1,
            HBasis::OddCoset => domain,
        };
        let sizes = [
            ("witness", circuit.num_variables(), witness.values.len()),
            ("`ic` vector of the verifying key", circuit.num_inputs, srs.vk.ic.len()),
            ("`h` vector of the SRS", h, srs.h.len()),
            ("`l` vector of the SRS", circuit.num_aux, srs.l.len()),
            ("`a` vector of the SRS", srs.a_variables.len(), srs.a.len()),
            ("`b_g1` vector of the SRS", srs.b_variables.len(), srs.b_g1.len()),
            ("`b_g2` vector of the SRS", srs.b_variables.len(), srs.b_g2.len()),
        ];
        match sizes.into_iter().find(|(_, expected, found)| expected != found) {
            Some((what, expected, found)) => Err(CoreError::Mismatch { what, expected, found }),
            None => Ok(()),
        }
    }

    /// Whether the SRS speaks only of variables that the circuit has.
    ///
    /// # Errors
    /// [`CoreError::Mismatch`] when it does not.
    pub fn check_variables(&self) -> Result<(), CoreError> {
        let expected = self.circuit.num_variables();
        for (what, variables) in
            [("`a` query of the SRS", &self.srs.a_variables), ("`b` query of the SRS", &self.srs.b_variables)]
        {
            let found = variables.iter().max().map_or(0, |last| *last as usize + 1);
            if found > expected {
                return Err(CoreError::Mismatch { what, expected, found });
            }
        }
        Ok(())
    }
}

/// The blinding factors `r` and `s` of one proof (Groth16, eprint 2016/260, section 3.2).
///
/// Reusing them for two witnesses breaks zero knowledge: make fresh ones for each proof.
#[derive(Clone, Copy)]
pub struct Blinding {
    /// Blinds A.
    pub r: Scalar,
    /// Blinds B.
    pub s: Scalar,
}

impl Blinding {
    /// Fresh factors from `rng`.
    pub fn random(mut rng: impl RngCore + CryptoRng) -> Self {
        Self { r: Scalar::random(&mut rng), s: Scalar::random(&mut rng) }
    }
}

/// What one task needs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Device bytes from the start of staging until the end of Compute.
    pub staged_bytes: u64,
    /// Device bytes that Compute needs on top of `staged_bytes`.
    pub compute_extra: u64,
    /// Host bytes from Prepare to Finish, the witness included.
    pub host_bytes: u64,
}

impl Plan {
    /// The most device bytes the task ever holds.
    pub fn peak_bytes(&self) -> u64 {
        self.staged_bytes + self.compute_extra
    }
}

/// One device of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// What people call it.
    pub name: String,
    /// Bytes that tasks may hold at once.
    pub capacity_bytes: u64,
    /// By which its driver's other libraries know it, where it has one.
    pub uuid: Option<String>,
}

/// Why a core could not go on with a task.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// Device or host memory could not be had.
    #[error("{core} core: could not allocate {bytes} bytes for {what}")]
    OutOfMemory {
        /// The core that failed.
        core: &'static str,
        /// What the memory was for, and what else there is to say.
        what: Cow<'static, str>,
        /// How much was asked for.
        bytes: u64,
    },
    /// The witness, the circuit and the SRS do not belong together.
    #[error("the {what} has {found} entries, the circuit needs {expected}")]
    Mismatch {
        /// Which vector is off.
        what: &'static str,
        /// What the circuit needs.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// A stage was called out of order: a fault of the driver, not of the input.
    #[error("{stage} was called before {missing}")]
    OutOfOrder {
        /// The stage that was called.
        stage: &'static str,
        /// The stage that should have come first.
        missing: &'static str,
    },
    /// A device is gone: no task will run on it again in this process.
    #[error("{core} core, device {device} is lost: {message}")]
    DeviceLost {
        /// The core that failed.
        core: &'static str,
        /// Index of the device.
        device: usize,
        /// What the device said.
        message: String,
    },
    /// A device failed.
    #[error("{core} core, device {device}: {message}")]
    Device {
        /// The core that failed.
        core: &'static str,
        /// Index of the device.
        device: usize,
        /// What the device said.
        message: String,
    },
}

/// A proving core: owns devices, makes tasks.
pub trait Core: Send + Sync {
    /// Short name, as in reports: `cpu`, `cuda`.
    fn name(&self) -> &'static str;

    /// The devices, in the order the other calls number them.
    fn devices(&self) -> &[Device];

    /// Makes `key` ready on the devices, so that no task has to do it; a task whose key is not ready sees to it
    /// in Prepare. The key may be held until no task uses it and another key is loaded.
    ///
    /// # Errors
    /// Device or host memory cannot be had, or a device fails. Where there are several, each is tried; a lost one is
    /// named only if no other failed.
    fn load(&self, key: &Arc<ProvingKey>) -> Result<(), CoreError> {
        let _ = key;
        Ok(())
    }

    /// Whether the core can take `key` at all, however much memory there is. Asked when the plan exceeds every device.
    ///
    /// # Errors
    /// Why it cannot.
    fn accepts(&self, key: &ProvingKey) -> Result<(), CoreError> {
        let _ = key;
        Ok(())
    }

    /// What a task for `key` will need. Exact: the core allocates no more than this.
    fn plan(&self, key: &ProvingKey) -> Plan;

    /// A task that will prove `witness` on device `device`. Cheap: no work, no device memory.
    ///
    /// # Errors
    /// [`CoreError::Mismatch`] when witness, circuit and SRS do not fit together.
    fn task(
        &self,
        device: usize,
        key: Arc<ProvingKey>,
        witness: Arc<Witness>,
        blinding: Blinding,
    ) -> Result<Box<dyn CoreTask>, CoreError>;
}

/// One task on a core, driven stage by stage.
///
/// Calls come in the order `prepare`, `stage` (left out when the task is staged inline), `compute`,
/// `finish`. Each blocks until the stage is done. Dropping a task at any point frees what it holds.
pub trait CoreTask: Send {
    /// CPU work before any device memory is held.
    ///
    /// # Errors
    /// Any [`CoreError`]; the task is then only good for dropping. The same holds for each stage.
    fn prepare(&mut self) -> Result<(), CoreError>;

    /// Places the task's data in device memory: at most [`Plan::staged_bytes`].
    ///
    /// # Errors
    /// See [`CoreTask::prepare`].
    fn stage(&mut self) -> Result<(), CoreError>;

    /// Runs the transforms and multi-scalar multiplications, at most [`Plan::peak_bytes`] in all.
    /// Stages inline first when [`CoreTask::stage`] was not called. All device memory is free
    /// again when this returns.
    ///
    /// # Errors
    /// See [`CoreTask::prepare`].
    fn compute(&mut self) -> Result<(), CoreError>;

    /// Assembles the proof.
    ///
    /// # Errors
    /// See [`CoreTask::prepare`].
    fn finish(self: Box<Self>) -> Result<Proof<Bls12>, CoreError>;
}
