//! How vectors of a key get to the kernels: from where they are on the device, or streamed from host memory.
//!
//! A task that streams has two buffers, the ring. While kernels read one, the copy stream fills the other; events
//! keep the two streams in step, and the host runs ahead of both.
//!
//! ```text
//! copies:   | fill 0 | fill 1 |  (0 is free) fill 0 | (1 is free) fill 1 |
//! kernels:           | use 0        | use 1              | use 0           | ...
//! ```

use std::sync::Arc;

use cust::event::{Event, EventFlags};
use cust::stream::{Stream, StreamWaitEventFlags};
use cust::sys::CUdeviceptr;

use crate::arena::aligned;
use crate::driver::{self, Context};
use crate::fault::Fault;
use crate::gpu::{Gpu, HostBuffer};
use crate::key::{HostVector, Place};

/// Brings vectors of a key to kernels.
pub struct Feed<'a> {
    gpu: &'a Arc<Gpu>,
    copies: &'a Stream,
    kernels: &'a Stream,
    /// None for a key that is on the device.
    ring: Option<Ring>,
}

struct Ring {
    buffers: [Buffer; 2],
    bytes: u64,
    next: usize,
}

struct Buffer {
    address: CUdeviceptr,
    /// The kernels have read it.
    read: Option<Event>,
    /// Where what is not pinned is copied first, and when the copy stream has read that.
    pinned: Option<(HostBuffer, Event)>,
}

impl<'a> Feed<'a> {
    /// For kernels on `kernels`, with two chunks of `chunk_bytes` from `address` on if there are to be any.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn new(
        gpu: &'a Arc<Gpu>,
        copies: &'a Stream,
        kernels: &'a Stream,
        (address, chunk_bytes): (CUdeviceptr, u64),
    ) -> Result<Self, Fault> {
        let buffer = |index: u64| {
            // It is free once what is on the stream already is done.
            let read = Some(recorded(kernels)?);
            Ok(Buffer { address: address + index * chunk_bytes, read, pinned: None })
        };
        let ring = match chunk_bytes {
            0 => None,
            bytes => Some(Ring { buffers: [buffer(0)?, buffer(1)?], bytes, next: 0 }),
        };
        Ok(Self { gpu, copies, kernels, ring })
    }

    /// The stream of the kernels.
    pub fn stream(&self) -> &'a Stream {
        self.kernels
    }

    /// Where kernels that are launched next find the parts (offset and length in bytes) of these vectors. What is
    /// brought is there until [`Feed::done`] and the kernels launched before it.
    ///
    /// # Errors
    /// The parts do not fit into a chunk, or the driver refuses.
    pub fn bring<const N: usize>(
        &mut self,
        parts: [(Place, u64, u64); N],
    ) -> Result<[CUdeviceptr; N], Fault> {
        let mut end = 0;
        let mut addresses = [0; N];
        let mut copies = Vec::new();
        for (address, (place, offset, bytes)) in addresses.iter_mut().zip(parts) {
            match place {
                Place::Device(start) => *address = start + offset,
                Place::Host(vector) => {
                    *address = end;
                    copies.push((end, vector.part(offset as usize, bytes as usize)));
                    end += aligned(bytes);
                }
            }
        }
        if copies.is_empty() {
            return Ok(addresses);
        }
        let Some(ring) = &mut self.ring else { return Err(Fault::Input("a task without a ring".to_owned())) };
        if end > ring.bytes {
            let reason = "the plan gave too little".to_owned();
            return Err(Fault::OutOfMemory { what: "a chunk", bytes: end, reason });
        }
        let buffer = &mut ring.buffers[ring.next];
        if let Some(read) = buffer.read.take() {
            wait(self.copies, read)?;
        }
        for (offset, vector) in copies.into_iter().filter(|(_, vector)| vector.bytes() != 0) {
            buffer.copy(self.gpu, self.copies, offset, vector, ring.bytes)?;
        }
        if let Some((_, read)) = &buffer.pinned {
            read.record(self.copies).context("record an event")?;
        }
        wait(self.kernels, recorded(self.copies)?)?;
        for ((place, _, _), address) in parts.iter().zip(&mut addresses) {
            if matches!(place, Place::Host(_)) {
                *address += buffer.address;
            }
        }
        Ok(addresses)
    }

    /// All kernels that need what was brought last have been launched.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn done(&mut self) -> Result<(), Fault> {
        if let Some(ring) = &mut self.ring {
            ring.buffers[ring.next].read = Some(recorded(self.kernels)?);
            ring.next = 1 - ring.next;
        }
        Ok(())
    }

    /// Copies pinned memory to where kernels that were launched so far work, for those that are launched next.
    ///
    /// # Errors
    /// When the driver refuses.
    ///
    /// # Safety
    /// `from` stays as it is, and `to` has room, until the streams are done.
    pub unsafe fn replace(&mut self, to: CUdeviceptr, from: &[u64], what: &'static str) -> Result<(), Fault> {
        wait(self.copies, recorded(self.kernels)?)?;
        // SAFETY: the caller's.
        unsafe { driver::upload(to, from.as_ptr().cast(), size_of_val(from), self.copies, what)? };
        wait(self.kernels, recorded(self.copies)?)
    }
}

impl Drop for Feed<'_> {
    fn drop(&mut self) {
        let copied = |ring: &Ring| ring.buffers.iter().any(|buffer| buffer.pinned.is_some());
        if self.ring.as_ref().is_some_and(copied) {
            // After an error: the buffers go to other tasks.
            let _ = self.copies.synchronize();
        }
    }
}

impl Buffer {
    fn copy(
        &mut self,
        gpu: &Arc<Gpu>,
        copies: &Stream,
        offset: u64,
        vector: HostVector,
        chunk_bytes: u64,
    ) -> Result<(), Fault> {
        let mut from = vector.as_ptr();
        if !vector.pinned {
            let (pinned, read) = match &mut self.pinned {
                Some(pinned) => pinned,
                none => {
                    let read = Event::new(EventFlags::DISABLE_TIMING | EventFlags::BLOCKING_SYNC);
                    none.insert((gpu.host_buffer(chunk_bytes as usize / 8), read.context("make an event")?))
                }
            };
            // What it holds of the last chunk may still be on its way.
            read.synchronize().context("stream the key")?;
            // SAFETY: the part is within the buffer: the offset and its length are within the chunk.
            let to = unsafe { pinned.as_mut_slice().as_mut_ptr().cast::<u8>().add(offset as usize) };
            // SAFETY: the key keeps the vector in place; the two are apart.
            unsafe { std::ptr::copy_nonoverlapping(from, to, vector.bytes()) };
            from = to;
        }
        // SAFETY: key and buffer stay until the streams are done: whoever drops them waits.
        unsafe { driver::upload(self.address + offset, from, vector.bytes(), copies, "stream the key") }
    }
}

/// What is on the stream by now.
fn recorded(stream: &Stream) -> Result<Event, Fault> {
    let event = Event::new(EventFlags::DISABLE_TIMING).context("make an event")?;
    event.record(stream).context("record an event")?;
    Ok(event)
}

/// What is put on the stream from now on waits for the event.
fn wait(stream: &Stream, event: Event) -> Result<(), Fault> {
    stream.wait_event(event, StreamWaitEventFlags::DEFAULT).context("wait for an event")
}
