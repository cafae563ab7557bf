//! A sparse matrix in compressed sparse row form.

use blstrs::Scalar;
use ff::Field;

use super::Circuit;

/// A sparse matrix: for each row a run of (column, coefficient index) pairs.
///
/// Coefficients are indices into [`Circuit::coefficients`]: real circuits use few distinct ones,
/// so an entry takes 8 bytes instead of 36.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csr {
    row_starts: Vec<u32>,
    columns: Vec<u32>,
    coefficients: Vec<u32>,
}

impl Csr {
    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.row_starts.len() - 1
    }

    /// Number of stored entries.
    pub fn num_entries(&self) -> usize {
        self.columns.len()
    }

    /// Where each row starts in [`Csr::columns`]; one more entry than there are rows.
    pub fn row_starts(&self) -> &[u32] {
        &self.row_starts
    }

    /// The column of each entry, row after row.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// The coefficient index of each entry, row after row.
    pub fn coefficient_indices(&self) -> &[u32] {
        &self.coefficients
    }

    /// The (column, coefficient index) pairs of one row.
    ///
    /// # Panics
    /// When `row` is not below [`Csr::num_rows`].
    pub fn row(&self, row: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        let span = self.row_starts[row] as usize..self.row_starts[row + 1] as usize;
        let columns = self.columns[span.clone()].iter().copied();
        columns.zip(self.coefficients[span].iter().copied())
    }

    /// The same matrix with its columns renamed. `number` must keep different columns different.
    pub(crate) fn map_columns(mut self, number: impl Fn(u32) -> u32) -> Self {
        for column in &mut self.columns {
            *column = number(*column);
        }
        self
    }

    /// The product of one row with the assignment `z`.
    ///
    /// # Panics
    /// When `row`, a column or a coefficient index is out of range.
    pub fn row_dot(&self, row: usize, z: &[Scalar], coefficients: &[Scalar]) -> Scalar {
        let mut sum = Scalar::ZERO;
        for (column, coefficient) in self.row(row) {
            let value = &z[column as usize];
            match coefficient {
                Circuit::COEFF_ONE => sum += value,
                Circuit::COEFF_MINUS_ONE => sum -= value,
                other => sum += coefficients[other as usize] * value,
            }
        }
        sum
    }
}

/// Builds a [`Csr`] row by row.
#[derive(Clone, Debug)]
pub struct CsrBuilder(Csr);

impl Default for CsrBuilder {
    fn default() -> Self {
        Self::with_capacity(0, 0)
    }
}

impl CsrBuilder {
    /// An empty matrix with room for `rows` rows and `entries` entries.
    pub fn with_capacity(rows: usize, entries: usize) -> Self {
        let mut row_starts = Vec::with_capacity(rows + 1);
        row_starts.push(0);
        Self(Csr {
            row_starts,
            columns: Vec::with_capacity(entries),
            coefficients: Vec::with_capacity(entries),
        })
    }

    /// Adds an entry to the row being built.
    pub fn push(&mut self, column: u32, coefficient: u32) {
        self.0.columns.push(column);
        self.0.coefficients.push(coefficient);
    }

    /// Ends the row being built. Returns false when the matrix has outgrown its 32-bit offsets.
    #[must_use]
    pub fn end_row(&mut self) -> bool {
        let end = u32::try_from(self.0.columns.len());
        self.0.row_starts.push(end.unwrap_or(u32::MAX));
        end.is_ok()
    }

    /// The finished matrix, without spare room.
    pub fn finish(mut self) -> Csr {
        self.0.row_starts.shrink_to_fit();
        self.0.columns.shrink_to_fit();
        self.0.coefficients.shrink_to_fit();
        self.0
    }
}
