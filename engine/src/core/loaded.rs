//! A proving core from a dynamic library: the CUDA core, for one.
//!
//! The library is opened at run time, so that the engine itself needs no driver. What crosses the boundary, and in
//! which form, is said in [`interlock_core_api`].

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use abi_stable::library::{LibraryError, lib_header_from_path};
use abi_stable::std_types::{RResult, RSlice};
use blst::{blst_p1_affine, blst_p2_affine};
use blstrs::{Bls12, G1Affine, G2Affine, Scalar};
use ff::PrimeField;
use interlock_core_api::{
    BasisCode, CoreHandle, CoreModuleRef, CsrView, Fault, FaultKind, G1Limbs, G2Limbs, KeyHandle, KeyView,
    OpenOptions, Outcome, ScalarLimbs, StepRecord, SumsRecord, TaskHandle, UsageRecord,
};
use parking_lot::Mutex;

use super::sums::Sums;
use super::{Blinding, Core, CoreError, CoreTask, Device, Plan, ProvingKey};
use crate::arith::domain::Domain;
use crate::circuit::{Csr, Witness};
use crate::proof::Proof;
use crate::srs::HBasis;

/// The driver's library, which the CUDA core is linked to.
const DRIVER: &str = "libcuda.so.1";

/// Why a core could not be loaded.
#[derive(Debug, thiserror::Error)]
#[error("core library {}: {fault}", .file.display())]
pub struct LoadCoreError {
    /// The library.
    pub file: PathBuf,
    /// What is wrong.
    pub fault: LoadCoreFault,
}

/// What is wrong with a core.
#[derive(Debug, thiserror::Error)]
pub enum LoadCoreFault {
    /// This machine has no CUDA driver.
    #[error(
        "this machine has no CUDA driver ({DRIVER} was not found); use the CPU core here, or install the driver"
    )]
    NoDriver,
    /// The dynamic linker refused the file.
    #[error("cannot be loaded: {0}")]
    Linker(String),
    /// It is no core, or one that was built for another version of the boundary.
    #[error("not a core for this engine: {0}; rebuild it from the same sources")]
    Incompatible(String),
    /// The devices could not be opened.
    #[error("{0}")]
    Open(String),
}

/// Owns an opened core.
struct Opened {
    module: CoreModuleRef,
    handle: CoreHandle,
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the handle is from this module, and this is the only place where it is dropped; keys and tasks hold
        // an `Arc` of this.
        unsafe { self.module.drop_core()(self.handle) };
    }
}

/// Owns a key on a device.
struct LoadedKey {
    core: Arc<Opened>,
    handle: KeyHandle,
}

impl Drop for LoadedKey {
    fn drop(&mut self) {
        // SAFETY: as for `Opened`; tasks hold an `Arc` of this.
        unsafe { self.core.module.drop_key()(self.handle) };
    }
}

/// Owns a task of the library.
struct Running {
    key: Arc<LoadedKey>,
    handle: TaskHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: as for `Opened`.
        unsafe { self.key.core.module.drop_task()(self.handle) };
    }
}

/// A key that is on a device, for as long as the engine has it too.
struct Resident {
    key: Weak<ProvingKey>,
    device: usize,
    loaded: Arc<LoadedKey>,
}

/// A core from a library.
///
/// Keys are uploaded when the first task for them is prepared and freed once the engine has dropped them.
pub struct LoadedCore {
    name: &'static str,
    opened: Arc<Opened>,
    devices: Vec<Device>,
    resident: Arc<Mutex<Vec<Resident>>>,
}

impl LoadedCore {
    /// Loads a core and opens its devices. `name` is what reports call it. The library stays in the process.
    ///
    /// # Errors
    /// There is no driver, the file is no core, or a device cannot be opened.
    pub fn open(name: &'static str, file: &Path, options: &OpenOptions) -> Result<Self, LoadCoreError> {
        Self::open_image(name, file, file, options)
    }

    /// As [`LoadedCore::open`], from a copy of the file at `image`.
    pub(crate) fn open_image(
        name: &'static str,
        file: &Path,
        image: &Path,
        options: &OpenOptions,
    ) -> Result<Self, LoadCoreError> {
        let failed = |fault| LoadCoreError { file: file.to_owned(), fault };
        let header = lib_header_from_path(image).map_err(|error| failed(open_fault(&error)))?;
        let module = header
            .init_root_module::<CoreModuleRef>()
            .map_err(|error| failed(LoadCoreFault::Incompatible(error.to_string())))?;
        let handle = match module.open()(options) {
            RResult::ROk(handle) => handle,
            RResult::RErr(fault) => return Err(failed(LoadCoreFault::Open(fault.message.into_string()))),
        };
        let opened = Arc::new(Opened { module, handle });
        // SAFETY: the handle is from this module and live.
        let records = unsafe { module.devices()(handle) };
        let device = |record: &interlock_core_api::DeviceRecord| Device {
            name: record.name.to_string(),
            capacity_bytes: record.capacity_bytes,
        };
        let devices = records.iter().map(device).collect();
        Ok(Self { name, opened, devices, resident: Arc::default() })
    }

    /// Device bytes that tasks hold now, and the most they have held at once.
    pub fn usage(&self, device: usize) -> UsageRecord {
        // SAFETY: the handle is from this module and live.
        unsafe { self.opened.module.usage()(self.opened.handle, device as u32) }
    }

    /// As [`Core::task`], as a type that can tell its steps.
    ///
    /// # Errors
    /// See [`Core::task`].
    pub fn loaded_task(
        &self,
        device: usize,
        key: Arc<ProvingKey>,
        witness: Arc<Witness>,
        blinding: Blinding,
    ) -> Result<LoadedTask, CoreError> {
        if device >= self.devices.len() {
            let message = "there is no such device".to_owned();
            return Err(CoreError::Device { core: self.name, device, message });
        }
        key.check_sizes(&witness)?;
        Ok(LoadedTask {
            name: self.name,
            opened: self.opened.clone(),
            resident: self.resident.clone(),
            device,
            key,
            witness,
            blinding,
            progress: Progress::Created,
        })
    }
}

fn open_fault(error: &LibraryError) -> LoadCoreFault {
    match error {
        LibraryError::OpenError { err, .. } => {
            // The error of libloading keeps the linker's words to its source.
            let text = std::error::Error::source(err).map_or_else(|| err.to_string(), ToString::to_string);
            let text = if text.is_empty() { err.to_string() } else { text };
            if text.contains(DRIVER) { LoadCoreFault::NoDriver } else { LoadCoreFault::Linker(text) }
        }
        other => LoadCoreFault::Incompatible(other.to_string()),
    }
}

impl Core for LoadedCore {
    fn name(&self) -> &'static str {
        self.name
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// A key that the core refuses is planned as larger than any device, so that no task for it is let in.
    fn plan(&self, key: &ProvingKey) -> Plan {
        // SAFETY: the handle is from this module and live.
        match unsafe { self.opened.module.plan()(self.opened.handle, &view(key)) } {
            RResult::ROk(plan) => Plan {
                staged_bytes: plan.staged_bytes,
                compute_extra: plan.compute_extra,
                host_bytes: plan.host_bytes,
            },
            RResult::RErr(_) => Plan { staged_bytes: u64::MAX / 4, compute_extra: 0, host_bytes: 0 },
        }
    }

    fn task(
        &self,
        device: usize,
        key: Arc<ProvingKey>,
        witness: Arc<Witness>,
        blinding: Blinding,
    ) -> Result<Box<dyn CoreTask>, CoreError> {
        Ok(Box::new(self.loaded_task(device, key, witness, blinding)?))
    }
}

/// A proof being made by a library.
pub struct LoadedTask {
    name: &'static str,
    opened: Arc<Opened>,
    resident: Arc<Mutex<Vec<Resident>>>,
    device: usize,
    key: Arc<ProvingKey>,
    witness: Arc<Witness>,
    blinding: Blinding,
    progress: Progress,
}

/// How far a task is.
enum Progress {
    Created,
    Prepared(Running),
    Staged(Running),
    Computed(Running),
    Failed,
}

impl LoadedTask {
    /// Takes the task's state; it counts as failed until a new one is set.
    fn take(&mut self) -> Progress {
        std::mem::replace(&mut self.progress, Progress::Failed)
    }

    fn outcome<T>(&self, outcome: Outcome<T>) -> Result<T, CoreError> {
        outcome.into_result().map_err(|fault| core_error(self.name, self.device, fault))
    }

    /// The key on the task's device; uploads it when it is not there.
    fn loaded_key(&self) -> Result<Arc<LoadedKey>, CoreError> {
        // Held during the upload: whoever needs the same key waits for it rather than uploads it again.
        let mut resident = self.resident.lock();
        resident.retain(|entry| entry.key.strong_count() > 0);
        let here =
            |entry: &&Resident| entry.device == self.device && entry.key.as_ptr() == Arc::as_ptr(&self.key);
        if let Some(entry) = resident.iter().find(here) {
            return Ok(entry.loaded.clone());
        }
        let device = self.device as u32;
        // SAFETY: the handle is from this module and live.
        let outcome = unsafe { self.opened.module.load_key()(self.opened.handle, device, &view(&self.key)) };
        let loaded = Arc::new(LoadedKey { handle: self.outcome(outcome)?, core: self.opened.clone() });
        let key = Arc::downgrade(&self.key);
        resident.push(Resident { key, device: self.device, loaded: loaded.clone() });
        Ok(loaded)
    }

    /// Device time of each step of Compute, when the core was opened to measure it.
    pub fn steps(&self) -> Vec<StepRecord> {
        match &self.progress {
            // SAFETY: the handle is live, and this task is in this thread.
            Progress::Computed(running) => unsafe { self.opened.module.steps()(running.handle) }.into_vec(),
            _ => Vec::new(),
        }
    }
}

impl CoreTask for LoadedTask {
    fn prepare(&mut self) -> Result<(), CoreError> {
        let Progress::Created = self.take() else {
            return Err(CoreError::OutOfOrder { stage: "prepare", missing: "nothing: it has run" });
        };
        self.key.check_variables()?;
        let key = self.loaded_key()?;
        let witness = RSlice::from_slice(scalars(&self.witness.values));
        // SAFETY: the handle is live: `key` owns it.
        let outcome = unsafe { self.opened.module.new_task()(key.handle, witness) };
        self.progress = Progress::Prepared(Running { handle: self.outcome(outcome)?, key });
        Ok(())
    }

    fn stage(&mut self) -> Result<(), CoreError> {
        let Progress::Prepared(running) = self.take() else {
            return Err(CoreError::OutOfOrder { stage: "stage", missing: "prepare" });
        };
        // SAFETY: the handle is live, and this task is in this thread.
        self.outcome(unsafe { self.opened.module.stage()(running.handle) })?;
        self.progress = Progress::Staged(running);
        Ok(())
    }

    fn compute(&mut self) -> Result<(), CoreError> {
        let (Progress::Prepared(running) | Progress::Staged(running)) = self.take() else {
            return Err(CoreError::OutOfOrder { stage: "compute", missing: "prepare" });
        };
        // SAFETY: as in `stage`.
        self.outcome(unsafe { self.opened.module.compute()(running.handle) })?;
        self.progress = Progress::Computed(running);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Proof<Bls12>, CoreError> {
        let Progress::Computed(running) = &self.progress else {
            return Err(CoreError::OutOfOrder { stage: "finish", missing: "compute" });
        };
        // SAFETY: as in `stage`.
        let record = self.outcome(unsafe { self.opened.module.finish()(running.handle) })?;
        let Some(sums) = read_sums(&record) else {
            let message = "the device's result is not on the curve".to_owned();
            return Err(CoreError::Device { core: self.name, device: self.device, message });
        };
        Ok(sums.assemble(&self.key.srs, &self.blinding))
    }
}

fn core_error(core: &'static str, device: usize, fault: Fault) -> CoreError {
    match fault.kind {
        FaultKind::OUT_OF_MEMORY if fault.bytes != 0 => {
            CoreError::OutOfMemory { core, what: "a task or a key on the device", bytes: fault.bytes }
        }
        _ => CoreError::Device { core, device, message: fault.message.into_string() },
    }
}

/// The sums, unless a point is off its curve: then the device has failed without saying so.
fn read_sums(record: &SumsRecord) -> Option<Sums> {
    let g1 = |limbs: &G1Limbs| {
        let mut point = G1Affine::default();
        let raw: &mut blst_p1_affine = point.as_mut();
        raw.x.l.copy_from_slice(&limbs[..6]);
        raw.y.l.copy_from_slice(&limbs[6..]);
        bool::from(point.is_on_curve()).then(|| point.into())
    };
    let g2 = |limbs: &G2Limbs| {
        let mut point = G2Affine::default();
        let raw: &mut blst_p2_affine = point.as_mut();
        let parts = raw.x.fp.iter_mut().chain(&mut raw.y.fp);
        parts.zip(limbs.chunks_exact(6)).for_each(|(part, limbs)| part.l.copy_from_slice(limbs));
        bool::from(point.is_on_curve()).then(|| point.into())
    };
    Some(Sums {
        h: g1(&record.h)?,
        l: g1(&record.l)?,
        a: g1(&record.a)?,
        b_g1: g1(&record.b_g1)?,
        b_g2: g2(&record.b_g2)?,
    })
}

/// The key as it crosses the boundary.
fn view(key: &ProvingKey) -> KeyView<'_> {
    let ProvingKey { circuit, srs } = key;
    let domain = Domain::new(srs.h_basis, circuit.domain_size().ilog2());
    let (h_basis, shift) = match srs.h_basis {
        HBasis::Monomial => (BasisCode::MONOMIAL, Scalar::MULTIPLICATIVE_GENERATOR),
        HBasis::OddCoset => (BasisCode::ODD_COSET, Domain::new(srs.h_basis, domain.log_size + 1).root),
    };
    KeyView {
        a: csr(&circuit.a),
        b: csr(&circuit.b),
        c: csr(&circuit.c),
        coefficients: scalars(&circuit.coefficients).into(),
        num_inputs: circuit.num_inputs as u64,
        num_variables: circuit.num_variables() as u64,
        log_domain: domain.log_size,
        h_basis,
        root: scalars(&[domain.root])[0],
        shift: scalars(&[shift])[0],
        h_points: g1_points(&srs.h).into(),
        l_points: g1_points(&srs.l).into(),
        a_points: g1_points(&srs.a).into(),
        a_variables: srs.a_variables.as_slice().into(),
        b_g1_points: g1_points(&srs.b_g1).into(),
        b_g2_points: g2_points(&srs.b_g2).into(),
        b_variables: srs.b_variables.as_slice().into(),
    }
}

fn csr(matrix: &Csr) -> CsrView<'_> {
    CsrView {
        row_starts: matrix.row_starts().into(),
        columns: matrix.columns().into(),
        coefficients: matrix.coefficient_indices().into(),
    }
}

/// `$from` is a transparent wrapper around a blst type that is made of 64-bit limbs only.
macro_rules! as_limbs {
    ($name:ident, $from:ty, $to:ty) => {
        fn $name(values: &[$from]) -> &[$to] {
            const { assert!(size_of::<$from>() == size_of::<$to>() && align_of::<$from>() == align_of::<$to>()) };
            // SAFETY: the same size and alignment, no padding, and any limbs are a valid array.
            unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
        }
    };
}

as_limbs!(scalars, Scalar, ScalarLimbs);
as_limbs!(g1_points, G1Affine, G1Limbs);
as_limbs!(g2_points, G2Affine, G2Limbs);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_library_is_refused_with_its_name() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let options =
            OpenOptions { devices: [0].to_vec().into(), vram_limit: 0, spare_bytes: 0, measure_steps: false };
        let error = LoadedCore::open("cuda", &file, &options).err().expect("it is a text file");
        assert!(matches!(error.fault, LoadCoreFault::Linker(_)), "{error}");
        assert!(error.to_string().contains("Cargo.toml"), "{error}");
    }
}
