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
    /// Where wide scalars of the witness are counted (`u32`); 0 before.
    pub wide: CUdeviceptr,
}

/// In place of where to count: nobody wants to know.
const NOT_COUNTED: CUdeviceptr = 0;

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
        self.to_coset(a, a, Store::Set)?;
        let b = match self.halves() {
            Some((first, b)) => self.with_halves(first, a, b)?,
            None => self.with_all(a)?,
        };
        if self.key.basis == BasisCode::MONOMIAL {
            self.coefficients(a, b)?;
        } else {
            self.canonical(self.a, self.key.shape.domain(), NOT_COUNTED)?;
        }
        self.canonical(self.z, self.key.shape.variables, self.wide)
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
        self.to_coset(b, a, Store::Multiply)?;
        if self.key.basis == BasisCode::MONOMIAL {
            // On the coset t is a constant, and c need not go there: modulo X^n - g^n, h t = a b - c.
            self.product(C, b, Store::Set)?;
        } else {
            // As snarkjs has it, c is a b on the domain.
            self.product(A, b, Store::Set)?;
            self.product(B, b, Store::Multiply)?;
            self.to_coset(b, a, Store::Subtract)?;
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
        self.to_coset(b, a, Store::Multiply)?;

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

    /// Values of `x` on the domain to values on the coset, both in natural order: they go to `out`, which may be `x`.
    fn to_coset(&self, x: Vector, out: Vector, store: Store) -> Result<(), Fault> {
        let passes = ntt_passes(self.key.shape.log_domain);
        let Some((turn, others)) = passes.split_last() else { return Ok(()) };
        let at = |place: usize| if place == 0 { (out, store as u32) } else { (x, Store::Set as u32) };
        self.down(x, others)?;
        let (kernels, stream) = (&self.key.gpu.kernels, self.feed.stream());
        let (argument, shift, (out, how)) = (self.argument(turn), self.key.contents.shift, at(others.len()));
        // SAFETY: `void ntt_turn(vector_t, ntt_pass_t, power_table_t, vector_t, uint32_t)`; both vectors have 2^log_n
        // elements, the passes stay within.
        unsafe { launch!(kernels.ntt_turn, stream, turn.grid(), x, argument, shift, out, how)? };
        others.iter().enumerate().rev().try_for_each(|(place, pass)| {
            let (argument, (out, how)) = (self.argument(pass), at(place));
            // SAFETY: `void ntt_up(vector_t, ntt_pass_t, vector_t, uint32_t)`; as above.
            unsafe { launch!(kernels.ntt_up, stream, pass.grid(), x, argument, out, how) }
        })
    }

    /// Passes from values in natural order to coefficients in bit-reversed order, times the domain's size.
    fn down(&self, x: Vector, passes: &[NttPass]) -> Result<(), Fault> {
        let (kernel, stream) = (&self.key.gpu.kernels.ntt_down, self.feed.stream());
        passes.iter().try_for_each(|pass| {
            let argument = self.argument(pass);
            // SAFETY: `void ntt_down(vector_t, ntt_pass_t)`; `x` has 2^log_n elements, the passes stay within.
            unsafe { launch!(kernel, stream, pass.grid(), x, argument) }
        })
    }

    fn argument(&self, pass: &NttPass) -> NttArgument {
        let NttPass { log_n, low_bits, bits, log_columns } = *pass;
        NttArgument { roots: self.key.contents.roots, log_n, low_bits, bits, log_columns }
    }

    /// From a b on the coset and c on the domain to the scalars of h; then the witness is whole again.
    fn coefficients(&mut self, ab: Vector, c: Vector) -> Result<(), Fault> {
        let passes = ntt_passes(self.key.shape.log_domain);
        let Some((last, others)) = passes.split_last() else { return Ok(()) };
        self.down(c, &passes)?;
        self.down(ab, others)?;
        let contents = &self.key.contents;
        let (unshift, factor) = (contents.unshift, contents.factor());
        let (kernel, argument) = (&self.key.gpu.kernels.ntt_quotient, self.argument(last));
        // SAFETY: `void ntt_quotient(vector_t, ntt_pass_t, vector_t, power_table_t, const fr_t*)`; both vectors have 2^log_n
        // elements.
        unsafe {
            launch!(kernel, self.feed.stream(), last.grid(), ab, argument, c, unshift, factor)?;
        }
        match self.halves() {
            Some((first, b)) => self.fetch(first..self.key.shape.variables as u32, b.high),
            None => Ok(()),
        }
    }

    /// Counts wide scalars at `wide`, unless that is [`NOT_COUNTED`].
    fn canonical(&self, x: CUdeviceptr, count: u64, wide: CUdeviceptr) -> Result<(), Fault> {
        let n = count as u32;
        // SAFETY: `void to_canonical(fr_t*, uint32_t, uint32_t*)`; `x` has `n` elements.
        unsafe { launch!(self.key.gpu.kernels.to_canonical, self.feed.stream(), blocks(n), x, n, wide) }
    }
}

/// A thread for each of `n` elements.
pub fn blocks(n: u32) -> (u64, u32, u32) {
    (u64::from(n.div_ceil(THREADS)), THREADS, 0)
}
