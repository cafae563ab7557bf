//! Sorted entries, against digits that are made here.

use interlock_test_kernels::sort::{Scalars, Sorted};
use interlock_test_kernels::{FIRST, NEGATED};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

type Scalar = [u32; 8];

/// Signed digits of `bits` bits, the lowest first: each from -2^(bits - 1) to 2^(bits - 1) - 1, with a carry to the next.
fn digits(scalar: &Scalar, bits: u32, windows: u32) -> Vec<i64> {
    let bit = |position: u32| -> i64 {
        let word = scalar.get(position as usize / 32).copied().unwrap_or(0);
        i64::from(word >> (position % 32) & 1)
    };
    let mut carry = 0;
    let digit = |window: u32| {
        let plain: i64 = (0..bits).map(|place| bit(window * bits + place) << place).sum();
        let sum = plain + carry;
        carry = i64::from(sum >= 1 << (bits - 1));
        sum - (carry << bits)
    };
    (0..windows).map(digit).collect()
}

/// Entries of each bucket, in order.
fn expected(scalars: &Scalars<'_>) -> Vec<Vec<u32>> {
    let mut buckets = vec![Vec::new(); 1 << (scalars.bits - 1)];
    let points = scalars.scalars.len();
    for point in 0..points {
        let reversed = point.reverse_bits() >> (usize::BITS - scalars.reversed_bits.max(1));
        let index = if scalars.reversed_bits == 0 { point } else { reversed };
        let digits = digits(&scalars.scalars[index], scalars.bits, scalars.windows());
        for (window, digit) in digits.into_iter().enumerate().filter(|(_, digit)| *digit != 0) {
            let sign = if digit < 0 { NEGATED } else { 0 };
            buckets[digit.unsigned_abs() as usize - 1].push((window * points + point) as u32 | sign);
        }
    }
    buckets.iter_mut().for_each(|bucket| bucket.sort_unstable());
    buckets
}

fn check(scalars: &Scalars<'_>, sorted: &Sorted, how: &str) {
    for (bucket, expected) in expected(scalars).iter().enumerate() {
        let mut found =
            sorted.entries[sorted.starts[bucket] as usize..sorted.starts[bucket + 1] as usize].to_vec();
        let marks = found.iter().enumerate().map(|(place, entry)| (place, entry & scalars.first_mark));
        let mark = |place| if place == 0 { scalars.first_mark } else { 0 };
        assert!(
            marks.into_iter().all(|(place, found)| found == mark(place)),
            "{how}: marks of bucket {bucket}"
        );
        found.iter_mut().for_each(|entry| *entry &= !scalars.first_mark);
        found.sort_unstable();
        assert_eq!(found, *expected, "{how}: bucket {bucket}");
    }
}

/// All ways to sort come to the same.
fn check_all(scalars: &Scalars<'_>) {
    for ranges in [1, 3] {
        check(scalars, &scalars.sort_in_one_step(ranges), &format!("{ranges} ranges"));
    }
    for (windows, threads) in [(16, 512), (7, 1024), (5, 512), (3, 1024)] {
        let how = format!("{windows} windows at a time, {threads} threads");
        check(scalars, &scalars.sort_in_two_steps(windows.min(scalars.windows()), threads), &how);
    }
}

/// Below 0.91 * 2^255, as scalars are.
fn random(rng: &mut ChaCha8Rng) -> Scalar {
    let mut scalar: Scalar = rng.r#gen();
    scalar[7] %= 0x73ed_a753;
    scalar
}

/// The scalar with these digits, of which the last that is not 0 is positive.
fn from_digits(digits: &[i64], bits: u32) -> Scalar {
    let mut words = [0_i64; 9];
    for (window, digit) in digits.iter().enumerate() {
        let position = window as u32 * bits;
        let shifted = digit << (position % 32);
        // Arithmetic shifts: the rest is below 2^32 and not negative.
        words[position as usize / 32] += shifted & 0xffff_ffff;
        words[position as usize / 32 + 1] += shifted >> 32;
    }
    let mut carry = 0;
    let word = |word: i64| {
        let sum = word + carry;
        carry = sum >> 32;
        (sum & 0xffff_ffff) as u32
    };
    let words: Vec<u32> = words.into_iter().map(word).collect();
    words[..8].try_into().expect("eight words")
}

#[test]
fn scalars_have_the_digits_they_are_made_of() {
    for (bits, made_of) in [(20, &[1, -3, 0, -(1 << 19), 7][..]), (17, &[-1, -1, 0, 0, 1])] {
        let scalar = from_digits(made_of, bits);
        assert_eq!(digits(&scalar, bits, 5), made_of);
    }
}

/// Digits of a few groups of buckets, so that there are few chunks to be placed.
#[test]
fn dense_scalars() {
    let rng = &mut ChaCha8Rng::seed_from_u64(1);
    for (points, bits, reversed_bits, first_mark) in
        [(1030, 20, 0, FIRST), (600, 17, 0, FIRST), (512, 18, 9, 0)]
    {
        let windows = 256_u32.div_ceil(bits) - 1;
        let half = 1_i64 << (bits - 1);
        let near = [1, half / 512, half / 2, half - 9];
        let digit = |rng: &mut ChaCha8Rng| {
            (near[rng.gen_range(0..4)] + rng.gen_range(0..9)) * [1, -1, 0][rng.gen_range(0..3)]
        };
        let scalar = |rng: &mut ChaCha8Rng| {
            let mut digits: Vec<i64> = (1..windows).map(|_| digit(rng)).collect();
            digits.push(1);
            from_digits(&digits, bits)
        };
        let scalars: Vec<Scalar> = (0..points).map(|_| scalar(rng)).collect();
        check_all(&Scalars { scalars: &scalars, reversed_bits, bits, first_mark });
    }
}

/// Digits of many groups, most of which have one chunk with a few entries.
#[test]
fn scalars_of_many_groups() {
    let rng = &mut ChaCha8Rng::seed_from_u64(4);
    let scalar = |rng: &mut ChaCha8Rng| {
        let digits: Vec<i64> = (0..4).map(|_| rng.gen_range(-1 << 19..1 << 19)).chain([1]).collect();
        from_digits(&digits, 20)
    };
    let scalars: Vec<Scalar> = (0..40).map(|_| scalar(rng)).collect();
    let scalars = Scalars { scalars: &scalars, reversed_bits: 0, bits: 20, first_mark: FIRST };
    check(&scalars, &scalars.sort_in_one_step(2), "one step");
    check(&scalars, &scalars.sort_in_two_steps(13, 1024), "two steps");
}

/// A group or a bucket that has all entries, more than a block takes at a time; and none at all.
#[test]
fn scalars_that_are_all_the_same() {
    let rng = &mut ChaCha8Rng::seed_from_u64(2);
    for scalar in [[0; 8], [1, 0, 0, 0, 0, 0, 0, 0], random(rng), from_digits(&[5; 12], 20)] {
        let scalars = vec![scalar; 2100];
        let scalars = Scalars { scalars: &scalars, reversed_bits: 0, bits: 20, first_mark: FIRST };
        check(&scalars, &scalars.sort_in_two_steps(7, 1024), &format!("{scalar:x?}"));
        check(&scalars, &scalars.sort_in_two_steps(13, 512), &format!("{scalar:x?}"));
    }
}

/// Most are 0 or 1, which have entries in window 0 only.
#[test]
fn scalars_of_bits() {
    let rng = &mut ChaCha8Rng::seed_from_u64(3);
    let scalar = |rng: &mut ChaCha8Rng| match rng.gen_range(0..100) {
        0 => from_digits(&[7, -2, 0, 5, -30000, 0, 1, 1], 16),
        1 => [rng.gen_range(0..2048), 0, 0, 0, 0, 0, 0, 0],
        number => [number % 2, 0, 0, 0, 0, 0, 0, 0],
    };
    let scalars: Vec<Scalar> = (0..3000).map(|_| scalar(rng)).collect();
    check_all(&Scalars { scalars: &scalars, reversed_bits: 0, bits: 16, first_mark: FIRST });
}
