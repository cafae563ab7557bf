//! A key on a device: matrices, points and tables, made ready once and only read from then on.
//!
//! Points and matrices are either on the device or stay in the engine's memory, pinned, from where each task streams
//! them ([`crate::feed`]). Tables of powers, coefficients and the numbers of long rows are always on the device.

mod constants;
mod home;
mod host;
mod placement;
mod validate;

use std::sync::Arc;

use cust::stream::Stream;
use cust::sys::CUdeviceptr;
use interlock_core_api::{BasisCode, CsrView, KeyView};

use self::constants::Constants;
pub use self::home::{Room, shape_of};
use self::host::Pinned;
pub use self::host::{HostVector, Registry};
use self::placement::Placement;
pub use self::validate::validate;
use crate::driver;
use crate::fault::Fault;
use crate::gpu::{Block, Gpu};
use crate::launch;
use crate::plan::{Home, Shape, window_count};

/// Rows with more entries than this get a block of threads instead of one thread.
pub const LONG_ROW: u32 = 128;

/// Where a vector of a key is.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// On the device.
    Device(CUdeviceptr),
    /// In host memory.
    Host(HostVector),
}

/// A matrix.
pub struct Matrix {
    /// Where each row starts, and one more: `u32`.
    pub row_starts: Place,
    /// Variable of each entry: `u32`.
    pub columns: Place,
    /// Index of each entry's coefficient: `u32`.
    pub coefficients: Place,
    /// The rows with more than [`LONG_ROW`] entries, on the device: `u32`.
    pub long_rows: CUdeviceptr,
    /// The same rows.
    pub long: Vec<u32>,
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
#[derive(Clone, Copy, Debug)]
pub struct Points {
    /// Where they are.
    pub place: Place,
    /// How many.
    pub count: u64,
}

/// Everything that the kernels read of a key.
pub struct Contents {
    /// A, B, C; C is left out where the basis does not need it.
    pub matrices: Vec<Matrix>,
    /// Distinct coefficients.
    pub coefficients: CUdeviceptr,
    /// Points; those of a table of multiples follow, window by window.
    pub h: Points,
    /// Bits of these windows, if there is such a table.
    pub multiples: Option<u32>,
    /// Points.
    pub l: Points,
    /// Points.
    pub a: Points,
    /// Points.
    pub b_g1: Points,
    /// Points.
    pub b_g2: Points,
    /// Variable of each point of `a`.
    pub a_variables: Place,
    /// Variable of each point of `b_g1` and `b_g2`.
    pub b_variables: Place,
    /// Powers of the domain's root.
    pub roots: PowerTable,
    /// Powers of the coset's shift, each over the domain's size.
    pub shift: PowerTable,
    /// Powers of one over the shift.
    pub unshift: PowerTable,
    /// The [`Constants`].
    constants: CUdeviceptr,
}

/// A key that is ready on a device.
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
    /// What it holds.
    pub contents: Contents,
    pinned: Option<Pinned>,
    _memory: Block,
}

impl Contents {
    /// Puts everything in its place.
    fn place(view: &KeyView<'_>, long: &[Vec<u32>], numbers: &[[u64; 4]; 6], to: &mut Placement<'_>) -> Self {
        let matrices = matrices(view).zip(long).map(|(matrix, long)| Matrix {
            row_starts: to.vector(matrix.row_starts.as_slice()),
            columns: to.vector(matrix.columns.as_slice()),
            coefficients: to.vector(matrix.coefficients.as_slice()),
            long_rows: to.resident(long),
            long: long.clone(),
        });
        let matrices = matrices.collect();
        let (h, multiples) = to.with_multiples(view.h_points.as_slice());
        let mut g1 = |points: &[_]| Points { place: to.vector(points), count: points.len() as u64 };
        let h = Points { place: h, count: view.h_points.len() as u64 };
        let [l, a, b_g1] =
            [view.l_points, view.a_points, view.b_g1_points].map(|points| g1(points.as_slice()));
        let b_g2 = view.b_g2_points.as_slice();
        let tables = [(); 3].map(|()| {
            let split = to.power_split(view.log_domain);
            let high = to.reserve(32 << (view.log_domain - split));
            PowerTable { high, low: to.reserve(32 << split), split }
        });
        Self {
            matrices,
            coefficients: to.resident(view.coefficients.as_slice()),
            h,
            multiples,
            l,
            a,
            b_g1,
            b_g2: Points { place: to.vector(b_g2), count: b_g2.len() as u64 },
            a_variables: to.vector(view.a_variables.as_slice()),
            b_variables: to.vector(view.b_variables.as_slice()),
            roots: tables[0],
            shift: tables[1],
            unshift: tables[2],
            constants: to.resident(numbers),
        }
    }

    /// One over (size of the domain times the vanishing polynomial on the coset), not in Montgomery form.
    pub fn factor(&self) -> CUdeviceptr {
        self.constants + 32 * Constants::FACTOR
    }
}

/// The matrices that are needed. On the odd coset c is a b: see [`crate::quotient`].
fn matrices<'a>(view: &'a KeyView<'_>) -> impl Iterator<Item = &'a CsrView<'a>> {
    let needed = if view.h_basis == BasisCode::MONOMIAL { 3 } else { 2 };
    [&view.a, &view.b, &view.c].into_iter().take(needed)
}

fn long_rows(matrix: &CsrView<'_>) -> Vec<u32> {
    let pairs = matrix.row_starts.as_slice().windows(2);
    let lengths = pairs.map(|pair| pair[1].saturating_sub(pair[0])).enumerate();
    lengths.filter(|(_, length)| *length > LONG_ROW).map(|(row, _)| row as u32).collect()
}

impl Key {
    /// Checks a key and makes it ready.
    ///
    /// # Errors
    /// It is not consistent, does not fit, or the driver refuses.
    ///
    /// # Safety
    /// With a shape of [`Home::Host`], what `view` shows stays in place and unchanged until the key is dropped.
    pub unsafe fn load(
        gpu: Arc<Gpu>,
        registry: &Arc<Registry>,
        view: &KeyView<'_>,
        shape: Shape,
    ) -> Result<Self, Fault> {
        gpu.enter()?;
        let long: Vec<_> = matrices(view).map(long_rows).collect();
        let numbers = Constants::of(view).in_order();
        let (pinned, host) = match shape.home {
            Home::Device { .. } => (None, Vec::new()),
            Home::Host { .. } => {
                // SAFETY: the caller's; the context is current here, and `drop` enters it too.
                let (pinned, host) = unsafe { registry.pin(&placement::streamed(view), &gpu.notices) };
                (Some(pinned), host)
            }
        };
        let mut sizes = Placement::sizes(shape.home);
        Contents::place(view, &long, &numbers, &mut sizes);
        let memory = gpu.take_for_key(sizes.bytes())?;
        let mut placement = Placement::new(memory.address(), &host, shape.home);
        let contents = Contents::place(view, &long, &numbers, &mut placement);
        let key = Self {
            shape,
            basis: view.h_basis,
            rows: (view.a.row_starts.len() - 1) as u32,
            inputs: view.num_inputs as u32,
            contents,
            pinned,
            _memory: memory,
            gpu,
        };
        let stream = key.gpu.stream()?;
        // SAFETY: `view`, `long` and `numbers` outlive the copies, which end before this returns.
        let copied = unsafe { placement.copy(&key.gpu, &stream) };
        let made = copied.and_then(|()| key.make_tables(&stream)).and_then(|()| key.make_multiples(&stream));
        if made.is_err() {
            // What was launched still writes to the key's memory, which somebody else has as soon as this returns.
            let _ = stream.synchronize();
        }
        made?;
        let gpu = &key.gpu;
        gpu.keep_host_buffers(&[shape.variables as usize * 4, crate::plan::RESULT_BYTES as usize / 8]);
        Ok(key)
    }

    fn make_multiples(&self, stream: &Stream) -> Result<(), Fault> {
        let Points { place: Place::Device(table), count } = self.contents.h else { return Ok(()) };
        let Some(bits) = self.contents.multiples.filter(|_| count != 0) else { return Ok(()) };
        let (points, windows) = (count as u32, window_count(bits) as u32);
        let (kernel, grid) = (&self.gpu.kernels.multiples, (count.div_ceil(128), 128, 0));
        // SAFETY: `void multiples(fp_t*, uint32_t, uint32_t, uint32_t)`; the table has room for all windows.
        unsafe { launch!(kernel, stream, grid, table, points, bits, windows)? };
        driver::synchronize(stream, "make multiples of points")
    }

    fn make_tables(&self, stream: &Stream) -> Result<(), Fault> {
        let contents = &self.contents;
        let constant = |index: u64| contents.constants + 32 * index;
        let log_domain = self.shape.log_domain;
        let tables = [
            (&contents.roots, Constants::ROOT, Constants::ONE),
            (&contents.shift, Constants::SHIFT, Constants::ONE_OVER_SIZE),
            (&contents.unshift, Constants::UNSHIFT, Constants::ONE),
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
        driver::synchronize(stream, "make tables of powers")
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // Pages are let go in the context that pinned them; if it is lost, so are they.
        let _ = self.gpu.enter();
        self.pinned = None;
    }
}
