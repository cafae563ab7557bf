//! The driver's functions: those that the CUDA core links to, and their neighbours. Signatures as in `cuda.h` of CUDA 13.
//!
//! Each has four parts: what is checked, what is done when there is no real driver, what is written down when it went
//! well, and its [`Class`].

#![allow(non_snake_case, reason = "the driver's names")]

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::Status;
use crate::books::Kind;
use crate::forward;
use crate::memory::{copy, fill};
use crate::state::{Class, INVALID_VALUE, NO_DEVICE, OUT_OF_MEMORY, State, call, current, set_current};

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
            let real = unsafe { forward::find::<unsafe extern "C" fn($($type),*) -> Status>(stringify!($name)) };
            let real = real.map(|real| {
                // SAFETY: the caller's.
                move || unsafe { real($($argument),*) }
            });
            call((stringify!($name), Class::$class), $check, real, $act, $note)
        }
    )*};
}

/// No check, nothing to do, nothing to note.
fn fine(_: &mut State) -> Status {
    0
}

fn nothing(_: &mut State) {}

/// A new stream, event or module.
fn make(state: &mut State, place: *mut usize) -> Status {
    let handle = state.new_handle();
    put(place, handle)
}

fn made(state: &mut State, kind: Kind, handle: usize, bytes: usize) {
    let device = state.device();
    state.books.made(kind, handle, bytes as u64, device);
}

/// Room for device memory, and where it is.
fn allocate_device(state: &mut State, place: *mut u64, bytes: usize) -> Status {
    let held = state.books.bytes(Kind::Device, Some(state.device()));
    if bytes == 0 {
        return INVALID_VALUE;
    }
    if held + bytes as u64 > state.steering.memory {
        return OUT_OF_MEMORY;
    }
    put(place, state.memory.allocate(bytes) as u64)
}

fn allocate_pinned(state: &mut State, place: *mut *mut c_void, bytes: usize) -> Status {
    if bytes == 0 {
        return INVALID_VALUE;
    }
    put(place, state.memory.allocate(bytes) as *mut c_void)
}

/// Checks of a copy to the device, on a stream.
fn check_upload(state: &mut State, name: &str, to: u64, from: *const c_void, bytes: usize) -> Status {
    match state.check_range(name, to, bytes as u64) {
        0 => state.check_host(name, from as usize, bytes as u64),
        status => status,
    }
}

fn check_download(state: &mut State, name: &str, to: *mut c_void, from: u64, bytes: usize) -> Status {
    check_upload(state, name, from, to, bytes)
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

fn filled<T: Copy>(to: u64, value: T, count: usize) -> Status {
    if !(to as usize).is_multiple_of(align_of::<T>()) {
        return INVALID_VALUE;
    }
    // SAFETY: checked against the books, and aligned.
    unsafe { fill(to as usize, value, count) };
    0
}

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

// Memory.
functions! {
    Work cuMemAlloc_v2(address: *mut u64, bytes: usize) {
        check |state: &mut State| state.check_current("cuMemAlloc_v2"),
        do |state: &mut State| allocate_device(state, address, bytes),
        note |state: &mut State| made(state, Kind::Device, got(address) as usize, bytes),
    }
    Always cuMemFree_v2(address: u64) {
        check |state: &mut State| state.give_back("cuMemFree_v2", Kind::Device, address as usize),
        do |state: &mut State| { state.memory.free(address as usize); 0 },
        note nothing,
    }
    Work cuMemAllocAsync(address: *mut u64, bytes: usize, stream: usize) {
        check |state: &mut State| state.check_stream("cuMemAllocAsync", stream),
        do |state: &mut State| allocate_device(state, address, bytes),
        note |state: &mut State| made(state, Kind::Device, got(address) as usize, bytes),
    }
    Always cuMemFreeAsync(address: u64, stream: usize) {
        check |state: &mut State| first([
            state.check_stream("cuMemFreeAsync", stream),
            state.give_back("cuMemFreeAsync", Kind::Device, address as usize),
        ]),
        do |state: &mut State| { state.memory.free(address as usize); 0 },
        note nothing,
    }
    Work cuMemAllocHost_v2(address: *mut *mut c_void, bytes: usize) {
        check |state: &mut State| state.check_current("cuMemAllocHost_v2"),
        do |state: &mut State| allocate_pinned(state, address, bytes),
        note |state: &mut State| made(state, Kind::Pinned, got(address) as usize, bytes),
    }
    Work cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        check |state: &mut State| state.check_current("cuMemHostAlloc"),
        do |state: &mut State| allocate_pinned(state, address, bytes),
        note |state: &mut State| made(state, Kind::Pinned, got(address) as usize, bytes),
    }
    Always cuMemFreeHost(address: *mut c_void) {
        check |state: &mut State| state.give_back("cuMemFreeHost", Kind::Pinned, address as usize),
        do |state: &mut State| { state.memory.free(address as usize); 0 },
        note nothing,
    }
    Work cuMemHostRegister_v2(address: *mut c_void, bytes: usize, _flags: c_uint) {
        check |state: &mut State| state.check_register("cuMemHostRegister_v2", address as usize, bytes),
        do fine,
        note |state: &mut State| made(state, Kind::Registered, address as usize, bytes),
    }
    Always cuMemHostUnregister(address: *mut c_void) {
        check |state: &mut State| state.give_back("cuMemHostUnregister", Kind::Registered, address as usize),
        do fine,
        note nothing,
    }
    Work cuMemHostGetDevicePointer_v2(address: *mut u64, host: *mut c_void, _flags: c_uint) {
        check fine,
        do |_: &mut State| put(address, host as u64),
        note nothing,
    }
}

// Copies and fills. Those without a stream wait for the device, as the null stream does.
functions! {
    Work cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) {
        check |state: &mut State| first([
            state.check_stream("cuMemcpyHtoD_v2", 0),
            check_upload(state, "cuMemcpyHtoD_v2", to, from, bytes),
        ]),
        do |_: &mut State| copied(to as usize, from as usize, bytes),
        note nothing,
    }
    Work cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) {
        check |state: &mut State| first([
            state.check_stream("cuMemcpyDtoH_v2", 0),
            check_download(state, "cuMemcpyDtoH_v2", to, from, bytes),
        ]),
        do |_: &mut State| copied(to as usize, from as usize, bytes),
        note nothing,
    }
    Work cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) {
        check |state: &mut State| first([
            state.check_range("cuMemcpyDtoD_v2", to, bytes as u64),
            state.check_range("cuMemcpyDtoD_v2", from, bytes as u64),
        ]),
        do |_: &mut State| copied(to as usize, from as usize, bytes),
        note nothing,
    }
    Work cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: usize) {
        check |state: &mut State| first([
            state.check_stream("cuMemcpyHtoDAsync_v2", stream),
            check_upload(state, "cuMemcpyHtoDAsync_v2", to, from, bytes),
        ]),
        do |_: &mut State| copied(to as usize, from as usize, bytes),
        note nothing,
    }
    Work cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: usize) {
        check |state: &mut State| first([
            state.check_stream("cuMemcpyDtoHAsync_v2", stream),
            check_download(state, "cuMemcpyDtoHAsync_v2", to, from, bytes),
        ]),
        do |_: &mut State| copied(to as usize, from as usize, bytes),
        note nothing,
    }
    Work cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) {
        check |state: &mut State| first([
            state.check_stream("cuMemcpyDtoDAsync_v2", stream),
            first([
                state.check_range("cuMemcpyDtoDAsync_v2", to, bytes as u64),
                state.check_range("cuMemcpyDtoDAsync_v2", from, bytes as u64),
            ]),
        ]),
        do |_: &mut State| copied(to as usize, from as usize, bytes),
        note nothing,
    }
    Work cuMemsetD8_v2(to: u64, value: u8, count: usize) {
        check |state: &mut State| first([
            state.check_stream("cuMemsetD8_v2", 0),
            state.check_range("cuMemsetD8_v2", to, count as u64),
        ]),
        do |_: &mut State| filled(to, value, count),
        note nothing,
    }
    Work cuMemsetD32_v2(to: u64, value: c_uint, count: usize) {
        check |state: &mut State| first([
            state.check_stream("cuMemsetD32_v2", 0),
            state.check_range("cuMemsetD32_v2", to, 4 * count as u64),
        ]),
        do |_: &mut State| filled(to, value, count),
        note nothing,
    }
    Work cuMemsetD8Async(to: u64, value: u8, count: usize, stream: usize) {
        check |state: &mut State| first([
            state.check_stream("cuMemsetD8Async", stream),
            state.check_range("cuMemsetD8Async", to, count as u64),
        ]),
        do |_: &mut State| filled(to, value, count),
        note nothing,
    }
    Work cuMemsetD32Async(to: u64, value: c_uint, count: usize, stream: usize) {
        check |state: &mut State| first([
            state.check_stream("cuMemsetD32Async", stream),
            state.check_range("cuMemsetD32Async", to, 4 * count as u64),
        ]),
        do |_: &mut State| filled(to, value, count),
        note nothing,
    }
}

// Streams and events.
functions! {
    Work cuStreamCreate(stream: *mut usize, _flags: c_uint) {
        check |state: &mut State| state.check_current("cuStreamCreate"),
        do |state: &mut State| make(state, stream),
        note |state: &mut State| made(state, Kind::Stream, got(stream), 0),
    }
    Work cuStreamCreateWithPriority(stream: *mut usize, _flags: c_uint, _priority: c_int) {
        check |state: &mut State| state.check_current("cuStreamCreateWithPriority"),
        do |state: &mut State| make(state, stream),
        note |state: &mut State| made(state, Kind::Stream, got(stream), 0),
    }
    Always cuStreamDestroy_v2(stream: usize) {
        check |state: &mut State| state.give_back("cuStreamDestroy_v2", Kind::Stream, stream),
        do fine,
        note nothing,
    }
    Always cuStreamSynchronize(stream: usize) {
        check |state: &mut State| state.check_stream("cuStreamSynchronize", stream),
        do fine,
        note nothing,
    }
    Work cuStreamQuery(stream: usize) {
        check |state: &mut State| state.check_stream("cuStreamQuery", stream),
        do fine,
        note nothing,
    }
    Work cuStreamWaitEvent(stream: usize, event: usize, _flags: c_uint) {
        check |state: &mut State| first([
            state.check_stream("cuStreamWaitEvent", stream),
            state.check("cuStreamWaitEvent", Kind::Event, event),
        ]),
        do fine,
        note nothing,
    }
    Work cuEventCreate(event: *mut usize, _flags: c_uint) {
        check |state: &mut State| state.check_current("cuEventCreate"),
        do |state: &mut State| make(state, event),
        note |state: &mut State| made(state, Kind::Event, got(event), 0),
    }
    Always cuEventDestroy_v2(event: usize) {
        check |state: &mut State| state.give_back("cuEventDestroy_v2", Kind::Event, event),
        do fine,
        note nothing,
    }
    Work cuEventRecord(event: usize, stream: usize) {
        check |state: &mut State| first([
            state.check_stream("cuEventRecord", stream),
            state.check("cuEventRecord", Kind::Event, event),
        ]),
        do fine,
        note nothing,
    }
    Work cuEventRecordWithFlags(event: usize, stream: usize, _flags: c_uint) {
        check |state: &mut State| first([
            state.check_stream("cuEventRecordWithFlags", stream),
            state.check("cuEventRecordWithFlags", Kind::Event, event),
        ]),
        do fine,
        note nothing,
    }
    Work cuEventQuery(event: usize) {
        check |state: &mut State| state.check("cuEventQuery", Kind::Event, event),
        do fine,
        note nothing,
    }
    Always cuEventSynchronize(event: usize) {
        check |state: &mut State| state.check("cuEventSynchronize", Kind::Event, event),
        do fine,
        note nothing,
    }
    Work cuEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize) {
        check |state: &mut State| first([
            state.check("cuEventElapsedTime", Kind::Event, start),
            state.check("cuEventElapsedTime", Kind::Event, end),
        ]),
        do |_: &mut State| put(milliseconds, 0.0),
        note nothing,
    }
    Work cuEventElapsedTime_v2(milliseconds: *mut f32, start: usize, end: usize) {
        check |state: &mut State| first([
            state.check("cuEventElapsedTime_v2", Kind::Event, start),
            state.check("cuEventElapsedTime_v2", Kind::Event, end),
        ]),
        do |_: &mut State| put(milliseconds, 0.0),
        note nothing,
    }
}

// Modules and kernels.
functions! {
    Work cuModuleLoadData(module: *mut usize, _image: *const c_void) {
        check |state: &mut State| state.check_current("cuModuleLoadData"),
        do |state: &mut State| make(state, module),
        note |state: &mut State| made(state, Kind::Module, got(module), 0),
    }
    Work cuModuleLoadDataEx(
        module: *mut usize, _image: *const c_void, _count: c_uint, _options: *mut c_int, _values: *mut *mut c_void
    ) {
        check |state: &mut State| state.check_current("cuModuleLoadDataEx"),
        do |state: &mut State| make(state, module),
        note |state: &mut State| made(state, Kind::Module, got(module), 0),
    }
    Work cuModuleLoadFatBinary(module: *mut usize, _image: *const c_void) {
        check |state: &mut State| state.check_current("cuModuleLoadFatBinary"),
        do |state: &mut State| make(state, module),
        note |state: &mut State| made(state, Kind::Module, got(module), 0),
    }
    Always cuModuleUnload(module: usize) {
        check |state: &mut State| state.give_back("cuModuleUnload", Kind::Module, module),
        do fine,
        note nothing,
    }
    Work cuModuleGetFunction(function: *mut usize, module: usize, _name: *const c_char) {
        check |state: &mut State| state.check("cuModuleGetFunction", Kind::Module, module),
        do |state: &mut State| make(state, function),
        note nothing,
    }
    Work cuFuncGetAttribute(value: *mut c_int, _which: c_int, _function: usize) {
        check fine,
        do |_: &mut State| put(value, 1024),
        note nothing,
    }
    Work cuFuncSetAttribute(_function: usize, _which: c_int, _value: c_int) {
        check fine,
        do fine,
        note nothing,
    }
    Work cuFuncSetCacheConfig(_function: usize, _config: c_int) {
        check fine,
        do fine,
        note nothing,
    }
    Work cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, _function: usize, _threads: c_int, _shared_bytes: usize
    ) {
        check fine,
        do |_: &mut State| put(blocks, 2),
        note nothing,
    }
    Work cuLaunchKernel(
        _function: usize, blocks_x: c_uint, blocks_y: c_uint, blocks_z: c_uint,
        threads_x: c_uint, threads_y: c_uint, threads_z: c_uint, _shared_bytes: c_uint,
        stream: usize, _arguments: *mut *mut c_void, _extra: *mut *mut c_void
    ) {
        check |state: &mut State| state.check_stream("cuLaunchKernel", stream),
        do |state: &mut State| {
            let sizes = [blocks_x, blocks_y, blocks_z, threads_x, threads_y, threads_z];
            let threads = u64::from(threads_x) * u64::from(threads_y) * u64::from(threads_z);
            if sizes.contains(&0) || threads > 1024 {
                state.books.violation(format!("cuLaunchKernel: a grid of {sizes:?}"));
                return INVALID_VALUE;
            }
            0
        },
        note nothing,
    }
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
