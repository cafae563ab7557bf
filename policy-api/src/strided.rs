//! A borrowed array of records that may have grown since the reader was built.

use core::marker::PhantomData;

/// A borrowed array whose elements may be longer than `T`: a newer host appends fields to a record,
/// an older policy reads the fields it knows and steps over the rest.
#[repr(C)]
#[derive(Debug)]
pub struct Strided<'a, T> {
    first: *const T,
    len: u32,
    stride: u32,
    borrow: PhantomData<&'a [T]>,
}

// Derived, these would ask for `T: Clone`, which a borrow does not need.
impl<T> Clone for Strided<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Strided<'_, T> {}

impl<'a, T> Strided<'a, T> {
    /// Borrows a slice.
    ///
    /// # Panics
    /// When the slice has more than `u32::MAX` elements.
    pub fn new(records: &'a [T]) -> Self {
        let len = u32::try_from(records.len()).expect("more records than a u32 counts");
        Self { first: records.as_ptr(), len, stride: size_of::<T>() as u32, borrow: PhantomData }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The record at `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&'a T> {
        if index >= self.len() {
            return None;
        }
        // SAFETY: `index` is in bounds, and `new`, the only constructor, took pointer, length and
        // stride from a slice that outlives 'a. A newer host's records begin with the fields of `T`.
        Some(unsafe { &*self.first.byte_add(index * self.stride as usize) })
    }

    /// The records, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a T> + use<'a, T> {
        let records = *self;
        (0..self.len()).filter_map(move |index| records.get(index))
    }
}

// `Strided` is what its PhantomData says it is, a shared borrow of records.
// SAFETY: shared borrows of `T` may be sent to other threads when `T` is `Sync`.
unsafe impl<T: Sync> Send for Strided<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Strided<'_, T> {}
