//! The driver's functions: those that the CUDA core links to, and their neighbours. Signatures as in `cuda.h` of CUDA 13.
//!
//! Each has four parts: what is checked, what is done when there is no real driver, what is written down when it went
//! well, and its [class](crate::state::Class).

#![allow(non_snake_case, reason = "the driver's names")]

use crate::Status;
use crate::books::Kind;
use crate::memory::copy;
use crate::state::{INVALID_VALUE, State};

/// Writes a result where the caller wants it.
fn put<T>(place: *mut T, value: T) -> Status {
    if place.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: whoever calls a function of the driver gives a place for each result.
    unsafe { place.write(value) };
    0
}

/// What the caller's place holds: a result that was written there.
fn got<T: Copy>(place: *mut T) -> T {
    // SAFETY: as in `put`; only read once the call went well.
    unsafe { place.read() }
}

macro_rules! functions {
    ($($class:ident $name:ident($($argument:ident: $type:ty),*) {
        check $check:expr,
        do $act:expr,
        note $note:expr $(,)?
    })*) => {$(
        /// The driver's function of this name.
        ///
        /// # Safety
        /// As the driver says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> Status {
            // SAFETY: the type is the function's own.
            let real = unsafe { crate::forward::find::<unsafe extern "C" fn($($type),*) -> Status>(stringify!($name)) };
            let real = real.map(|real| {
                // SAFETY: the caller's.
                move || unsafe { real($($argument),*) }
            });
            crate::state::call((stringify!($name), crate::state::Class::$class), $check, real, $act, $note)
        }
    )*};
}

/// No check, nothing to do, nothing to note.
fn fine(_: &mut State) -> Status {
    0
}

fn nothing(_: &mut State) {}

fn made(state: &mut State, kind: Kind, handle: usize, bytes: usize) {
    let device = state.device();
    state.books.made(kind, handle, bytes as u64, device);
}

/// The first that is not 0.
fn first(checks: [Status; 2]) -> Status {
    if checks[0] != 0 { checks[0] } else { checks[1] }
}

fn copied(to: usize, from: usize, bytes: usize) -> Status {
    // SAFETY: the device's side was checked against the books; the host's side is the caller's.
    unsafe { copy(to, from, bytes) };
    0
}

mod devices;
mod memory;
mod work;
