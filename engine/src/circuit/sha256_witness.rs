//! The witness of bellperson's SHA-256 gadget, without the gadget.
//!
//! Every variable that `bellperson::gadgets::sha256::sha256` allocates is a bit. What it spends its time
//! on, sums of variables for constraints, a witness does not need; here whole words are computed, and
//! the bits are told in the order in which the gadget allocates them. As the states between the blocks
//! cost next to nothing, all blocks are worked on in parallel.
//!
//! The gadget allocates nothing for what it knows to be constant (the initial state, the padding, bits
//! shifted in), so that [`Word`] keeps track of it. The tests of [`FileChunk`](super::FileChunk) hold
//! the result against the gadget.

use rayon::prelude::*;

/// The variables of a block none of whose bits are constant.
const BLOCK_VARIABLES: usize = 26_166;

/// The initial state (FIPS 180-4, 5.3.3).
const INITIAL: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

/// The constants of the rounds (FIPS 180-4, 4.2.2).
const ROUNDS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// What the gadget allocates for a message whose bits are all variables, block by block.
pub(super) fn variables(message: &[u8]) -> Vec<Vec<bool>> {
    let mut state = INITIAL.map(Word::constant);
    let blocks: Vec<_> = padded(message)
        .chunks_exact(16)
        .map(|block| {
            let before = state;
            state = compress(state, block, &mut |_, _| {});
            (before, block.to_vec())
        })
        .collect();
    let allocated = |(state, block): (_, Vec<Word>)| {
        let mut bits = Vec::with_capacity(BLOCK_VARIABLES);
        compress(state, &block, &mut |mut mask: u64, values| {
            while mask != 0 {
                bits.push(values >> mask.trailing_zeros() & 1 == 1);
                mask &= mask - 1;
            }
        });
        bits
    };
    blocks.into_par_iter().map(allocated).collect()
}

/// `message` as words, with the padding of FIPS 180-4, 5.1.1.
fn padded(message: &[u8]) -> Vec<Word> {
    let end = (message.len() + 9).next_multiple_of(64);
    let mut bytes = [message, &[0x80]].concat();
    bytes.resize(end - 8, 0);
    bytes.extend((8 * message.len() as u64).to_be_bytes());
    let word = |(index, bytes): (usize, &[u8; 4])| {
        let variable = message.len().saturating_sub(4 * index).min(4);
        let value = u32::from_be_bytes(*bytes);
        let constant = u32::MAX.checked_shr(8 * variable as u32).unwrap_or(0);
        Word { value, negated: value & constant, constant }
    };
    bytes.as_chunks::<4>().0.iter().enumerate().map(word).collect()
}

/// 32 of the gadget's `Boolean`s. Each is a variable or the negation of one; a constant counts as a
/// variable that is 0, so that `value ^ negated` has the values of the variables.
#[derive(Clone, Copy)]
struct Word {
    value: u32,
    negated: u32,
    constant: u32,
}

impl Word {
    fn constant(value: u32) -> Self {
        Self { value, negated: value, constant: !0 }
    }

    fn map(self, change: impl Fn(u32) -> u32) -> Self {
        let Self { value, negated, constant } = self;
        Self { value: change(value), negated: change(negated), constant: change(constant) }
    }

    fn rotr(self, by: u32) -> Self {
        self.map(|bits| bits.rotate_right(by))
    }

    fn shr(self, by: u32) -> Self {
        let shifted = self.map(|bits| bits >> by);
        Self { constant: shifted.constant | !(!0 >> by), ..shifted }
    }

    /// Negates the bits in `mask`.
    fn not(self, mask: u32) -> Self {
        Self { value: self.value ^ mask, negated: self.negated ^ mask, ..self }
    }

    /// The bits of `self` in `mask`, those of `other` elsewhere.
    fn select(self, mask: u32, other: Self) -> Self {
        let pick = |ours, theirs| ours & mask | theirs & !mask;
        Self {
            value: pick(self.value, other.value),
            negated: pick(self.negated, other.negated),
            constant: pick(self.constant, other.constant),
        }
    }

    /// `Boolean::and`, which allocates where neither bit is constant.
    fn and(self, other: Self) -> Self {
        let zero = self.constant & !self.value | other.constant & !other.value;
        let allocated = !(self.constant | other.constant);
        Self {
            value: self.value & other.value,
            negated: self.negated & other.negated & !allocated,
            constant: self.constant & other.constant | zero,
        }
    }
}

/// The gadget's operations on words. `allocate(mask, values)` is called with what they allocate: the
/// bits of `values` that are in `mask`, the lowest first.
struct Gadget<'a, F>(&'a mut F);

impl<F: FnMut(u64, u64)> Gadget<'_, F> {
    fn allocate(&mut self, mask: u32, word: Word) {
        (self.0)(mask.into(), (word.value ^ word.negated).into());
    }

    fn xor(&mut self, a: Word, b: Word) -> Word {
        let result = Word {
            value: a.value ^ b.value,
            negated: a.negated ^ b.negated,
            constant: a.constant & b.constant,
        };
        self.allocate(!(a.constant | b.constant), result);
        result
    }

    /// `(a and b) xor (not a and c)`. The gadget has a way for each constant among the three; where more
    /// than one are constant, all ways lead to the same.
    fn ch(&mut self, a: Word, b: Word, c: Word) -> Word {
        let variable = Word { value: a.value & b.value ^ !a.value & c.value, negated: 0, constant: 0 };
        let with_b = a.not(!0).and(c.not(b.negated)).not(b.negated);
        let with_c = a.and(b.not(c.negated)).not(c.negated);
        let a_false = a.constant & !a.value;
        let rest = c.select(a_false, variable);
        let result = with_c.select(c.constant, with_b.select(b.constant, rest));
        let shortened = a.constant & (b.constant | c.constant) | b.constant & c.constant | a_false;
        self.allocate(!shortened, result);
        result
    }

    /// `(a and b) xor (a and c) xor (b and c)`, with a variable for `b and c` after the result's own. Of
    /// constants, see `ch`.
    fn maj(&mut self, a: Word, b: Word, c: Word) -> Word {
        let value = a.value & b.value ^ a.value & c.value ^ b.value & c.value;
        let with = |a: Word, b: Word, c: Word| b.not(a.negated).and(c.not(a.negated)).not(a.negated);
        let rest = with(b, a, c).select(b.constant, Word { value, negated: 0, constant: 0 });
        let result = with(c, a, b).select(c.constant, with(a, b, c).select(a.constant, rest));
        let shortened = a.constant & (b.constant | c.constant) | b.constant & c.constant;
        let product = !(a.constant | b.constant | c.constant);
        let variables = result.value ^ result.negated;
        for bit in 0..32 {
            let both = u64::from(!shortened >> bit & 1) | u64::from(product >> bit & 1) << 1;
            let values = u64::from(variables >> bit & 1) | u64::from((b.value & c.value) >> bit & 1) << 1;
            (self.0)(both, values);
        }
        result
    }

    /// The sum, for which the carries are allocated as well.
    fn add<const N: usize>(&mut self, terms: [Word; N]) -> Word {
        let sum: u64 = terms.iter().map(|term| u64::from(term.value)).sum();
        if terms.iter().all(|term| term.constant == !0) {
            return Word::constant(sum as u32);
        }
        let most = N as u64 * u64::from(u32::MAX);
        (self.0)(u64::MAX >> most.leading_zeros(), sum);
        Word { value: sum as u32, negated: 0, constant: 0 }
    }

    /// `word` rotated by each of the three numbers, xored.
    fn sigma(&mut self, word: Word, [first, second, third]: [u32; 3]) -> Word {
        let two = self.xor(word.rotr(first), word.rotr(second));
        self.xor(two, word.rotr(third))
    }

    /// The same, with a shift for the third.
    fn shifted_sigma(&mut self, word: Word, [first, second, third]: [u32; 3]) -> Word {
        let two = self.xor(word.rotr(first), word.rotr(second));
        self.xor(two, word.shr(third))
    }
}

/// The compression function (FIPS 180-4, 6.2.2). The gadget computes the two sums of a round when the
/// next one needs them, and those of the last together with the new state.
fn compress(state: [Word; 8], block: &[Word], allocate: &mut impl FnMut(u64, u64)) -> [Word; 8] {
    let mut gadget = Gadget(allocate);
    let mut w = [Word::constant(0); 64];
    w[..16].copy_from_slice(block);
    for i in 16..64 {
        let s0 = gadget.shifted_sigma(w[i - 15], [7, 18, 3]);
        let s1 = gadget.shifted_sigma(w[i - 2], [17, 19, 10]);
        w[i] = gadget.add([w[i - 16], s0, w[i - 7], s1]);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
    let mut sums: Option<([Word; 7], [Word; 6])> = None;
    for (&w, k) in w.iter().zip(ROUNDS.map(Word::constant)) {
        if let Some((_, sum)) = sums {
            e = gadget.add(sum);
        }
        let s1 = gadget.sigma(e, [6, 11, 25]);
        let ch = gadget.ch(e, f, g);
        if let Some((sum, _)) = sums {
            a = gadget.add(sum);
        }
        let s0 = gadget.sigma(a, [2, 13, 22]);
        let maj = gadget.maj(a, b, c);
        sums = Some(([h, s1, ch, k, w, s0, maj], [h, s1, ch, k, w, d]));
        (d, c, b) = (c, b, a);
        (h, g, f) = (g, f, e);
    }
    let ([a0, a1, a2, a3, a4, a5, a6], [e0, e1, e2, e3, e4, e5]) = sums.expect("there were rounds");
    [
        gadget.add([a0, a1, a2, a3, a4, a5, a6, state[0]]),
        gadget.add([state[1], b]),
        gadget.add([state[2], c]),
        gadget.add([state[3], d]),
        gadget.add([e0, e1, e2, e3, e4, e5, state[4]]),
        gadget.add([state[5], f]),
        gadget.add([state[6], g]),
        gadget.add([state[7], h]),
    ]
}
