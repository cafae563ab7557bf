//! Transforms over a domain of 2^k values, in passes over some bits of the index each, as `cuda/src/quotient.rs` has a card do them.

use blstrs::Scalar;

use crate::alone;

/// `power_table_t` of the kernels.
#[repr(C)]
#[derive(Clone, Copy)]
struct PowerTable {
    high: *const Element,
    low: *const Element,
    split: u32,
}

/// `vector_t` of the kernels.
#[repr(C)]
struct Vector {
    low: *mut Element,
    high: *mut Element,
    split: u32,
}

/// `ntt_pass_t` of the kernels.
#[repr(C)]
struct PassArgument {
    roots: PowerTable,
    log_n: u32,
    low_bits: u32,
    bits: u32,
    log_columns: u32,
}

/// A scalar as the kernels read it.
#[repr(C, align(32))]
#[derive(Clone, Copy)]
pub struct Element(pub Scalar);

unsafe extern "C" {
    fn test_ntt_down(x: *const Vector, pass: *const PassArgument);
    fn test_ntt_turn(
        x: *const Vector,
        pass: *const PassArgument,
        shift: *const PowerTable,
        out: *const Vector,
        how: u32,
    );
    fn test_ntt_up(x: *const Vector, pass: *const PassArgument, out: *const Vector, how: u32);
    fn test_ntt_quotient(
        ab: *const Vector,
        pass: *const PassArgument,
        c: *const Vector,
        unshift: *const PowerTable,
        factor: *const Element,
    );
}

/// What becomes of a value and the element in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Store {
    /// The value takes the place.
    Set,
    /// Their sum.
    Add,
    /// Their product.
    Multiply,
    /// The element less the value.
    Subtract,
}

/// Powers of a base, from the 0th on, times a factor; in a whole table or in two small ones.
pub struct Powers {
    high: Vec<Element>,
    low: Vec<Element>,
    split: u32,
}

impl Powers {
    /// 2^`log_count` powers, of which the low table has 2^`split`.
    pub fn new(base: Scalar, factor: Scalar, log_count: u32, split: u32) -> Self {
        let powers = |base: Scalar, first: Scalar, count: u32| -> Vec<Element> {
            std::iter::successors(Some(first), |power| Some(power * base))
                .take(1 << count)
                .map(Element)
                .collect()
        };
        let low = powers(base, Scalar::from(1), split);
        let step = low[low.len() - 1].0 * base;
        Self { high: powers(step, factor, log_count - split), low, split }
    }

    fn table(&self) -> PowerTable {
        PowerTable { high: self.high.as_ptr(), low: self.low.as_ptr(), split: self.split }
    }
}

/// A pass over `bits` bits above the lowest `low_bits`, 2^`log_columns` neighbours at a time.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Bits that it transforms.
    pub bits: u32,
    /// Bits below.
    pub low_bits: u32,
    /// Logarithm of the neighbours.
    pub log_columns: u32,
}

/// A domain, and how its transforms are done.
pub struct Transforms {
    /// Logarithm of its size.
    pub log_n: u32,
    /// Powers of its root.
    pub roots: Powers,
    /// From the highest bits to the lowest.
    pub passes: Vec<Pass>,
    /// The first elements of a vector that are in one place, the others being in another.
    pub split: usize,
}

impl Transforms {
    fn argument(&self, pass: &Pass) -> PassArgument {
        let Pass { bits, low_bits, log_columns } = *pass;
        let neighbours = if low_bits == 0 { self.log_n - bits } else { low_bits };
        assert!(low_bits + bits <= self.log_n && log_columns <= neighbours, "{pass:?}");
        PassArgument { roots: self.roots.table(), log_n: self.log_n, low_bits, bits, log_columns }
    }

    /// In two pieces, the first of which comes last in memory.
    fn pieces(&self, values: &[Scalar]) -> Vec<Element> {
        assert_eq!(values.len(), 1 << self.log_n);
        let (low, high) = values.split_at(self.split);
        high.iter().chain(low).copied().map(Element).collect()
    }

    fn vector(&self, pieces: &mut [Element]) -> Vector {
        let (high, low) = pieces.split_at_mut(pieces.len() - self.split);
        Vector { low: low.as_mut_ptr(), high: high.as_mut_ptr(), split: self.split as u32 }
    }

    fn values(&self, pieces: &[Element]) -> Vec<Scalar> {
        let (high, low) = pieces.split_at(pieces.len() - self.split);
        low.iter().chain(high).map(|element| element.0).collect()
    }

    fn down(&self, x: &Vector, passes: &[Pass]) {
        // SAFETY: the vector is as long as the domain, and passes stay within.
        passes.iter().for_each(|pass| unsafe { test_ntt_down(x, &self.argument(pass)) });
    }

    /// From values on the domain to values where each point is multiplied by the base of `shift`, whose powers are over the domain's
    /// size. They are stored over `out`.
    ///
    /// # Panics
    /// When vectors are not as long as the domain, or a pass does not fit.
    pub fn to_coset(&self, values: &[Scalar], shift: &Powers, out: &[Scalar], how: Store) -> Vec<Scalar> {
        let (mut x, mut out) = (self.pieces(values), self.pieces(out));
        let (last, others) = self.passes.split_last().expect("a pass");
        let _alone = alone();
        let (x, out_vector) = (self.vector(&mut x), self.vector(&mut out));
        self.down(&x, others);
        // All but the last are done in place.
        let to = |first: bool| if first { (&out_vector, how as u32) } else { (&x, Store::Set as u32) };
        let (turned, turn_how) = to(others.is_empty());
        // SAFETY: as in `down`.
        unsafe { test_ntt_turn(&x, &self.argument(last), &shift.table(), turned, turn_how) };
        for (index, pass) in others.iter().enumerate().rev() {
            let (to, how) = to(index == 0);
            // SAFETY: as in `down`.
            unsafe { test_ntt_up(&x, &self.argument(pass), to, how) };
        }
        self.values(&out)
    }

    /// From values of a b on a coset and of c on the domain to the coefficients of (a b - c) times a factor and the domain's size, in
    /// bit-reversed order. `unshift` has powers of what takes the coset back. Neither the factor nor the result is in Montgomery form.
    ///
    /// # Panics
    /// As [`Transforms::to_coset`].
    pub fn quotient(&self, ab: &[Scalar], c: &[Scalar], unshift: &Powers, factor: Scalar) -> Vec<Scalar> {
        let (mut ab, mut c) = (self.pieces(ab), self.pieces(c));
        let (last, others) = self.passes.split_last().expect("a pass");
        let _alone = alone();
        let (ab_vector, c_vector) = (self.vector(&mut ab), self.vector(&mut c));
        self.down(&c_vector, &self.passes);
        self.down(&ab_vector, others);
        let (pass, table) = (self.argument(last), unshift.table());
        // SAFETY: as in `down`.
        unsafe { test_ntt_quotient(&ab_vector, &pass, &c_vector, &table, &Element(factor)) };
        self.values(&ab)
    }
}
