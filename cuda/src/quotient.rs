//! The scalars of the `h` query, made on the card from the witness alone.
//!
//! With `z` the assignment: a = A z, b = B z, c = C z over the domain, two vectors at a time.
//! Symbols as in Groth16 (eprint 2016/260, section 3.2): h = (a b - c) / t.

use cust::stream::Stream;
use cust::sys::CUdeviceptr;
use interlock_core_api::BasisCode;

use crate::fault::Fault;
use crate::gpu::Kernel;
use crate::key::{Key, LONG_ROW, Matrix, PowerTable};
use crate::launch;
use crate::plan::{NttPass, ntt_passes};

/// `ntt_pass_t` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct NttArgument {
    roots: PowerTable,
    log_n: u32,
    low_bits: u32,
    bits: u32,
    log_columns: u32,
    inverse: u32,
}

/// Works on a stream with two vectors over the domain.
pub struct Quotient<'a> {
    /// The key.
    pub key: &'a Key,
    /// The stream.
    pub stream: &'a Stream,
    /// The assignment, in Montgomery form.
    pub z: CUdeviceptr,
    /// A vector; the scalars end up here.
    pub a: CUdeviceptr,
    /// A vector.
    pub b: CUdeviceptr,
    /// `[u32; 2]`: wide scalars of the witness, and of the quotient. Zeroed.
    pub wide: CUdeviceptr,
}

/// Threads of a block, for kernels with a thread for each element.
const THREADS: u32 = 256;

impl Quotient<'_> {
    /// Everything up to and including the scalars in canonical form: those of the witness, in place, and those
    /// of `h`, in `a`. Puts the work on the stream and returns.
    ///
    /// # Errors
    /// When the driver refuses a launch.
    pub fn run(&self) -> Result<(), Fault> {
        let [matrix_a, matrix_b, matrix_c] = &self.key.matrices;
        self.product(matrix_a, self.key.inputs, self.a, false)?;
        self.to_coset(self.a)?;
        self.product(matrix_b, 0, self.b, false)?;
        self.to_coset(self.b)?;
        self.pointwise(&self.key.gpu.kernels.multiply)?;
        if self.key.basis == BasisCode::MONOMIAL {
            // On the coset t is a constant, and c need not go there: modulo X^n - g^n, h t = a b - c.
            self.product(matrix_c, 0, self.b, false)?;
            self.canonical(self.z, self.key.shape.variables, 0)?;
            self.inverse(self.b)?;
            self.inverse(self.a)?;
            self.coefficients()?;
        } else {
            // As snarkjs has it, c is a b on the domain.
            self.product(matrix_a, self.key.inputs, self.b, false)?;
            self.product(matrix_b, 0, self.b, true)?;
            self.canonical(self.z, self.key.shape.variables, 0)?;
            self.to_coset(self.b)?;
            self.pointwise(&self.key.gpu.kernels.subtract)?;
        }
        self.canonical(self.a, 1 << self.key.shape.log_domain, 1)
    }

    /// `out = matrix z`, or `out *= matrix z`.
    fn product(&self, matrix: &Matrix, inputs: u32, out: CUdeviceptr, multiply: bool) -> Result<(), Fault> {
        let kernels = &self.key.gpu.kernels;
        let (domain, rows, long_row) = (1_u32 << self.key.shape.log_domain, self.key.rows, LONG_ROW);
        let (csr, table, z, multiply) = (matrix.csr, self.key.coefficients, self.z, u32::from(multiply));
        let grid = blocks(domain);
        // SAFETY: `void spmv(fr_t*, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, csr_t, const fr_t*,
        // const fr_t*)`; the key was validated, `z` and `out` are vectors of the task.
        unsafe {
            launch!(
                kernels.spmv,
                self.stream,
                grid,
                out,
                domain,
                rows,
                inputs,
                long_row,
                multiply,
                csr,
                table,
                z
            )?;
        }
        if matrix.num_long_rows == 0 {
            return Ok(());
        }
        let (long_rows, grid) = (matrix.long_rows, (matrix.num_long_rows, THREADS, THREADS * 32));
        // SAFETY: `void spmv_long(fr_t*, const uint32_t*, uint32_t, csr_t, const fr_t*, const fr_t*)`, as above.
        unsafe { launch!(kernels.spmv_long, self.stream, grid, out, long_rows, multiply, csr, table, z) }
    }

    /// Values on the domain to values on the coset, both in natural order.
    fn to_coset(&self, x: CUdeviceptr) -> Result<(), Fault> {
        self.inverse(x)?;
        let (log_n, shift) = (self.key.shape.log_domain, self.key.shift);
        let kernel = &self.key.gpu.kernels.scale_reversed;
        // SAFETY: `void scale_reversed(fr_t*, uint32_t, power_table_t)`; `x` has 2^log_n elements.
        unsafe { launch!(kernel, self.stream, blocks(1 << log_n), x, log_n, shift)? };
        let passes = ntt_passes(log_n);
        let kernel = &self.key.gpu.kernels.ntt_reversed_to_natural;
        passes.iter().rev().try_for_each(|pass| self.transform(kernel, pass, false, x))
    }

    /// Values in natural order to coefficients in bit-reversed order, times the domain's size.
    fn inverse(&self, x: CUdeviceptr) -> Result<(), Fault> {
        let kernel = &self.key.gpu.kernels.ntt_natural_to_reversed;
        ntt_passes(self.key.shape.log_domain)
            .iter()
            .try_for_each(|pass| self.transform(kernel, pass, true, x))
    }

    fn transform(&self, kernel: &Kernel, pass: &NttPass, inverse: bool, x: CUdeviceptr) -> Result<(), Fault> {
        let NttPass { low_bits, bits, log_columns } = *pass;
        let log_n = self.key.shape.log_domain;
        let argument = NttArgument {
            roots: self.key.roots,
            log_n,
            low_bits,
            bits,
            log_columns,
            inverse: u32::from(inverse),
        };
        let slots = 1_u32 << (bits + log_columns);
        let shared = (slots + (1 << (bits - 1))) * 32;
        let grid = (1 << (log_n - bits - log_columns), (slots / 2).clamp(32, THREADS), shared);
        // SAFETY: `void ntt_...(fr_t*, ntt_pass_t)`; `x` has 2^log_n elements, the passes stay within.
        unsafe { launch!(kernel, self.stream, grid, x, argument) }
    }

    fn pointwise(&self, kernel: &Kernel) -> Result<(), Fault> {
        let (a, b, n) = (self.a, self.b, 1_u32 << self.key.shape.log_domain);
        // SAFETY: `void multiply(fr_t*, const fr_t*, uint32_t)`, and `subtract` likewise.
        unsafe { launch!(kernel, self.stream, blocks(n), a, b, n) }
    }

    fn coefficients(&self) -> Result<(), Fault> {
        let (ab, c, log_n) = (self.a, self.b, self.key.shape.log_domain);
        let (unshift, factor) = (self.key.unshift, self.key.factor);
        let kernel = &self.key.gpu.kernels.quotient_coefficients;
        // SAFETY: `void quotient_coefficients(fr_t*, const fr_t*, uint32_t, power_table_t, const fr_t*)`.
        unsafe { launch!(kernel, self.stream, blocks(1 << log_n), ab, c, log_n, unshift, factor) }
    }

    fn canonical(&self, x: CUdeviceptr, count: u64, counter: u64) -> Result<(), Fault> {
        let (n, wide) = (count as u32, self.wide + 4 * counter);
        // SAFETY: `void to_canonical(fr_t*, uint32_t, uint32_t*)`; `x` has `n` elements.
        unsafe { launch!(self.key.gpu.kernels.to_canonical, self.stream, blocks(n), x, n, wide) }
    }
}

/// A thread for each of `n` elements.
fn blocks(n: u32) -> (u64, u32, u32) {
    (u64::from(n.div_ceil(THREADS)), THREADS, 0)
}
