//! Host memory that stands for device memory and for pinned memory.

use std::collections::HashMap;

/// Allocations are whole pages, so that none shares a page with memory that is registered.
const PAGE: usize = 4096;

/// Memory by its address.
#[derive(Default)]
pub struct Memory(HashMap<usize, Vec<u64>>);

impl Memory {
    /// Memory of `bytes` bytes, zeroed: the system gives pages when they are touched.
    pub fn allocate(&mut self, bytes: usize) -> usize {
        let memory = vec![0_u64; (bytes.next_multiple_of(PAGE) + PAGE) / 8];
        let address = (memory.as_ptr() as usize).next_multiple_of(PAGE);
        self.0.insert(address, memory);
        address
    }

    /// Gives it back.
    pub fn free(&mut self, address: usize) {
        self.0.remove(&address);
    }
}

/// Copies, at once.
///
/// # Safety
/// `bytes` bytes can be read at `from` and written at `to`.
pub unsafe fn copy(to: usize, from: usize, bytes: usize) {
    // SAFETY: the caller's; the ranges may overlap.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
}

/// Fills, at once.
///
/// # Safety
/// `count` values can be written at `to`, which is aligned for them.
pub unsafe fn fill<T: Copy>(to: usize, value: T, count: usize) {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts_mut(to as *mut T, count) }.fill(value);
}
