//! Vectors of a key that stay in host memory, pinned so that the device can copy from there by itself.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::driver;
use crate::notices::Notices;

/// A page of host memory: what is pinned is pinned by the page.
const PAGE: usize = 4096;

/// Memory that is worth a word when it cannot be pinned. Small vectors share pages with others, of which some may be
/// pinned already.
const WORTH_SAYING: usize = 1 << 20;

/// A vector in host memory that a key keeps in place.
#[derive(Clone, Copy, Debug)]
pub struct HostVector {
    address: usize,
    bytes: usize,
    /// Whether the device may copy from it by itself.
    pub pinned: bool,
}

impl HostVector {
    /// These values; `pinned` if they are.
    pub fn new<T: Copy>(values: &[T], pinned: bool) -> Self {
        Self { address: values.as_ptr().expose_provenance(), bytes: size_of_val(values), pinned }
    }

    /// Part of it.
    ///
    /// # Panics
    /// When the part is not within the vector.
    pub fn part(&self, offset: usize, bytes: usize) -> HostVector {
        assert!(offset + bytes <= self.bytes, "a part of a vector is within it");
        Self { address: self.address + offset, bytes, pinned: self.pinned }
    }

    /// Where it is.
    pub fn as_ptr(&self) -> *const u8 {
        std::ptr::with_exposed_provenance(self.address)
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The page-aligned ranges of host memory that are pinned, for all devices, and how many keys need each.
#[derive(Debug, Default)]
pub struct Registry(Mutex<BTreeMap<usize, (usize, usize)>>);

/// What a key has pinned; given back when it is dropped.
pub struct Pinned {
    registry: Arc<Registry>,
    ranges: Vec<Range<usize>>,
}

impl Registry {
    /// Pins vectors where the driver allows it, and says once if it does not.
    ///
    /// # Safety
    /// The vectors stay in place until the result is dropped, and a context is current in this thread; also when the
    /// result is dropped.
    pub unsafe fn pin(self: &Arc<Self>, slices: &[&[u8]], notices: &Notices) -> (Pinned, Vec<HostVector>) {
        let mut pinned = Pinned { registry: self.clone(), ranges: Vec::new() };
        for range in page_ranges(slices) {
            // SAFETY: the caller's.
            match unsafe { self.hold(&range) } {
                Ok(()) => pinned.ranges.push(range),
                Err(_) if range.len() < WORTH_SAYING => {}
                Err(reason) => notices.say_once("pin", || {
                    format!(
                        "{} bytes of the SRS could not be pinned ({reason}): they are copied through a pinned buffer, \
                         which is slower; allow more locked memory",
                        range.len()
                    )
                }),
            }
        }
        let within = |address: usize, bytes: usize| {
            pinned.ranges.iter().any(|range| range.start <= address && address + bytes <= range.end)
        };
        let vectors = slices.iter().map(|slice| {
            let (address, bytes) = (slice.as_ptr().expose_provenance(), slice.len());
            HostVector { address, bytes, pinned: bytes == 0 || within(address, bytes) }
        });
        let vectors = vectors.collect();
        (pinned, vectors)
    }

    /// # Safety
    /// See [`Registry::pin`].
    unsafe fn hold(&self, range: &Range<usize>) -> Result<(), String> {
        let mut held = self.0.lock();
        if let Some((end, holders)) = held.get_mut(&range.start)
            && *end == range.end
        {
            *holders += 1;
            return Ok(());
        }
        // SAFETY: the caller's: whole pages in which the vectors are.
        unsafe { driver::pin(range.start, range.len()) }.map_err(|fault| fault.to_string())?;
        held.insert(range.start, (range.end, 1));
        Ok(())
    }

    fn release(&self, range: &Range<usize>) {
        let mut held = self.0.lock();
        let Some((_, holders)) = held.get_mut(&range.start) else { return };
        *holders -= 1;
        if *holders == 0 {
            held.remove(&range.start);
            // SAFETY: pinned in `hold`, and nobody needs it any more. Should the driver refuse, the pages stay
            // pinned, which harms nobody.
            let _ = unsafe { driver::unpin(range.start) };
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        for range in &self.ranges {
            self.registry.release(range);
        }
    }
}

/// The pages on which the slices are: ranges that share a page become one, since a page is pinned once.
fn page_ranges(slices: &[&[u8]]) -> Vec<Range<usize>> {
    let pages = slices.iter().filter(|slice| !slice.is_empty()).map(|slice| {
        let start = slice.as_ptr().expose_provenance();
        start / PAGE * PAGE..(start + slice.len()).next_multiple_of(PAGE)
    });
    let mut pages: Vec<_> = pages.collect();
    pages.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in pages {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_on_the_same_page_are_pinned_together() {
        let memory = vec![0_u8; 16 * PAGE];
        let skip = memory.as_ptr().align_offset(PAGE);
        let aligned = &memory[skip..skip + 12 * PAGE];
        let start = aligned.as_ptr().expose_provenance();
        let range = |from: usize, to: usize| start + from * PAGE..start + to * PAGE;
        let one_page = [&aligned[10..20], &aligned[100..200]];
        assert_eq!(page_ranges(&one_page), [range(0, 1)]);
        let overlapping = [&aligned[5 * PAGE + 1..6 * PAGE + 1], &aligned[PAGE..5 * PAGE + 1]];
        assert_eq!(page_ranges(&overlapping), [range(1, 7)]);
        let apart = [&aligned[3 * PAGE..4 * PAGE], &aligned[..PAGE], &aligned[PAGE..2 * PAGE], &aligned[..0]];
        assert_eq!(page_ranges(&apart), [range(0, 1), range(1, 2), range(3, 4)]);
    }
}
