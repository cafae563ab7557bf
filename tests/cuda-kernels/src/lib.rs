//! Kernels of the CUDA core, compiled for the processor: the threads of a block take turns, and fields are blst's.
//!
//! What is tested is what a kernel does with which element, and when. How it multiplies, what threads do that really run side by
//! side, and what the card's memory makes of it, only a card shows.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub mod ntt;
pub mod sort;
pub mod sums;

/// Set in an entry that takes its point with the other sign.
pub const NEGATED: u32 = 1 << 31;

/// Set in an entry that is the first of its bucket.
pub const FIRST: u32 = 1 << 30;

/// Held while kernels run: blocks have one shared memory for all of them.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
