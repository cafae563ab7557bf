//! Transforms in passes, against sums over all coefficients.

use blst::blst_fr;
use blstrs::Scalar;
use ff::{Field, PrimeField};
use interlock_test_kernels::ntt::{Pass, Powers, Store, Transforms};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn root(log_n: u32) -> Scalar {
    Scalar::ROOT_OF_UNITY.pow_vartime([1 << (Scalar::S - log_n)])
}

fn reversed(index: usize, log_n: u32) -> usize {
    if log_n == 0 { 0 } else { index.reverse_bits() >> (usize::BITS - log_n) }
}

/// A polynomial's value.
fn value(coefficients: &[Scalar], at: Scalar) -> Scalar {
    coefficients.iter().rev().fold(Scalar::ZERO, |sum, coefficient| sum * at + coefficient)
}

/// Values on the domain, each point multiplied by `shift`.
fn values(coefficients: &[Scalar], shift: Scalar, log_n: u32) -> Vec<Scalar> {
    let root = root(log_n);
    let points = std::iter::successors(Some(shift), |point| Some(point * root));
    points.take(1 << log_n).map(|point| value(coefficients, point)).collect()
}

/// Passes over so many bits each, from the highest to the lowest.
fn passes(bits: &[u32], log_columns: u32) -> Vec<Pass> {
    let log_n: u32 = bits.iter().sum();
    let mut low_bits = log_n;
    let pass = |bits: &u32| {
        low_bits -= bits;
        let neighbours = if low_bits == 0 { log_n - bits } else { low_bits };
        Pass { bits: *bits, low_bits, log_columns: log_columns.min(neighbours) }
    };
    bits.iter().map(pass).collect()
}

/// Out of Montgomery form: the number whose Montgomery form has these words.
fn out_of_montgomery(scalar: Scalar) -> Scalar {
    let (mut words, plain) = ([0; 4], scalar.to_bytes_le());
    for (word, bytes) in words.iter_mut().zip(plain.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
    Scalar::from(blst_fr { l: words })
}

const WAYS: [(&[u32], u32); 9] = [
    (&[1], 0),
    (&[2], 1),
    (&[5], 0),
    (&[1, 1], 1),
    (&[3, 2], 1),
    (&[4, 4], 2),
    (&[2, 5, 3], 1),
    (&[5, 1, 4], 3),
    (&[9], 0),
];

fn transforms(bits: &'static [u32], log_columns: u32, table_split: u32, split: usize) -> Transforms {
    let log_n = bits.iter().sum();
    let roots = Powers::new(root(log_n), Scalar::ONE, log_n, table_split.min(log_n));
    Transforms { log_n, roots, passes: passes(bits, log_columns), split: split.min(1 << log_n) }
}

/// Calls `check` with transforms in all ways, both with whole tables in one piece and with `two`: two tables, the lower with so many
/// bits, and vectors in two pieces, the first with so many elements. It is handed the lower table's bits, and random vectors.
fn in_every_way(
    seed: u64,
    two: (u32, usize),
    mut check: impl FnMut(&Transforms, u32, &mut dyn FnMut() -> Vec<Scalar>, &str),
) {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    for (bits, log_columns) in WAYS {
        for (table_split, split) in [(0, usize::MAX), two] {
            let transforms = transforms(bits, log_columns, table_split, split);
            let log_n = transforms.log_n;
            let mut random = || (0..1 << log_n).map(|_| Scalar::random(&mut *rng)).collect();
            let how = format!("{bits:?}, {log_columns}, {table_split}");
            check(&transforms, table_split.min(log_n), &mut random, &how);
        }
    }
}

#[test]
fn values_on_a_coset() {
    in_every_way(1, (3, 5), |transforms, table_split, random, way| {
        let log_n = transforms.log_n;
        let (coefficients, before) = (random(), random());
        let shift = Scalar::from(7);
        let size = Scalar::from(1 << log_n).invert().expect("not 0");
        let powers = Powers::new(shift, size, log_n, table_split);
        let on_domain = values(&coefficients, Scalar::ONE, log_n);
        let on_coset = values(&coefficients, shift, log_n);
        for how in [Store::Set, Store::Add, Store::Multiply, Store::Subtract] {
            let found = transforms.to_coset(&on_domain, &powers, &before, how);
            let stored = |(value, before): (&Scalar, &Scalar)| match how {
                Store::Set => *value,
                Store::Add => value + before,
                Store::Multiply => value * before,
                Store::Subtract => before - value,
            };
            let expected: Vec<Scalar> = on_coset.iter().zip(&before).map(stored).collect();
            assert!(found == expected, "{way}, {how:?}");
        }
    });
}

#[test]
fn coefficients_of_a_quotient() {
    in_every_way(2, (2, 3), |transforms, table_split, random, way| {
        let log_n = transforms.log_n;
        let (ab, c) = (random(), random());
        let shift = Scalar::from(7);
        let back = shift.invert().expect("not 0");
        let unshift = Powers::new(back, Scalar::ONE, log_n, table_split);
        let factor = Scalar::from(3) * Scalar::from(1 << log_n).invert().expect("not 0");
        let (on_coset, on_domain) = (values(&ab, shift, log_n), values(&c, Scalar::ONE, log_n));
        let found = transforms.quotient(&on_coset, &on_domain, &unshift, out_of_montgomery(factor));
        for (place, found) in found.into_iter().enumerate() {
            let index = reversed(place, log_n);
            let expected = out_of_montgomery(Scalar::from(3) * (ab[index] - c[index]));
            assert!(found == expected, "{way}: coefficient {index}");
        }
    });
}
