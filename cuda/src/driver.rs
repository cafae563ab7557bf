//! The functions of the driver that cust has no fitting wrapper for, and their status as a result.
//!
//! Declared here with a plain integer as status: cust's own declarations return an enum, which a newer driver's
//! error numbers do not fit into.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null;

use cust::device::Device;
use cust::error::CudaError;
use cust::stream::Stream;
use cust::sys::{CUdevice, CUdeviceptr, CUfunction, CUstream};

use crate::fault::Fault;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: c_int = 2;

unsafe extern "C" {
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> c_int;
    fn cuMemFree_v2(address: CUdeviceptr) -> c_int;
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int;
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) -> c_int;
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) -> c_int;
    fn cuStreamSynchronize(stream: CUstream) -> c_int;
    fn cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: c_uint) -> c_int;
    fn cuMemHostUnregister(address: *mut c_void) -> c_int;
    fn cuMemsetD32Async(address: CUdeviceptr, value: u32, count: usize, stream: CUstream) -> c_int;
    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> c_int;
    fn cuGetErrorString(status: c_int, text: *mut *const c_char) -> c_int;
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: CUdevice) -> c_int;
    fn cuFuncSetAttribute(function: CUfunction, attribute: c_int, value: c_int) -> c_int;
    #[allow(clippy::too_many_arguments, reason = "the driver's signature")]
    fn cuLaunchKernel(
        function: CUfunction,
        blocks_x: u32,
        blocks_y: u32,
        blocks_z: u32,
        threads_x: u32,
        threads_y: u32,
        threads_z: u32,
        shared_bytes: u32,
        stream: CUstream,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> c_int;
}

fn check(status: c_int, what: &'static str) -> Result<(), Fault> {
    if status == 0 { Ok(()) } else { Err(Fault::driver(what, status, describe(status))) }
}

fn describe(status: c_int) -> String {
    let mut text = null();
    // SAFETY: a valid place to write to; the driver's strings are constants.
    match unsafe { cuGetErrorString(status, &mut text) } {
        // SAFETY: the driver set it to one of its strings.
        0 if !text.is_null() => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        _ => "unknown to this driver".to_owned(),
    }
}

/// Names what was being done when cust returned an error.
pub trait Context<T> {
    /// `what`: a few words, as in "load the kernels".
    ///
    /// # Errors
    /// [`Fault::Driver`] when this is an error.
    fn context(self, what: &'static str) -> Result<T, Fault>;
}

impl<T> Context<T> for Result<T, CudaError> {
    fn context(self, what: &'static str) -> Result<T, Fault> {
        self.map_err(|error| {
            let status = error as c_int;
            Fault::driver(what, status, describe(status))
        })
    }
}

/// Allocates device memory. Never on a task's path: the driver may wait for the whole device.
///
/// # Errors
/// When it cannot be had.
pub fn allocate(bytes: u64, what: &'static str) -> Result<CUdeviceptr, Fault> {
    let mut address = 0;
    // SAFETY: a valid place to write to.
    let status = unsafe { cuMemAlloc_v2(&mut address, bytes.max(1) as usize) };
    if status == OUT_OF_MEMORY {
        let free = free_bytes().unwrap_or(0);
        return Err(Fault::OutOfMemory { what, bytes, reason: format!("the device has {free} bytes free") });
    }
    check(status, what).map(|()| address)
}

/// Frees device memory.
///
/// # Errors
/// The driver's, of this or of earlier work.
///
/// # Safety
/// `address` came out of [`allocate`], nothing uses it any more, and it is freed once.
pub unsafe fn free(address: CUdeviceptr) -> Result<(), Fault> {
    // SAFETY: the caller's.
    check(unsafe { cuMemFree_v2(address) }, "free memory")
}

/// Device bytes that nobody has allocated.
///
/// # Errors
/// The driver's.
pub fn free_bytes() -> Result<u64, Fault> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: two valid places to write to.
    check(unsafe { cuMemGetInfo_v2(&mut free, &mut total) }, "ask for free memory")?;
    Ok(free as u64)
}

/// A device's UUID, as NVIDIA's tools write it. The function's second version: it tells parts of a card (MIG) from the whole
/// card, which counts what others do on it too.
///
/// # Errors
/// The driver's.
pub fn uuid(device: CUdevice) -> Result<String, Fault> {
    let mut bytes = [0_u8; 16];
    // SAFETY: a valid place to write to.
    check(unsafe { cuDeviceGetUuid_v2(&mut bytes, device) }, "ask for the device's UUID")?;
    let mut text = "GPU".to_owned();
    let mut rest = &bytes[..];
    for group in [4, 2, 2, 2, 6] {
        let (group, after) = rest.split_at(group);
        text.push('-');
        text.extend(group.iter().map(|byte| format!("{byte:02x}")));
        rest = after;
    }
    Ok(text)
}

/// Pins host memory for all contexts, so that devices can copy from it by themselves.
///
/// # Errors
/// The driver's: no more memory may be locked, or some of it is pinned already.
///
/// # Safety
/// The memory is there until it is unpinned.
pub unsafe fn pin(address: usize, bytes: usize) -> Result<(), Fault> {
    const PORTABLE: c_uint = 1;
    let memory = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: the caller's.
    check(unsafe { cuMemHostRegister_v2(memory, bytes, PORTABLE) }, "pin host memory")
}

/// Lets go of what [`pin`] was given.
///
/// # Errors
/// The driver's.
///
/// # Safety
/// No copy from or to the memory is under way.
pub unsafe fn unpin(address: usize) -> Result<(), Fault> {
    // SAFETY: the caller's.
    check(unsafe { cuMemHostUnregister(std::ptr::with_exposed_provenance_mut(address)) }, "unpin host memory")
}

/// Waits for everything on a stream. Where most errors of kernels come up, hence not by cust, which knows fewer of them.
///
/// # Errors
/// The driver's, of anything on the stream.
pub fn synchronize(stream: &Stream, what: &'static str) -> Result<(), Fault> {
    // SAFETY: the handle is live.
    check(unsafe { cuStreamSynchronize(stream.as_inner()) }, what)
}

/// Puts a copy to the device on a stream.
///
/// # Errors
/// The driver's, of this or of earlier work.
///
/// # Safety
/// `bytes` bytes can be read at `from` and written at `to` until the stream is done.
pub unsafe fn upload(
    to: CUdeviceptr,
    from: *const u8,
    bytes: usize,
    stream: &Stream,
    what: &'static str,
) -> Result<(), Fault> {
    // SAFETY: the caller's.
    check(unsafe { cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, stream.as_inner()) }, what)
}

/// Puts a copy from the device on a stream.
///
/// # Errors
/// The driver's, of this or of earlier work.
///
/// # Safety
/// `bytes` bytes can be read at `from` and written at `to`, and nobody looks there, until the stream is done.
pub unsafe fn download(
    to: *mut u8,
    from: CUdeviceptr,
    bytes: usize,
    stream: &Stream,
    what: &'static str,
) -> Result<(), Fault> {
    // SAFETY: the caller's.
    check(unsafe { cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream.as_inner()) }, what)
}

/// Sets words to zero, on a stream.
///
/// # Errors
/// The driver's, of this or of earlier work.
///
/// # Safety
/// `words` words of 4 bytes can be written at `address` until the stream is done.
pub unsafe fn clear(address: CUdeviceptr, words: usize, stream: &Stream) -> Result<(), Fault> {
    // SAFETY: the caller's.
    check(unsafe { cuMemsetD32Async(address, 0, words, stream.as_inner()) }, "clear memory")
}

/// Bytes of shared memory that a block can have, where its kernel is allowed them.
///
/// # Errors
/// The driver's.
pub fn block_shared_bytes(device: Device) -> Result<u64, Fault> {
    const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;
    let mut bytes = 0;
    // SAFETY: a valid place to write to.
    let status =
        unsafe { cuDeviceGetAttribute(&mut bytes, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device.as_raw()) };
    check(status, "ask for shared memory")?;
    Ok(bytes.max(0) as u64)
}

/// Lets blocks of a kernel have so many bytes of shared memory, beside what the kernel itself declares.
///
/// # Errors
/// The driver's: multiprocessors have less.
///
/// # Safety
/// `function` is live.
pub unsafe fn allow_shared(function: CUfunction, bytes: u32, name: &'static str) -> Result<(), Fault> {
    const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
    // SAFETY: the caller's.
    check(unsafe { cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes as c_int) }, name)
}

/// Puts a kernel on a stream: a row of `blocks` blocks of `threads` threads.
///
/// # Errors
/// The driver's, of this or of earlier work.
///
/// # Safety
/// `function` is live, `arguments` point to values of the types of the kernel's parameters, in order, and what
/// the kernel reads and writes is valid until the stream is done.
pub unsafe fn launch(
    function: CUfunction,
    (blocks, threads, shared_bytes): (u32, u32, u32),
    stream: &Stream,
    arguments: &mut [*mut c_void],
    name: &'static str,
) -> Result<(), Fault> {
    let (stream, arguments, extra) =
        (stream.as_inner(), arguments.as_mut_ptr(), null::<*mut c_void>().cast_mut());
    // SAFETY: the caller's.
    let status = unsafe {
        cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, arguments, extra)
    };
    check(status, name)
}
