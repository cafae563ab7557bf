//! Scalars that must not outlive their use.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{Ordering, compiler_fence};

use blstrs::Scalar;
use ff::Field;

/// A vector of scalars that is overwritten with zeros before its memory is freed.
///
/// Its length is fixed: a vector that grows leaves copies behind.
pub struct Secret(Vec<Scalar>);

impl Secret {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        Self(vec![Scalar::ZERO; len])
    }
}

impl From<Vec<Scalar>> for Secret {
    fn from(values: Vec<Scalar>) -> Self {
        Self(values)
    }
}

impl Deref for Secret {
    type Target = [Scalar];

    fn deref(&self) -> &[Scalar] {
        &self.0
    }
}

impl DerefMut for Secret {
    fn deref_mut(&mut self) -> &mut [Scalar] {
        &mut self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        for value in &mut self.0 {
            // SAFETY: `value` is valid and aligned, and a scalar has no destructor. Volatile, so that
            // the compiler does not drop the writes to memory that is about to be freed.
            unsafe { std::ptr::write_volatile(value, Scalar::ZERO) };
        }
        compiler_fence(Ordering::SeqCst);
    }
}
