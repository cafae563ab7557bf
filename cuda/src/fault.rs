//! Why something failed, before it crosses the boundary.

use std::ffi::c_int;

use interlock_core_api::{Fault as FaultRecord, FaultKind};

use crate::driver::OUT_OF_MEMORY;

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

impl From<Fault> for FaultRecord {
    fn from(fault: Fault) -> Self {
        let (kind, bytes) = match &fault {
            Fault::Driver { status: OUT_OF_MEMORY, .. } => (FaultKind::OUT_OF_MEMORY, 0),
            Fault::Driver { .. } => (FaultKind::DEVICE, 0),
            Fault::OutOfMemory { bytes, .. } => (FaultKind::OUT_OF_MEMORY, *bytes),
            Fault::Input(_) => (FaultKind::INPUT, 0),
            Fault::Order { .. } => (FaultKind::ORDER, 0),
        };
        FaultRecord { kind, bytes, message: fault.to_string().into() }
    }
}
