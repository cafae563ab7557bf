//! Rows of a sparse matrix times the witness, or times the part of it that is on the device.

use std::ops::Range;

use cust::sys::CUdeviceptr;

use crate::fault::Fault;
use crate::feed::Feed;
use crate::key::{HostVector, Key, LONG_ROW, Matrix, Place};
use crate::launch;
use crate::plan::matrix_chunk_bytes;
use crate::quotient::{THREADS, Vector, blocks};

/// `columns_t` of the kernels: the part of an assignment that is there.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// Where variable 0 is, or would be.
    pub z: CUdeviceptr,
    /// The first variable that is there.
    pub first: u32,
    /// One more than the last.
    pub end: u32,
}

/// What becomes of a value and an element: `store_t` of the kernels.
#[derive(Clone, Copy, Debug)]
pub enum Store {
    /// The value is the element.
    Set = 0,
    /// It is added to the element.
    Add = 1,
    /// The element is multiplied by it.
    Multiply = 2,
    /// It is subtracted from the element.
    Subtract = 3,
}

/// `csr_t` of the kernels: addresses of what entry 0 has, or would have.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct CsrArgument {
    row_starts: CUdeviceptr,
    columns: CUdeviceptr,
    coefficients: CUdeviceptr,
}

/// A product.
pub struct Product<'a> {
    /// The key.
    pub key: &'a Key,
    /// Its matrix.
    pub matrix: &'a Matrix,
    /// Where rows go.
    pub out: Vector,
    /// What the matrix is multiplied by.
    pub columns: Columns,
    /// What becomes of it.
    pub store: Store,
}

impl Product<'_> {
    /// Puts some rows of the product on the stream.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn run(&self, rows: Range<u32>, feed: &mut Feed<'_>) -> Result<(), Fault> {
        match self.matrix.row_starts {
            Place::Device(row_starts) => {
                let (Place::Device(columns), Place::Device(coefficients)) =
                    (self.matrix.columns, self.matrix.coefficients)
                else {
                    return Err(Fault::Input("a matrix in two places".to_owned()));
                };
                let row_starts = row_starts + 4 * u64::from(rows.start);
                self.launch(rows, CsrArgument { row_starts, columns, coefficients }, feed)
            }
            Place::Host(starts) => self.stream(rows, &starts, feed),
        }
    }

    /// Chunk by chunk, each of as many rows as fit.
    fn stream(&self, rows: Range<u32>, starts: &HostVector, feed: &mut Feed<'_>) -> Result<(), Fault> {
        // SAFETY: the key keeps the vector in place, and it is made of `u32`.
        let starts: &[u32] =
            unsafe { std::slice::from_raw_parts(starts.as_ptr().cast(), starts.bytes() / 4) };
        let room = self.key.shape.chunk_bytes();
        let mut begin = rows.start;
        while begin < rows.end {
            let first = starts[begin as usize];
            let fits = |end: u32| {
                let entries = u64::from(starts[end as usize] - first);
                matrix_chunk_bytes(u64::from(end - begin), entries) <= room
            };
            let end = last_where(begin..rows.end, fits);
            if end == begin {
                return Err(Fault::Input("a row longer than the key's longest".to_owned()));
            }
            let last = starts[end as usize];
            let entries = (4 * u64::from(first), 4 * u64::from(last - first));
            let [row_starts, columns, coefficients] = feed.bring([
                (self.matrix.row_starts, 4 * u64::from(begin), 4 * u64::from(end - begin + 1)),
                (self.matrix.columns, entries.0, entries.1),
                (self.matrix.coefficients, entries.0, entries.1),
            ])?;
            let [columns, coefficients] =
                [columns, coefficients].map(|address| address.wrapping_sub(entries.0));
            self.launch(begin..end, CsrArgument { row_starts, columns, coefficients }, feed)?;
            feed.done()?;
            begin = end;
        }
        Ok(())
    }

    /// Rows whose starts are at the matrix's address.
    fn launch(&self, rows: Range<u32>, matrix: CsrArgument, feed: &Feed<'_>) -> Result<(), Fault> {
        let (kernels, table) = (&self.key.gpu.kernels, self.key.contents.coefficients);
        let (first, count, long_row, store) =
            (rows.start, rows.end - rows.start, LONG_ROW, self.store as u32);
        let (out, columns) = (self.out, self.columns);
        if count == 0 {
            return Ok(());
        }
        let grid = blocks(count);
        // SAFETY: `void spmv(vector_t, uint32_t, uint32_t, uint32_t, uint32_t, csr_t, const fr_t*, columns_t)`; the key
        // was validated, `z` and `out` are vectors of the task.
        unsafe {
            launch!(
                kernels.spmv,
                feed.stream(),
                grid,
                out,
                first,
                count,
                long_row,
                store,
                matrix,
                table,
                columns
            )?;
        }
        let long = &self.matrix.long;
        let (from, to) =
            (long.partition_point(|row| *row < rows.start), long.partition_point(|row| *row < rows.end));
        if from == to {
            return Ok(());
        }
        let (long_rows, grid) =
            (self.matrix.long_rows + 4 * from as u64, ((to - from) as u64, THREADS, THREADS * 32));
        // SAFETY: `void spmv_long(vector_t, const uint32_t*, uint32_t, uint32_t, csr_t, const fr_t*, columns_t)`, as
        // above.
        unsafe {
            launch!(
                kernels.spmv_long,
                feed.stream(),
                grid,
                out,
                long_rows,
                first,
                store,
                matrix,
                table,
                columns
            )
        }
    }
}

/// The last `end` in a range, its end included, for which something holds that holds for no later one once it has
/// failed; the start if it holds for none.
fn last_where(range: Range<u32>, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if holds(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_is_found_wherever_it_is() {
        for end in 0..9 {
            for last in 0..=end {
                assert_eq!(last_where(0..end, |at| at <= last), last);
            }
        }
        assert_eq!(last_where(3..7, |_| false), 3);
    }
}
