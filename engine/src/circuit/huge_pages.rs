//! Large vectors on huge pages, where the system has them for those who ask.

use rustix::mm::{Advice, madvise};

/// The size of a huge page on x86-64, and on AArch64 with 4 KiB pages.
const HUGE_PAGE: usize = 2 << 20;

/// A vector with room for `capacity` elements, on huge pages as far as there are whole ones in it.
///
/// A witness of 128 MiB is 32,768 small pages, and their first touch takes longer than its values.
pub(super) fn with_capacity<T>(capacity: usize) -> Vec<T> {
    let mut values = Vec::with_capacity(capacity);
    let room = values.spare_capacity_mut();
    let (start, bytes) = (room.as_mut_ptr().cast::<u8>(), size_of_val(room));
    let skipped = start.align_offset(HUGE_PAGE).min(bytes);
    let advised = (bytes - skipped) / HUGE_PAGE * HUGE_PAGE;
    if advised > 0 {
        // SAFETY: the range lies within an allocation that is ours, and the advice leaves its contents as
        // they are.
        let answer = unsafe { madvise(start.add(skipped).cast(), advised, Advice::LinuxHugepage) };
        // A kernel without huge pages refuses. All it costs is time.
        tracing::trace!(?answer, advised, "huge pages");
    }
    values
}
