//! The scalars of the `h` query, made on the card from the witness alone.
//!
//! With `z` the assignment: a = A z, b = B z, c = C z over the domain, two vectors at a time.
//! Symbols as in Groth16 (eprint 2016/260, section 3.2): h = (a b - c) / t.
//!
//! # With half of the witness gone
//! For a streamed key there is room for z, a and half of b (see [`crate::plan`]). z stays in host memory, so that its
//! halves z1 and z2 can be given up and fetched again; each product is a sum over the columns of either half:
//!
//! | z1's place | z2's place | workspace | step |
//! |---|---|---|---|
//! | z1 | z2 | | a = A z |
//! | z1 | z2 | b1 = B1 z | B1, B2: the upper and the lower rows of B |
//! | z1 | b2 = B2 z1 | b1 | |
//! | z2 | b2 += B2 z2 | b1 | b is whole: a = a b on the coset |
//! | z2 | c2 = C2 z2 | c1 = C1 z2 | |
//! | z1 | c2 += C2 z1 | c1 += C1 z1 | c is whole: the coefficients of h |
//! | z1 | z2 | | |

use cust::sys::CUdeviceptr;
use interlock_core_api::BasisCode;

use crate::fault::Fault;
use crate::feed::Feed;
use crate::kernels::Kernel;
use crate::key::Key;
use crate::launch;
use crate::plan::{NttPass, SCALAR_BYTES, ntt_passes};
use crate::product::{Columns, Product, Store};

/// A vector over the domain, `vector_t` of the kernels: the elements before `split` are at `low`, the others at `high`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Vector {
    /// Where the first elements are.
    pub low: CUdeviceptr,
    /// Where the others are.
    pub high: CUdeviceptr,
    /// How many the first ones are.
    pub split: u32,
}

impl Vector {
    /// In one piece.
    pub fn whole(address: CUdeviceptr) -> Self {
        Self { low: address, high: 0, split: u32::MAX }
    }
}

/// `ntt_pass_t` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct NttArgument {
    roots: crate::key::PowerTable,
    log_n: u32,
    low_bits: u32,
    bits: u32,
    log_columns: u32,
    inverse: u32,
}

/// Works on a stream with two vectors over the domain.
pub struct Quotient<'a, 'b> {
    /// The key.
    pub key: &'a Key,
    /// The stream, and how matrices get there.
    pub feed: &'a mut Feed<'b>,
    /// The assignment, in Montgomery form.
    pub z: CUdeviceptr,
    /// The same in host memory.
    pub source: Option<&'a [u64]>,
    /// A vector; the scalars end up here.
    pub a: CUdeviceptr,
    /// Room for what of a second vector does not take the place of half of `z`.
    pub b: CUdeviceptr,
    /// `[u32; 2]`: wide scalars of the witness, and of the quotient. Zeroed.
    pub wide: CUdeviceptr,
}

/// Threads of a block, for kernels with a thread for each element.
pub const THREADS: u32 = 256;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

impl Quotient<'_, '_> {
    /// Everything up to and including the scalars in canonical form: those of the witness, in place, and those
    /// of `h`, in `a`. Puts the work on the stream and returns.
    ///
    /// # Errors
    /// When the driver refuses a launch.
    pub fn run(&mut self) -> Result<(), Fault> {
        let a = Vector::whole(self.a);
        self.product(A, a, Store::Set)?;
        self.to_coset(a)?;
        let b = match self.halves() {
            Some((first, b)) => self.with_halves(first, a, b)?,
            None => self.with_all(a)?,
        };
        if self.key.basis == BasisCode::MONOMIAL {
            self.coefficients(a, b)?;
        }
        self.canonical(self.z, self.key.shape.variables, 0)?;
        self.canonical(self.a, self.key.shape.domain(), 1)
    }

    /// The variables of the first half, and b where it takes the place of the second one; none if it does not.
    fn halves(&self) -> Option<(u32, Vector)> {
        let shape = &self.key.shape;
        let (there, first) = (shape.b_in_staged(), shape.first_half());
        let high = self.z + SCALAR_BYTES * first;
        let split = (shape.domain() - there) as u32;
        (there != 0).then_some((first as u32, Vector { low: self.b, high, split }))
    }

    /// From a on the coset to what [`Self::coefficients`] needs, or for the odd coset to the scalars.
    fn with_all(&mut self, a: Vector) -> Result<Vector, Fault> {
        let b = Vector::whole(self.b);
        self.product(B, b, Store::Set)?;
        self.to_coset(b)?;
        self.pointwise(self.key.gpu.kernels.multiply, a, b)?;
        if self.key.basis == BasisCode::MONOMIAL {
            // On the coset t is a constant, and c need not go there: modulo X^n - g^n, h t = a b - c.
            self.product(C, b, Store::Set)?;
        } else {
            // As snarkjs has it, c is a b on the domain.
            self.product(A, b, Store::Set)?;
            self.product(B, b, Store::Multiply)?;
            self.to_coset(b)?;
            self.pointwise(self.key.gpu.kernels.subtract, a, b)?;
        }
        Ok(b)
    }

    /// The same in less room: see the module's table.
    fn with_halves(&mut self, first: u32, a: Vector, b: Vector) -> Result<Vector, Fault> {
        let (z, variables, rows) = (self.z, self.key.shape.variables as u32, self.key.rows);
        let upper = 0..rows.min(b.split);
        let lower = rows.min(b.split)..rows;
        let whole = Columns { z, first: 0, end: variables };
        let one = Columns { z, first: 0, end: first };
        // Its first element is where that of the other half was.
        let two = Columns { z: z.wrapping_sub(SCALAR_BYTES * u64::from(first)), first, end: variables };

        self.rows(B, b, upper, whole, Store::Set)?;
        self.rows(B, b, lower.clone(), one, Store::Set)?;
        self.below(B, b, Store::Set)?;
        self.fetch(first..variables, z)?;
        self.rows(B, b, lower, two, Store::Add)?;
        self.to_coset(b)?;
        self.pointwise(self.key.gpu.kernels.multiply, a, b)?;

        self.rows(C, b, 0..rows, two, Store::Set)?;
        self.below(C, b, Store::Set)?;
        self.fetch(0..first, z)?;
        self.rows(C, b, 0..rows, one, Store::Add)?;
        Ok(b)
    }

    /// Copies some variables of the witness, from host memory, to an address where kernels have worked so far.
    fn fetch(&mut self, variables: std::ops::Range<u32>, to: CUdeviceptr) -> Result<(), Fault> {
        let Some(source) = self.source else { return Err(Fault::Order { stage: "compute" }) };
        let words = 4 * variables.start as usize..4 * variables.end as usize;
        // SAFETY: the task keeps the source until its streams are done; half of the witness fits either half's place.
        unsafe { self.feed.replace(to, &source[words], "fetch the witness") }
    }

    /// `out = matrix z` over the whole domain, or `out *= matrix z`.
    fn product(&mut self, matrix: usize, out: Vector, store: Store) -> Result<(), Fault> {
        let columns = Columns { z: self.z, first: 0, end: self.key.shape.variables as u32 };
        self.rows(matrix, out, 0..self.key.rows, columns, store)?;
        self.below(matrix, out, store)
    }

    fn rows(
        &mut self,
        matrix: usize,
        out: Vector,
        rows: std::ops::Range<u32>,
        columns: Columns,
        store: Store,
    ) -> Result<(), Fault> {
        let Some(matrix) = self.key.contents.matrices.get(matrix) else {
            return Err(Fault::Input("the key has too few matrices".to_owned()));
        };
        Product { key: self.key, matrix, out, columns, store }.run(rows, self.feed)
    }

    /// What comes below the matrix: in A a row for each public input, then zeros.
    fn below(&mut self, matrix: usize, out: Vector, store: Store) -> Result<(), Fault> {
        let (domain, rows, z) = (1_u32 << self.key.shape.log_domain, self.key.rows, self.z);
        if rows == domain {
            return Ok(());
        }
        let (inputs, store) = (if matrix == A { self.key.inputs } else { 0 }, store as u32);
        let (kernel, grid) = (&self.key.gpu.kernels.fill_below, blocks(domain - rows));
        // SAFETY: `void fill_below(vector_t, uint32_t, uint32_t, uint32_t, uint32_t, const fr_t*)`; public inputs are
        // only asked for while the whole of `z` is there.
        unsafe { launch!(kernel, self.feed.stream(), grid, out, domain, rows, inputs, store, z) }
    }

    /// Values on the domain to values on the coset, both in natural order.
    fn to_coset(&self, x: Vector) -> Result<(), Fault> {
        self.inverse(x)?;
        let (log_n, shift) = (self.key.shape.log_domain, self.key.contents.shift);
        let kernel = &self.key.gpu.kernels.scale_reversed;
        // SAFETY: `void scale_reversed(vector_t, uint32_t, power_table_t)`; `x` has 2^log_n elements.
        unsafe { launch!(kernel, self.feed.stream(), blocks(1 << log_n), x, log_n, shift)? };
        let passes = ntt_passes(log_n);
        let kernel = &self.key.gpu.kernels.ntt_reversed_to_natural;
        passes.iter().rev().try_for_each(|pass| self.transform(kernel, pass, false, x))
    }

    /// Values in natural order to coefficients in bit-reversed order, times the domain's size.
    fn inverse(&self, x: Vector) -> Result<(), Fault> {
        let kernel = &self.key.gpu.kernels.ntt_natural_to_reversed;
        ntt_passes(self.key.shape.log_domain)
            .iter()
            .try_for_each(|pass| self.transform(kernel, pass, true, x))
    }

    fn transform(&self, kernel: &Kernel, pass: &NttPass, inverse: bool, x: Vector) -> Result<(), Fault> {
        let NttPass { low_bits, bits, log_columns } = *pass;
        let log_n = self.key.shape.log_domain;
        let argument = NttArgument {
            roots: self.key.contents.roots,
            log_n,
            low_bits,
            bits,
            log_columns,
            inverse: u32::from(inverse),
        };
        let slots = 1_u32 << (bits + log_columns);
        let shared = (slots + (1 << (bits - 1))) * 32;
        let grid = (1 << (log_n - bits - log_columns), (slots / 2).clamp(32, THREADS), shared);
        // SAFETY: `void ntt_...(vector_t, ntt_pass_t)`; `x` has 2^log_n elements, the passes stay within.
        unsafe { launch!(kernel, self.feed.stream(), grid, x, argument) }
    }

    fn pointwise(&self, kernel: Kernel, a: Vector, b: Vector) -> Result<(), Fault> {
        let n = 1_u32 << self.key.shape.log_domain;
        // SAFETY: `void multiply(vector_t, vector_t, uint32_t)`, and `subtract` likewise.
        unsafe { launch!(kernel, self.feed.stream(), blocks(n), a, b, n) }
    }

    /// From a b on the coset and c on the domain to the coefficients of h; then the witness is whole again.
    fn coefficients(&mut self, ab: Vector, c: Vector) -> Result<(), Fault> {
        self.inverse(c)?;
        self.inverse(ab)?;
        let contents = &self.key.contents;
        let (log_n, unshift, factor) = (self.key.shape.log_domain, contents.unshift, contents.factor());
        let (kernel, grid) = (&self.key.gpu.kernels.quotient_coefficients, blocks(1 << log_n));
        // SAFETY: `void quotient_coefficients(vector_t, vector_t, uint32_t, power_table_t, const fr_t*)`.
        unsafe { launch!(kernel, self.feed.stream(), grid, ab, c, log_n, unshift, factor)? };
        match self.halves() {
            Some((first, b)) => self.fetch(first..self.key.shape.variables as u32, b.high),
            None => Ok(()),
        }
    }

    fn canonical(&self, x: CUdeviceptr, count: u64, counter: u64) -> Result<(), Fault> {
        let (n, wide) = (count as u32, self.wide + 4 * counter);
        // SAFETY: `void to_canonical(fr_t*, uint32_t, uint32_t*)`; `x` has `n` elements.
        unsafe { launch!(self.key.gpu.kernels.to_canonical, self.feed.stream(), blocks(n), x, n, wide) }
    }
}

/// A thread for each of `n` elements.
pub fn blocks(n: u32) -> (u64, u32, u32) {
    (u64::from(n.div_ceil(THREADS)), THREADS, 0)
}
