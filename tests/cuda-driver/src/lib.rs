//! A stand-in for the CUDA driver, for tests of the CUDA core on a machine without a card.
//!
//! Device memory is host memory. Copies and fills happen, at once; kernels do nothing. Everything that is made is
//! written down, and so is everything that makes no sense: a copy past the end of an allocation, a stream that is gone.
//! Calls fail when they are told to.
//!
//! # How it is loaded
//! The library calls itself `libcuda.so.1`. Once a process has opened it (or was started with it in `LD_PRELOAD`), the
//! dynamic linker takes it for the driver of whatever comes later.
//!
//! # How it is steered
//! With words, in the environment variable `INTERLOCK_TEST_DRIVER` or by [`interlock_test_driver_steer`]; see
//! [`Steering`]. `INTERLOCK_TEST_DRIVER_FORWARD` names a real driver (`/usr/lib/x86_64-linux-gnu/libcuda.so.1`): calls are
//! then passed on to it, and what is left is the books and the failures.
//!
//! # What it tells
//! [`interlock_test_driver_books`] gives the books as JSON.

mod books;
mod exports;
mod forward;
mod memory;
mod state;
mod steer;

use std::ffi::{CStr, CString, c_char, c_int};

pub use steer::{Failure, Steering, When};

/// What a function of the driver returns: 0, or the number of an error.
pub type Status = c_int;

/// Takes new steering words, and begins the counts of calls and failures afresh. What was lost is there again.
/// Returns 0, or 1 when a word is not understood.
///
/// # Safety
/// `words` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn interlock_test_driver_steer(words: *const c_char) -> Status {
    // SAFETY: the caller's.
    let words = unsafe { CStr::from_ptr(words) };
    match words.to_string_lossy().parse() {
        Ok(steering) => {
            state::lock().steer(steering);
            0
        }
        Err(error) => {
            eprintln!("test driver: {error}");
            1
        }
    }
}

/// The books as JSON; free it with [`interlock_test_driver_free`].
#[unsafe(no_mangle)]
pub extern "C" fn interlock_test_driver_books() -> *mut c_char {
    let text = state::lock().books.to_json();
    CString::new(text).map_or(std::ptr::null_mut(), CString::into_raw)
}

/// Frees what [`interlock_test_driver_books`] gave.
///
/// # Safety
/// It came from there, and is freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn interlock_test_driver_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller's.
        drop(unsafe { CString::from_raw(text) });
    }
}
