//! Memory, copies and fills.

use std::ffi::{c_uint, c_void};

use super::{copied, fine, first, got, made, nothing, put};
use crate::Status;
use crate::books::Kind;
use crate::memory::fill;
use crate::state::{INVALID_VALUE, OUT_OF_MEMORY, State};

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

fn filled<T: Copy>(to: u64, value: T, count: usize) -> Status {
    if !(to as usize).is_multiple_of(align_of::<T>()) {
        return INVALID_VALUE;
    }
    // SAFETY: checked against the books, and aligned.
    unsafe { fill(to as usize, value, count) };
    0
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
