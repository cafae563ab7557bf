//! The memory that a policy's process shares with the engine.
//!
//! All of it is atomics: the other process may write any of it at any time. The protocol is in this folder's README.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;

use super::wire::{ANSWER_WORDS, CALL_WORDS};

/// Calls that may be under way at once. A power of two, so that call numbers may wrap.
pub(super) const SLOTS: usize = 32;
/// Words for what does not fit a slot: devices, counters, why a start failed.
pub(super) const LONG_WORDS: usize = 8_192;
/// What every region begins with.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"ilckchan");

/// One call and its answer.
#[repr(C, align(64))]
pub(super) struct Slot {
    pub call: [AtomicU64; CALL_WORDS],
    /// Number of the call that the answer is to, and its [`ReplyStatus`](super::wire::ReplyStatus).
    pub heading: AtomicU64,
    pub answer: [AtomicU64; ANSWER_WORDS],
}

/// How far one side has come, on a cache line of its own.
#[repr(C, align(64))]
pub(super) struct Progress {
    /// Calls made, or calls answered, since the start.
    pub count: AtomicU32,
    /// Whether this side sleeps until the other side's count changes.
    pub sleeps: AtomicU32,
}

/// The shared memory.
#[repr(C, align(4096))]
pub(super) struct Region {
    magic: AtomicU64,
    /// Written by the engine: calls made.
    pub host: Progress,
    /// Written by the policy's process: calls answered.
    pub child: Progress,
    pub slots: [Slot; SLOTS],
    pub long: [AtomicU64; LONG_WORDS],
}

impl Region {
    /// The slot of a call.
    pub fn slot(&self, call: u32) -> &Slot {
        &self.slots[call as usize % SLOTS]
    }
}

impl Progress {
    /// Makes the count `count`, and wakes the other side if it says that it sleeps.
    pub fn advance(&self, count: u32, other: &Progress) {
        // Sequentially consistent, here and in `sleep`: of "count moved" and "the other sleeps" at least one side
        // sees the other's.
        self.count.store(count, Ordering::SeqCst);
        if other.sleeps.load(Ordering::SeqCst) != 0 {
            // Fails for no address that is mapped.
            let _ = futex::wake(&self.count, futex::Flags::empty(), 1);
        }
    }

    /// Sleeps until the other side's count is no longer `seen`, for `timeout` at the most. May return early.
    pub fn sleep(&self, other: &Progress, seen: u32, timeout: Option<std::time::Duration>) {
        self.sleeps.store(1, Ordering::SeqCst);
        if other.count.load(Ordering::SeqCst) == seen {
            let timeout = timeout.and_then(|timeout| futex::Timespec::try_from(timeout).ok());
            // Interrupted, timed out, changed meanwhile: the caller looks again in any case.
            let _ = futex::wait(&other.count, futex::Flags::empty(), seen, timeout.as_ref());
        }
        self.sleeps.store(0, Ordering::Relaxed);
    }
}

/// A region, mapped.
pub(super) struct MappedRegion(NonNull<Region>);

// SAFETY: the mapping belongs to the process, and a region is nothing but atomics.
unsafe impl Send for MappedRegion {}
// SAFETY: as above.
unsafe impl Sync for MappedRegion {}

impl MappedRegion {
    /// Makes a region, and the memory file that another process maps it from. The file's length is sealed: no
    /// access to the mapping can fault because the other side cut it off.
    pub fn create() -> io::Result<(Self, File)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let name = "interlock-channel";
        let memory = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            Err(Errno::INVAL) => memfd_create(name, flags)?,
            made => made?,
        };
        ftruncate(&memory, size_of::<Region>() as u64)?;
        fcntl_add_seals(&memory, length_seals())?;
        let file = File::from(memory);
        let region = Self::map(&file)?;
        region.magic.store(MAGIC, Ordering::Relaxed);
        Ok((region, file))
    }

    /// Maps the region in a file that [`MappedRegion::create`] made.
    pub fn open(file: &File) -> io::Result<Self> {
        let sealed = fcntl_get_seals(file)?.contains(length_seals());
        if !sealed || file.metadata()?.len() != size_of::<Region>() as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a channel"));
        }
        let region = Self::map(file)?;
        if region.magic.load(Ordering::Relaxed) != MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a channel"));
        }
        Ok(region)
    }

    fn map(file: &File) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // All pages now: later there might be none, and the access would fault.
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let address = unsafe { mmap(ptr::null_mut(), size_of::<Region>(), access, flags, file, 0)? };
        NonNull::new(address.cast()).map(Self).ok_or_else(|| io::Error::other("mapped at address zero"))
    }
}

fn length_seals() -> SealFlags {
    SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL
}

impl Deref for MappedRegion {
    type Target = Region;

    fn deref(&self) -> &Region {
        // SAFETY: mapped with a region's size at a page's start, until drop; the file cannot shrink; any
        // bytes make a region, and it is atomics throughout.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for MappedRegion {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this size; borrows of the region end before its owner.
        let unmapped = unsafe { munmap(self.0.as_ptr().cast(), size_of::<Region>()) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_one_mapping_writes_the_other_reads() {
        let (here, file) = MappedRegion::create().expect("memory files can be made");
        let there = MappedRegion::open(&file).expect("it is a channel");
        here.slot(33).call[2].store(7, Ordering::Relaxed);
        assert_eq!(there.slots[1].call[2].load(Ordering::Relaxed), 7);
    }

    #[test]
    fn the_file_cannot_be_cut_off() {
        let (_region, file) = MappedRegion::create().expect("memory files can be made");
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(1 << 30).is_err());
    }

    #[test]
    fn another_file_is_no_channel() {
        assert!(MappedRegion::open(&tempfile::tempfile().expect("a file")).is_err());
        let (region, file) = MappedRegion::create().expect("memory files can be made");
        region.magic.store(1, Ordering::Relaxed);
        assert!(MappedRegion::open(&file).is_err());
    }

    #[test]
    fn a_sleeper_is_woken_and_a_change_is_not_slept_over() {
        let (region, _file) = MappedRegion::create().expect("memory files can be made");
        let region = &*region;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while region.host.count.load(Ordering::SeqCst) == 0 {
                    region.child.sleep(&region.host, 0, None);
                }
            });
            region.host.advance(1, &region.child);
        });
        // The count has moved: it returns at once although nobody wakes it.
        region.child.sleep(&region.host, 0, None);
        region.child.sleep(&region.host, 1, Some(Duration::from_millis(1)));
    }
}
