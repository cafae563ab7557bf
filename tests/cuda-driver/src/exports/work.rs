//! Streams, events, modules and kernels.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::{fine, first, got, made, nothing, put};
use crate::Status;
use crate::books::Kind;
use crate::state::{INVALID_VALUE, State};

/// A new stream, event or module.
fn make(state: &mut State, place: *mut usize) -> Status {
    let handle = state.new_handle();
    put(place, handle)
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
