//! Arms: the ways to do the work that are compared.

use std::sync::Arc;

use interlock_arbiter::Limits;

use crate::core::Core;
use crate::host::PolicyLibrary;

/// One way to do the work.
#[derive(Clone)]
pub struct Arm {
    /// The policy with its options.
    pub policy: PolicyLibrary,
    /// Options as they were written; empty for the defaults.
    pub options: String,
    /// The core that proves. Arms may share one: only one of them runs at a time.
    pub core: Arc<dyn Core>,
    /// The core that takes over what that one failed at.
    pub fallback_core: Option<Arc<dyn Core>>,
    /// Device workers of each device.
    pub workers: u32,
    /// Bytes to which the devices were limited, where the arm says so.
    pub vram_limit: Option<u64>,
}

/// What is the same for all arms.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// Synthesis workers.
    pub synthesis_workers: u32,
    /// Whether each proof is verified.
    pub verify_proofs: bool,
    /// When a policy is taken out of the seat.
    pub limits: Limits,
}

/// The letter of an arm, by which conditions and reports name it: A is the one that the others are held against.
pub fn letter(arm: usize) -> String {
    char::from(b'A' + u8::try_from(arm).expect("there are at most 26 arms")).to_string()
}

/// The most arms an experiment has.
pub const MOST_ARMS: usize = 26;
