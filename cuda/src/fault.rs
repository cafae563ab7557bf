//! Why something failed, before it crosses the boundary.

use std::ffi::c_int;

use interlock_core_api::{Fault as FaultRecord, FaultKind};

use crate::driver::OUT_OF_MEMORY;

/// `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: c_int = 100;

/// Errors after which the context is of no use: CUDA driver API, "CUresult", where it says that the process must be
/// terminated and relaunched, or that the device is gone.
const LOST: [c_int; 15] = [
    46,  // DEVICE_UNAVAILABLE
    101, // INVALID_DEVICE, of a device that was there
    201, // INVALID_CONTEXT
    214, // ECC_UNCORRECTABLE
    219, // NVLINK_UNCORRECTABLE
    700, // ILLEGAL_ADDRESS
    702, // LAUNCH_TIMEOUT
    709, // CONTEXT_IS_DESTROYED
    710, // ASSERT
    714, // HARDWARE_STACK_ERROR
    715, // ILLEGAL_INSTRUCTION
    716, // MISALIGNED_ADDRESS
    717, // INVALID_ADDRESS_SPACE
    718, // INVALID_PC
    719, // LAUNCH_FAILED
];

impl Fault {
    /// The driver's error `status`, met while doing `what`.
    pub fn driver(what: &'static str, status: c_int, text: String) -> Self {
        if LOST.contains(&status) {
            Self::Lost { what, status, text }
        } else {
            Self::Driver { what, status, text }
        }
    }
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The driver reported an error.
    #[error("{what}: {text} (CUDA error {status})")]
    Driver {
        /// What was being done.
        what: &'static str,
        /// The driver's number for it.
        status: c_int,
        /// The driver's words for it.
        text: String,
    },
    /// Device or pinned host memory could not be had.
    #[error("no {bytes} bytes for {what}: {reason}")]
    OutOfMemory {
        /// What the memory was for.
        what: &'static str,
        /// How much was asked for.
        bytes: u64,
        /// Why it could not be had.
        reason: String,
    },
    /// The device cannot be used any more: every later call for it fails.
    #[error("{what}: {text} (CUDA error {status}); the device cannot be used any more")]
    Lost {
        /// What was being done.
        what: &'static str,
        /// The driver's number for it.
        status: c_int,
        /// The driver's words for it.
        text: String,
    },
    /// There is no device.
    #[error("{0}")]
    NoDevice(String),
    /// A device could not be opened.
    #[error("device {ordinal}: {fault}")]
    Opening {
        /// The device, by its ordinal.
        ordinal: u32,
        /// Why.
        fault: Box<Fault>,
    },
    /// What was passed in makes no sense.
    #[error("{0}")]
    Input(String),
    /// A stage was called out of order.
    #[error("{stage} was called out of order")]
    Order {
        /// The stage.
        stage: &'static str,
    },
}

impl Fault {
    /// What it is about, and bytes that could not be had.
    fn kind(&self) -> (FaultKind, u64) {
        match self {
            Fault::Driver { status: OUT_OF_MEMORY, .. } => (FaultKind::OUT_OF_MEMORY, 0),
            Fault::Driver { .. } => (FaultKind::DEVICE, 0),
            Fault::OutOfMemory { bytes, .. } => (FaultKind::OUT_OF_MEMORY, *bytes),
            Fault::Lost { .. } => (FaultKind::DEVICE_LOST, 0),
            Fault::NoDevice(_) => (FaultKind::NO_DEVICE, 0),
            Fault::Input(_) => (FaultKind::INPUT, 0),
            Fault::Order { .. } => (FaultKind::ORDER, 0),
            Fault::Opening { fault, .. } => fault.kind(),
        }
    }
}

impl From<Fault> for FaultRecord {
    fn from(fault: Fault) -> Self {
        let (kind, bytes) = fault.kind();
        FaultRecord { kind, bytes, message: fault.to_string().into() }
    }
}
