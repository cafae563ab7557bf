//! One device: its context, kernels, memory for tasks, and pinned host memory.

use std::sync::Arc;

use cust::CudaFlags;
use cust::context::{Context as CudaContext, ContextFlags, CurrentContext};
use cust::device::{Device, DeviceAttribute};
use cust::event::{Event, EventFlags};
use cust::memory::LockedBuffer;
use cust::stream::{Stream, StreamFlags};
use cust::sys::CUdeviceptr;
use interlock_core_api::{OpenOptions, Residency};
use parking_lot::Mutex;

use crate::arena::{ALIGNMENT, End, SharedArena};
use crate::driver::{self, Context};
use crate::fault::{Fault, NO_DEVICE};
use crate::kernels::{Kernels, Modules};
use crate::notices::Notices;

/// One device.
pub struct Gpu {
    /// Its kernels.
    pub kernels: Kernels,
    /// Multiprocessors it has.
    pub multiprocessors: u64,
    /// What people call it.
    pub name: String,
    /// As NVIDIA's tools write it; empty when the driver does not tell.
    pub uuid: String,
    /// Whether tasks measure the device time of their steps.
    pub measure: bool,
    /// Bytes for keys.
    pub keys_capacity: u64,
    /// What the operator should hear.
    pub notices: Arc<Notices>,
    tasks_at_once: usize,
    /// When the device was opened, by its own clock.
    pub opened: Event,
    /// From `base`.
    keys: SharedArena,
    /// From `base + keys_capacity`.
    tasks: SharedArena,
    base: CUdeviceptr,
    pinned: Mutex<Vec<LockedBuffer<u64>>>,
    // Fields are dropped in order: the context goes last.
    _modules: Modules,
    context: CudaContext,
}

// SAFETY: the context may be made current in any thread, and device addresses and modules belong to it.
unsafe impl Send for Gpu {}
// SAFETY: as above; what changes is behind mutexes.
unsafe impl Sync for Gpu {}

/// How many pinned buffers are kept for later tasks at least: a task has two, and keys differ in size.
const LEAST_KEPT_BUFFERS: usize = 16;

/// Device memory that is left to the driver and to others when there is no limit: contexts grow with use.
const MARGIN: u64 = 512 << 20;

/// What keys whose points and matrices are streamed take at least: tables of powers and coefficients.
const STREAMED_KEY_MEMORY: u64 = 16 << 20;

impl Gpu {
    /// Opens a device, and takes all the device memory that it will ever hold.
    ///
    /// # Errors
    /// There is no driver or no such device, or the memory cannot be had.
    pub fn open(ordinal: u32, options: &OpenOptions, notices: Arc<Notices>) -> Result<Self, Fault> {
        let device = find_device(ordinal)?;
        let context = CudaContext::new(device).context("make a context")?;
        // cust enters it, but does not look whether it could.
        CurrentContext::set_current(&context).context("enter the context")?;
        context.set_flags(ContextFlags::SCHED_BLOCKING_SYNC).context("configure the context")?;
        let modules = Modules::load()?;
        let kernels = Kernels::of(&modules, driver::block_shared_bytes(device)?)?;
        let multiprocessors =
            device.get_attribute(DeviceAttribute::MultiprocessorCount).context("ask for multiprocessors")?;
        let free = driver::free_bytes()?;
        let limit = match options.vram_limit {
            0 => free.saturating_sub(MARGIN),
            limit => limit,
        };
        let key_memory = key_memory(limit, options)?;
        let (keys, tasks) = (SharedArena::new(key_memory), SharedArena::new(limit - key_memory));
        let keys_capacity = keys.lock().capacity();
        let opened = Event::new(EventFlags::DEFAULT).context("make an event")?;
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).context("make a stream")?;
        opened.record(&stream).context("record an event")?;
        driver::synchronize(&stream, "open the device")?;
        // Equal cards have equal names.
        let name = format!("{} (device {ordinal})", device.name().context("ask for the device's name")?);
        // Tasks need none.
        let uuid = driver::uuid(device.as_raw()).unwrap_or_default();
        // Last: nothing that follows may fail, or it would not be freed.
        let base = driver::allocate(keys_capacity + tasks.lock().capacity(), "keys and tasks")?;
        Ok(Self {
            kernels,
            multiprocessors: multiprocessors as u64,
            name,
            uuid,
            measure: options.measure_steps,
            keys_capacity,
            keys,
            tasks,
            base,
            pinned: Mutex::new(Vec::new()),
            notices,
            tasks_at_once: options.tasks_at_once.max(1) as usize,
            opened,
            _modules: modules,
            context,
        })
    }

    /// Makes the device's context current in this thread: the first thing in every call from outside.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn enter(&self) -> Result<(), Fault> {
        CurrentContext::set_current(&self.context).context("enter the context")
    }

    /// Bytes that tasks may hold at once.
    pub fn capacity(&self) -> u64 {
        self.tasks.lock().capacity()
    }

    /// Bytes that tasks hold now, and the most at once so far.
    pub fn usage(&self) -> (u64, u64) {
        let arena = self.tasks.lock();
        (arena.held(), arena.peak())
    }

    /// A block for a task. No call of the driver is made; where there are bytes enough, but not side by side, it waits
    /// for a Compute to end.
    ///
    /// # Errors
    /// No gap is wide enough.
    pub fn take(self: &Arc<Self>, bytes: u64, end: End, what: &'static str) -> Result<Block, Fault> {
        self.take_from(Pool::Tasks, bytes, end, what)
    }

    /// A block for a key. No call of the driver is made.
    ///
    /// # Errors
    /// No gap is wide enough.
    pub fn take_for_key(self: &Arc<Self>, bytes: u64) -> Result<Block, Fault> {
        self.take_from(Pool::Keys, bytes, End::Low, "a key")
    }

    fn take_from(
        self: &Arc<Self>,
        pool: Pool,
        bytes: u64,
        end: End,
        what: &'static str,
    ) -> Result<Block, Fault> {
        let arena = self.arena(pool);
        let start = arena.take(bytes, end).map_err(|held| {
            let reason = format!("{held} of {} bytes are held", arena.lock().capacity());
            Fault::OutOfMemory { what, bytes, reason }
        })?;
        Ok(Block { gpu: self.clone(), pool, start })
    }

    fn arena(&self, pool: Pool) -> &SharedArena {
        match pool {
            Pool::Keys => &self.keys,
            Pool::Tasks => &self.tasks,
        }
    }

    /// A new stream, which waits for no other.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn stream(&self) -> Result<Stream, Fault> {
        Stream::new(StreamFlags::NON_BLOCKING, None).context("make a stream")
    }

    /// Host memory of `words` words for copies from and to the device: pinned, or, when that cannot be had, not.
    /// What is in it at first is not determined.
    pub fn host_buffer(self: &Arc<Self>, words: usize) -> HostBuffer {
        let memory = match self.take_pinned(words) {
            Ok(buffer) => HostMemory::Pinned(buffer),
            Err(error) => {
                self.notices.say_once("host memory", || {
                    let bytes = 8 * words;
                    format!("{bytes} bytes of pinned host memory could not be had ({error}): copies go from pageable memory, which is slower")
                });
                HostMemory::Pageable(vec![Page::ZERO; words.div_ceil(PAGE_WORDS)])
            }
        };
        HostBuffer { gpu: self.clone(), memory, words }
    }

    /// Makes host memory of these sizes ready for as many tasks as are expected at once, so that no task has to ask
    /// the driver for it.
    pub fn keep_host_buffers(self: &Arc<Self>, sizes: &[usize]) {
        let sizes = sizes.iter().flat_map(|words| std::iter::repeat_n(*words, self.tasks_at_once));
        // They are kept when they are dropped.
        drop(sizes.map(|words| self.host_buffer(words)).collect::<Vec<_>>());
    }

    fn take_pinned(&self, words: usize) -> Result<LockedBuffer<u64>, Fault> {
        let mut kept = self.pinned.lock();
        // One that is much too large is kept for who needs it.
        let fitting = kept.iter().position(|buffer| (words..=2 * words).contains(&buffer.len()));
        if let Some(index) = fitting {
            return Ok(kept.swap_remove(index));
        }
        drop(kept);
        // SAFETY: every bit pattern is a `u64`.
        unsafe { LockedBuffer::uninitialized(words) }.context("allocate pinned memory")
    }

    fn keep_pinned(&self, buffer: LockedBuffer<u64>) {
        let mut kept = self.pinned.lock();
        kept.push(buffer);
        if kept.len() > LEAST_KEPT_BUFFERS.max(4 * self.tasks_at_once) {
            kept.remove(0);
        }
    }
}

/// The device with this ordinal.
fn find_device(ordinal: u32) -> Result<Device, Fault> {
    let count = cust::init(CudaFlags::empty()).and_then(|()| Device::num_devices());
    let count = match count.context("start the CUDA driver") {
        Ok(0) => return Err(Fault::NoDevice("the driver knows of none".to_owned())),
        Err(Fault::Driver { status: NO_DEVICE, text, .. }) => return Err(Fault::NoDevice(text)),
        other => other?,
    };
    if ordinal >= count {
        return Err(Fault::Input(if count == 1 {
            "there is one, number 0".to_owned()
        } else {
            format!("there are {count}, counted from 0")
        }));
    }
    Device::get_device(ordinal).context("find the device")
}

/// Of `limit` bytes, those for keys.
fn key_memory(limit: u64, options: &OpenOptions) -> Result<u64, Fault> {
    let bytes = match (options.key_memory, options.residency) {
        (0, Residency::STREAMED) => {
            (limit / 64).clamp(STREAMED_KEY_MEMORY.min(limit / 4), 4 * STREAMED_KEY_MEMORY)
        }
        (0, _) => limit / 4,
        (bytes, _) => bytes,
    };
    if bytes >= limit {
        return Err(Fault::Input(format!(
            "key_memory of {bytes} bytes leaves tasks nothing of {limit} bytes"
        )));
    }
    Ok(bytes.next_multiple_of(ALIGNMENT).min(limit))
}

enum HostMemory {
    Pinned(LockedBuffer<u64>),
    Pageable(Vec<Page>),
}

/// Words of a page of host memory.
const PAGE_WORDS: usize = 512;

/// Pageable memory is taken by the page: the driver refuses to copy from memory of which only a part is pinned.
#[repr(C, align(4096))]
#[derive(Clone)]
struct Page([u64; PAGE_WORDS]);

impl Page {
    const ZERO: Self = Self([0; PAGE_WORDS]);

    fn words(pages: &[Self]) -> &[u64] {
        // SAFETY: pages are made of words, without padding.
        unsafe { std::slice::from_raw_parts(pages.as_ptr().cast(), PAGE_WORDS * pages.len()) }
    }

    fn words_mut(pages: &mut [Self]) -> &mut [u64] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), PAGE_WORDS * pages.len()) }
    }
}

/// Host memory for copies; kept for later tasks when it is dropped. Whoever holds it waits for the
/// streams that use it first.
pub struct HostBuffer {
    gpu: Arc<Gpu>,
    memory: HostMemory,
    words: usize,
}

impl HostBuffer {
    /// The words.
    pub fn as_slice(&self) -> &[u64] {
        match &self.memory {
            HostMemory::Pinned(buffer) => &buffer.as_slice()[..self.words],
            HostMemory::Pageable(pages) => &Page::words(pages)[..self.words],
        }
    }

    /// The words.
    pub fn as_mut_slice(&mut self) -> &mut [u64] {
        match &mut self.memory {
            HostMemory::Pinned(buffer) => &mut buffer.as_mut_slice()[..self.words],
            HostMemory::Pageable(pages) => &mut Page::words_mut(pages)[..self.words],
        }
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        let memory = std::mem::replace(&mut self.memory, HostMemory::Pageable(Vec::new()));
        if let HostMemory::Pinned(buffer) = memory {
            self.gpu.keep_pinned(buffer);
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.enter().is_ok() {
            self.pinned.get_mut().clear();
            // SAFETY: allocated in `open`, freed once; blocks keep the `Gpu` alive.
            let _ = unsafe { driver::free(self.base) };
        }
    }
}

/// Whom a block is for.
#[derive(Clone, Copy)]
enum Pool {
    Keys,
    Tasks,
}

/// A block of a device's memory; given back when it is dropped. Whoever holds it waits for the streams that use
/// it first.
pub struct Block {
    gpu: Arc<Gpu>,
    pool: Pool,
    start: u64,
}

impl Block {
    /// Its address.
    pub fn address(&self) -> CUdeviceptr {
        let start = match self.pool {
            Pool::Keys => 0,
            Pool::Tasks => self.gpu.keys_capacity,
        };
        self.gpu.base + start + self.start
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.gpu.arena(self.pool).give_back(self.start);
    }
}
