//! Devices, contexts, and words for errors.

use std::ffi::{c_char, c_int, c_uint};

use super::{copied, fine, first, got, nothing, put};
use crate::Status;
use crate::books::Kind;
use crate::forward;
use crate::state::{Class, INVALID_VALUE, NO_DEVICE, State, call, current, set_current};

const ATTRIBUTE_MULTIPROCESSORS: c_int = 16;
const ATTRIBUTE_MAJOR: c_int = 75;
const ATTRIBUTE_MINOR: c_int = 76;
const ATTRIBUTE_THREADS_PER_BLOCK: c_int = 1;
const ATTRIBUTE_SHARED_PER_BLOCK: [c_int; 3] = [8, 81, 97];

/// What the stand-in says of itself: a Hopper card, as far as anybody asks.
fn attribute(state: &State, which: c_int) -> c_int {
    match which {
        ATTRIBUTE_MULTIPROCESSORS => state.steering.multiprocessors,
        ATTRIBUTE_MAJOR => 9,
        ATTRIBUTE_MINOR => 0,
        ATTRIBUTE_THREADS_PER_BLOCK => 1024,
        which if ATTRIBUTE_SHARED_PER_BLOCK.contains(&which) => 227 << 10,
        _ => 1,
    }
}

fn name_device(place: *mut c_char, room: c_int, device: c_int) -> Status {
    let name = format!("stand-in {device}\0");
    if place.is_null() || (room as usize) < name.len() {
        return INVALID_VALUE;
    }
    copied(place as usize, name.as_ptr() as usize, name.len())
}

/// `GPU-00010203-0405-0607-0809-0a0b0c0d0e00` for device 0; the last byte is the ordinal.
fn uuid_of(device: c_int) -> [u8; 16] {
    std::array::from_fn(|place| if place < 15 { place as u8 } else { device as u8 })
}

// Devices and contexts.
functions! {
    Host cuInit(_flags: c_uint) {
        check fine,
        do |state: &mut State| if state.steering.devices == 0 { NO_DEVICE } else { 0 },
        note nothing,
    }
    Host cuDriverGetVersion(version: *mut c_int) {
        check fine,
        do |_: &mut State| put(version, 13_000),
        note nothing,
    }
    Host cuDeviceGetCount(count: *mut c_int) {
        check fine,
        do |state: &mut State| put(count, state.steering.devices),
        note nothing,
    }
    Host cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        check |state: &mut State| state.check_device(ordinal),
        do |_: &mut State| put(device, ordinal),
        note nothing,
    }
    Host cuDeviceGetName(name: *mut c_char, room: c_int, device: c_int) {
        check |state: &mut State| state.check_device(device),
        do |_: &mut State| name_device(name, room, device),
        note nothing,
    }
    Host cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        check |state: &mut State| state.check_device(device),
        do |_: &mut State| put(uuid, uuid_of(device)),
        note nothing,
    }
    Host cuDeviceGetAttribute(value: *mut c_int, which: c_int, device: c_int) {
        check |state: &mut State| state.check_device(device),
        do |state: &mut State| put(value, attribute(state, which)),
        note nothing,
    }
    Host cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        check |state: &mut State| state.check_device(device),
        do |state: &mut State| put(bytes, state.steering.memory as usize),
        note nothing,
    }
    Work cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) {
        check |state: &mut State| state.check_device(device),
        do |_: &mut State| put(context, 0x1000 + 16 * device as usize),
        note |state: &mut State| state.retained(device, got(context)),
    }
    Always cuDevicePrimaryCtxRelease_v2(device: c_int) {
        check |state: &mut State| state.check_device(device),
        do fine,
        note |state: &mut State| state.released(device),
    }
    Work cuDevicePrimaryCtxSetFlags_v2(device: c_int, _flags: c_uint) {
        check |state: &mut State| state.check_device(device),
        do fine,
        note nothing,
    }
    Work cuCtxGetCurrent(context: *mut usize) {
        check fine,
        do |_: &mut State| put(context, current()),
        note nothing,
    }
    Work cuCtxGetDevice(device: *mut c_int) {
        check |state: &mut State| state.check_current("cuCtxGetDevice"),
        do |state: &mut State| put(device, state.device()),
        note nothing,
    }
    Always cuCtxSynchronize() {
        check |state: &mut State| state.check_current("cuCtxSynchronize"),
        do fine,
        note nothing,
    }
    Work cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        check |state: &mut State| state.check_current("cuCtxGetStreamPriorityRange"),
        do |_: &mut State| first([put(least, 0), put(greatest, -5)]),
        note nothing,
    }
    Work cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        check |state: &mut State| state.check_current("cuMemGetInfo_v2"),
        do |state: &mut State| {
            let (memory, held) = (state.steering.memory, state.books.bytes(Kind::Device, Some(state.device())));
            first([put(free, memory.saturating_sub(held) as usize), put(total, memory as usize)])
        },
        note nothing,
    }
}

/// The driver's function of this name.
///
/// # Safety
/// As the driver says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCurrent(context: usize) -> Status {
    // Whether it fails is a matter of the context that is entered, not of the one that is left.
    let before = current();
    set_current(context);
    // SAFETY: the type is the function's own.
    let real = unsafe { forward::find::<unsafe extern "C" fn(usize) -> Status>("cuCtxSetCurrent") };
    let real = real.map(|real| {
        // SAFETY: the caller's.
        move || unsafe { real(context) }
    });
    let status = call(("cuCtxSetCurrent", Class::Work), fine, real, fine, nothing);
    if status != 0 {
        set_current(before);
    }
    status
}

// Words for errors.
functions! {
    Host cuGetErrorString(status: Status, text: *mut *const c_char) {
        check fine,
        do |_: &mut State| {
            let words = match status {
                0 => c"no error",
                2 => c"out of memory",
                100 => c"no CUDA-capable device is detected",
                719 => c"unspecified launch failure",
                _ => c"an error of the stand-in",
            };
            put(text, words.as_ptr())
        },
        note nothing,
    }
    Host cuGetErrorName(_status: Status, text: *mut *const c_char) {
        check fine,
        do |_: &mut State| put(text, c"CUDA_ERROR".as_ptr()),
        note nothing,
    }
}
