//! A key on a device: matrices, points and tables, uploaded once and only read from then on.

use std::sync::Arc;

use cust::stream::Stream;
use cust::sys::CUdeviceptr;
use interlock_core_api::{BasisCode, CsrView, KeyView, PlanRecord};

use crate::arena::aligned;
use crate::driver::{self, Context};
use crate::fault::Fault;
use crate::gpu::{Block, Gpu};
use crate::host_field::Scalar;
use crate::launch;
use crate::plan::Shape;

/// Rows with more entries than this get a block of threads instead of one thread.
pub const LONG_ROW: u32 = 128;

/// The largest domain.
const MOST_LOG_DOMAIN: u32 = 27;

/// Logarithm of the larger of the two tables that hold powers.
const LOG_HIGH_POWERS: u32 = 15;

/// `csr_t` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CsrArgument {
    row_starts: CUdeviceptr,
    columns: CUdeviceptr,
    coefficients: CUdeviceptr,
}

/// A matrix on the device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Matrix {
    /// The matrix itself.
    pub csr: CsrArgument,
    /// The rows with more than [`LONG_ROW`] entries.
    pub long_rows: CUdeviceptr,
    /// How many.
    pub num_long_rows: u64,
}

/// `power_table_t` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PowerTable {
    high: CUdeviceptr,
    low: CUdeviceptr,
    split: u32,
}

/// Points of a query.
#[derive(Clone, Copy, Debug, Default)]
pub struct Points {
    /// Where they are.
    pub address: CUdeviceptr,
    /// How many.
    pub count: u64,
}

/// A key on a device.
pub struct Key {
    /// The device.
    pub gpu: Arc<Gpu>,
    /// Sizes.
    pub shape: Shape,
    /// What the `h` points mean.
    pub basis: BasisCode,
    /// Constraints, without the implied rows.
    pub rows: u32,
    /// Public inputs, the one included.
    pub inputs: u32,
    /// A, B, C; C is empty when the basis does not need it.
    pub matrices: [Matrix; 3],
    /// Distinct coefficients.
    pub coefficients: CUdeviceptr,
    /// Points.
    pub h: Points,
    /// Points.
    pub l: Points,
    /// Points.
    pub a: Points,
    /// Points.
    pub b_g1: Points,
    /// Points.
    pub b_g2: Points,
    /// Variable of each point of `a`.
    pub a_variables: CUdeviceptr,
    /// Variable of each point of `b_g1` and `b_g2`.
    pub b_variables: CUdeviceptr,
    /// Powers of the domain's root.
    pub roots: PowerTable,
    /// Powers of the coset's shift, each over the domain's size.
    pub shift: PowerTable,
    /// Powers of one over the shift, each times `factor`.
    pub unshift: PowerTable,
    /// One over (size of the domain times the vanishing polynomial on the coset).
    pub factor: CUdeviceptr,
    _memory: Block,
}

/// The sizes of a key.
///
/// # Errors
/// They contradict each other or are more than the kernels can number.
pub fn shape_of(key: &KeyView<'_>, multiprocessors: u64) -> Result<Shape, Fault> {
    let points = [key.h_points.len(), key.l_points.len(), key.a_points.len(), key.b_g1_points.len()];
    if key.log_domain > MOST_LOG_DOMAIN {
        return Err(Fault::Input(format!(
            "a domain of 2^{} is more than 2^{MOST_LOG_DOMAIN}",
            key.log_domain
        )));
    }
    let longest = points.iter().copied().max().unwrap_or(0) as u64;
    if longest.max(key.num_variables).max(key.num_inputs) > 1 << (MOST_LOG_DOMAIN + 1) {
        return Err(Fault::Input(format!("vectors of {longest} points and {} variables", key.num_variables)));
    }
    Ok(Shape {
        log_domain: key.log_domain,
        variables: key.num_variables,
        g1_points: longest,
        g2_points: key.b_g2_points.len() as u64,
        multiprocessors,
    })
}

/// What a task for a key of this shape needs.
pub fn plan_of(shape: &Shape) -> PlanRecord {
    PlanRecord {
        staged_bytes: shape.staged_bytes(),
        compute_extra: shape.compute_bytes(),
        host_bytes: 2 * crate::plan::SCALAR_BYTES * shape.variables + crate::plan::RESULT_BYTES,
    }
}

/// Everything the kernels take for granted. The engine's own readers see to it already; a kernel that
/// reads out of bounds would take all tasks of the device with it.
fn validate(key: &KeyView<'_>) -> Result<(), Fault> {
    let wrong = |what: &str| Err(Fault::Input(format!("the key is not consistent: {what}")));
    let rows = key.a.row_starts.len().wrapping_sub(1);
    for matrix in [&key.a, &key.b, &key.c] {
        let starts = matrix.row_starts.as_slice();
        let entries = matrix.columns.len();
        if starts.len().wrapping_sub(1) != rows || starts.first() != Some(&0) {
            return wrong("numbers of rows");
        }
        if !starts.is_sorted() || starts[rows] as usize != entries || matrix.coefficients.len() != entries {
            return wrong("row starts");
        }
        if matrix.columns.iter().any(|column| u64::from(*column) >= key.num_variables) {
            return wrong("a column past the last variable");
        }
        if matrix.coefficients.iter().any(|index| *index as usize >= key.coefficients.len()) {
            return wrong("a coefficient index past the table");
        }
    }
    let domain = 1_usize << key.log_domain;
    let inputs = key.num_inputs as usize;
    let h = if key.h_basis == BasisCode::MONOMIAL { domain - 1 } else { domain };
    if inputs == 0 || key.num_inputs > key.num_variables || rows + inputs > domain {
        return wrong("numbers of inputs, variables and constraints");
    }
    let lengths = [
        (key.h_points.len(), h),
        (key.l_points.len(), key.num_variables as usize - inputs),
        (key.a_points.len(), key.a_variables.len()),
        (key.b_g1_points.len(), key.b_variables.len()),
        (key.b_g2_points.len(), key.b_variables.len()),
    ];
    if lengths.iter().any(|(found, expected)| found != expected) {
        return wrong("lengths of the point vectors");
    }
    let variables = key.a_variables.iter().chain(key.b_variables.iter());
    if variables.into_iter().any(|variable| u64::from(*variable) >= key.num_variables) {
        return wrong("a query for a variable past the last");
    }
    if ![BasisCode::MONOMIAL, BasisCode::ODD_COSET].contains(&key.h_basis) {
        return wrong("an unknown basis of the h points");
    }
    Ok(())
}

/// Plans where vectors go, then copies them there.
#[derive(Default)]
struct Upload {
    bytes: u64,
    copies: Vec<(u64, *const u8, usize)>,
}

impl Upload {
    fn reserve(&mut self, bytes: u64) -> u64 {
        let offset = self.bytes;
        self.bytes += aligned(bytes.max(1));
        offset
    }

    fn add<T: Copy>(&mut self, values: &[T]) -> u64 {
        let offset = self.reserve(size_of_val(values) as u64);
        self.copies.push((offset, values.as_ptr().cast(), size_of_val(values)));
        offset
    }

    /// # Safety
    /// What was added is still there, and `base` has room for `self.bytes`.
    unsafe fn copy(&self, base: CUdeviceptr, stream: &Stream) -> Result<(), Fault> {
        for &(offset, source, bytes) in self.copies.iter().filter(|copy| copy.2 != 0) {
            // SAFETY: the caller's.
            unsafe { driver::upload(base + offset, source, bytes, stream, "upload the key")? };
        }
        stream.synchronize().context("upload the key")
    }
}

/// A matrix as offsets into the key's memory.
fn add_matrix(upload: &mut Upload, matrix: &CsrView<'_>, long_rows: &[u32]) -> Matrix {
    Matrix {
        csr: CsrArgument {
            row_starts: upload.add(matrix.row_starts.as_slice()),
            columns: upload.add(matrix.columns.as_slice()),
            coefficients: upload.add(matrix.coefficients.as_slice()),
        },
        long_rows: upload.add(long_rows),
        num_long_rows: long_rows.len() as u64,
    }
}

fn long_rows(matrix: &CsrView<'_>) -> Vec<u32> {
    let pairs = matrix.row_starts.as_slice().windows(2);
    let lengths = pairs.map(|pair| pair[1] - pair[0]).enumerate();
    lengths.filter(|(_, length)| *length > LONG_ROW).map(|(row, _)| row as u32).collect()
}

fn add_table(upload: &mut Upload, log_domain: u32) -> PowerTable {
    let split = log_domain.saturating_sub(LOG_HIGH_POWERS);
    PowerTable { high: upload.reserve(32 << (log_domain - split)), low: upload.reserve(32 << split), split }
}

impl Matrix {
    fn moved(&mut self, base: CUdeviceptr) {
        let CsrArgument { row_starts, columns, coefficients } = &mut self.csr;
        for address in [row_starts, columns, coefficients, &mut self.long_rows] {
            *address += base;
        }
    }
}

impl Key {
    /// Checks and uploads a key.
    ///
    /// # Errors
    /// It is not consistent, does not fit, or the driver refuses.
    pub fn load(gpu: Arc<Gpu>, view: &KeyView<'_>) -> Result<Self, Fault> {
        gpu.enter()?;
        validate(view)?;
        let shape = shape_of(view, gpu.multiprocessors)?;
        let mut upload = Upload::default();
        let long: [Vec<u32>; 3] = [&view.a, &view.b, &view.c].map(long_rows);
        let mut matrices = [Matrix::default(); 3];
        // On the odd coset c is a b: see `quotient`.
        let needed = if view.h_basis == BasisCode::MONOMIAL { 3 } else { 2 };
        for (index, matrix) in [&view.a, &view.b, &view.c].into_iter().enumerate().take(needed) {
            matrices[index] = add_matrix(&mut upload, matrix, &long[index]);
        }
        let coefficients = upload.add(view.coefficients.as_slice());
        let mut g1 = |points: &[_]| Points { address: upload.add(points), count: points.len() as u64 };
        let [h, l, a, b_g1] = [view.h_points, view.l_points, view.a_points, view.b_g1_points]
            .map(|points| g1(points.as_slice()));
        let b_g2 =
            Points { address: upload.add(view.b_g2_points.as_slice()), count: view.b_g2_points.len() as u64 };
        let a_variables = upload.add(view.a_variables.as_slice());
        let b_variables = upload.add(view.b_variables.as_slice());
        let tables = [(); 3].map(|()| add_table(&mut upload, view.log_domain));
        let numbers = Constants::of(view).in_order();
        let constants = upload.add(&numbers);

        let block = gpu.take_for_key(upload.bytes)?;
        let memory = block.address();
        let mut key = Self {
            gpu,
            shape,
            basis: view.h_basis,
            rows: (view.a.row_starts.len() - 1) as u32,
            inputs: view.num_inputs as u32,
            matrices,
            coefficients,
            h,
            l,
            a,
            b_g1,
            b_g2,
            a_variables,
            b_variables,
            roots: tables[0],
            shift: tables[1],
            unshift: tables[2],
            factor: constants + 32 * Constants::FACTOR,
            _memory: block,
        };
        key.move_to(memory);
        let stream = key.gpu.stream()?;
        // SAFETY: `view`, `long` and `numbers` outlive the copies, which end before this returns.
        unsafe { upload.copy(memory, &stream)? };
        key.make_tables(memory + constants, &stream)?;
        Ok(key)
    }

    /// Turns offsets into addresses.
    fn move_to(&mut self, base: CUdeviceptr) {
        self.matrices.iter_mut().for_each(|matrix| matrix.moved(base));
        for points in [&mut self.h, &mut self.l, &mut self.a, &mut self.b_g1, &mut self.b_g2] {
            points.address += base;
        }
        for table in [&mut self.roots, &mut self.shift, &mut self.unshift] {
            table.high += base;
            table.low += base;
        }
        for address in
            [&mut self.coefficients, &mut self.a_variables, &mut self.b_variables, &mut self.factor]
        {
            *address += base;
        }
    }

    fn make_tables(&self, constants: CUdeviceptr, stream: &Stream) -> Result<(), Fault> {
        let constant = |index: u64| constants + 32 * index;
        let log_domain = self.shape.log_domain;
        let tables = [
            (&self.roots, Constants::ROOT, Constants::ONE),
            (&self.shift, Constants::SHIFT, Constants::ONE_OVER_SIZE),
            (&self.unshift, Constants::UNSHIFT, Constants::FACTOR),
        ];
        for (table, base, scale) in tables {
            let parts = [
                (table.high, 1_u32 << (log_domain - table.split), table.split, scale),
                (table.low, 1_u32 << table.split, 0, Constants::ONE),
            ];
            for (out, count, log_step, scale) in parts {
                let (base, scale) = (constant(base), constant(scale));
                let grid = (u64::from(count.div_ceil(128)), 128, 0);
                // SAFETY: `void powers(fr_t*, uint32_t, uint32_t, const fr_t*, const fr_t*)`; the table has
                // room for `count` elements.
                unsafe { launch!(self.gpu.kernels.powers, stream, grid, out, count, log_step, base, scale)? };
            }
        }
        stream.synchronize().context("make tables of powers")
    }
}

/// The constants of a domain.
struct Constants {
    root: Scalar,
    shift: Scalar,
    unshift: Scalar,
    one_over_size: Scalar,
    factor: Scalar,
}

impl Constants {
    const ROOT: u64 = 0;
    const SHIFT: u64 = 1;
    const UNSHIFT: u64 = 2;
    const ONE: u64 = 3;
    const ONE_OVER_SIZE: u64 = 4;
    const FACTOR: u64 = 5;

    fn of(view: &KeyView<'_>) -> Self {
        let shift = Scalar::from_limbs(&view.shift);
        // t(x) = x^n - 1 has one value on the whole coset.
        let vanishing = shift.squared(view.log_domain).minus(&Scalar::from_integer(1));
        let one_over_size = Scalar::from_integer(1 << view.log_domain).inverse();
        Self {
            root: Scalar::from_limbs(&view.root),
            shift,
            unshift: shift.inverse(),
            one_over_size,
            factor: one_over_size.times(&vanishing.inverse()),
        }
    }

    fn in_order(&self) -> [[u64; 4]; 6] {
        let one = Scalar::from_integer(1);
        [self.root, self.shift, self.unshift, one, self.one_over_size, self.factor].map(|value| value.limbs())
    }
}
