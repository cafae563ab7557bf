//! A proving core from a dynamic library: the CUDA core, for one.
//!
//! The library is opened at run time, so that the engine itself needs no driver. What crosses the boundary, and in
//! which form, is said in [`interlock_core_api`].

mod keys;
mod task;
mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use abi_stable::library::{LibraryError, lib_header_from_path};
use abi_stable::std_types::RResult;
use interlock_core_api::{CoreHandle, CoreModuleRef, Fault, FaultKind, OpenOptions, PlanRecord, UsageRecord};

use self::keys::Keys;
pub use self::task::LoadedTask;
use self::task::Progress;
use self::view::view;
use super::{Blinding, Core, CoreError, CoreTask, Device, Plan, ProvingKey};
use crate::circuit::Witness;

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
    /// There is a driver, but no card that it can use.
    #[error("this machine has no CUDA device: {0}; use the CPU core here")]
    NoDevice(String),
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

impl Opened {
    /// See [`LoadedCore::plan`].
    fn plan(&self, key: &ProvingKey) -> Plan {
        // SAFETY: the handle is from this module and live.
        match unsafe { self.module.plan()(self.handle, &view(key)) } {
            RResult::ROk(PlanRecord { staged_bytes, compute_extra, host_bytes }) => {
                Plan { staged_bytes, compute_extra, host_bytes }
            }
            RResult::RErr(_) => Plan { staged_bytes: u64::MAX / 4, compute_extra: 0, host_bytes: 0 },
        }
    }

    /// Passes on what the operator should hear.
    fn tell(&self, core: &'static str) {
        // SAFETY: the handle is from this module and live.
        for notice in unsafe { self.module.notices()(self.handle) } {
            tracing::warn!(core, "{notice}");
        }
    }
}

/// A core from a library.
///
/// A key stays ready until it is unused and another one needs its place.
pub struct LoadedCore {
    name: &'static str,
    opened: Arc<Opened>,
    devices: Vec<Device>,
    keys: Arc<Keys>,
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
        let module =
            header.init_root_module::<CoreModuleRef>().map_err(|error| failed(incompatible(&error)))?;
        let handle = match module.open()(options) {
            RResult::ROk(handle) => handle,
            RResult::RErr(fault) => {
                let (kind, message) = (fault.kind, fault.message.into_string());
                let no_device = kind == FaultKind::NO_DEVICE;
                let fault = if no_device { LoadCoreFault::NoDevice } else { LoadCoreFault::Open };
                return Err(failed(fault(message)));
            }
        };
        let opened = Arc::new(Opened { module, handle });
        // SAFETY: the handle is from this module and live.
        let records = unsafe { module.devices()(handle) };
        let device = |record: &interlock_core_api::DeviceRecord| Device {
            name: record.name.to_string(),
            capacity_bytes: record.capacity_bytes,
            uuid: Some(record.uuid.to_string()).filter(|uuid| !uuid.is_empty()),
        };
        let devices = records.iter().map(device).collect();
        Ok(Self { name, opened, devices, keys: Arc::default() })
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
            keys: self.keys.clone(),
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
        other => incompatible(other),
    }
}

/// In a sentence: abi_stable's own text on a layout runs over pages.
fn incompatible(error: &LibraryError) -> LoadCoreFault {
    tracing::debug!("{error}");
    LoadCoreFault::Incompatible(match error {
        LibraryError::GetSymbolError { symbol, .. } => {
            format!("it has no symbol {}", String::from_utf8_lossy(symbol).trim_end_matches('\0'))
        }
        LibraryError::IncompatibleVersionNumber { expected_version, actual_version, .. } => {
            format!("its version is {actual_version}, the engine's {expected_version}")
        }
        LibraryError::AbiInstability(_) => "its functions or records have another layout".to_owned(),
        LibraryError::InvalidAbiHeader(_) | LibraryError::InvalidCAbi { .. } => {
            "it was built with another abi_stable or another compiler".to_owned()
        }
        other => {
            other.to_string().lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("").to_owned()
        }
    })
}

impl Core for LoadedCore {
    fn name(&self) -> &'static str {
        self.name
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn accepts(&self, key: &ProvingKey) -> Result<(), CoreError> {
        // SAFETY: the handle is from this module and live.
        match unsafe { self.opened.module.plan()(self.opened.handle, &view(key)) } {
            RResult::ROk(_) => Ok(()),
            RResult::RErr(fault) => Err(core_error(self.name, 0, fault)),
        }
    }

    /// A key that the core refuses is planned as larger than any device, so that no task for it is let in.
    fn plan(&self, key: &ProvingKey) -> Plan {
        self.keys.plan(key).unwrap_or_else(|| self.opened.plan(key))
    }

    fn load(&self, key: &Arc<ProvingKey>) -> Result<(), CoreError> {
        let load = |device| {
            let ready = self.keys.ready(&self.opened, device, key);
            self.opened.tell(self.name);
            ready.err().map(|fault| core_error(self.name, device, fault))
        };
        let errors: Vec<CoreError> = (0..self.devices.len()).filter_map(load).collect();
        let is_lost = |error: &CoreError| matches!(error, CoreError::DeviceLost { .. });
        errors.into_iter().min_by_key(is_lost).map_or(Ok(()), Err)
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

fn core_error(core: &'static str, device: usize, fault: Fault) -> CoreError {
    match fault.kind {
        FaultKind::OUT_OF_MEMORY if fault.bytes != 0 => {
            let what = format!("a task or a key on device {device} ({})", fault.message).into();
            CoreError::OutOfMemory { core, what, bytes: fault.bytes }
        }
        FaultKind::DEVICE_LOST => {
            CoreError::DeviceLost { core, device, message: fault.message.into_string() }
        }
        _ => CoreError::Device { core, device, message: fault.message.into_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_library_is_refused_with_its_name() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let error =
            LoadedCore::open("cuda", &file, &OpenOptions::default()).err().expect("it is a text file");
        assert!(matches!(error.fault, LoadCoreFault::Linker(_)), "{error}");
        assert!(error.to_string().contains("Cargo.toml"), "{error}");
    }
}
