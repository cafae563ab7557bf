//! Sums over buckets by the kernels that share inversions, against blst's additions.

use blst::{
    blst_p1, blst_p1_affine, blst_p1_cneg, blst_p1_generator, blst_p1_is_equal, blst_p1_mult,
    blst_p1_to_affine,
};
use interlock_test_kernels::sums::{Buckets, add, from_affine};
use interlock_test_kernels::{FIRST, NEGATED};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The generator times a small number; infinity for 0.
fn multiple(number: u64) -> blst_p1_affine {
    let (mut point, mut affine) = (blst_p1::default(), blst_p1_affine::default());
    // SAFETY: a valid point, a number of 64 bits, and room for both results.
    unsafe {
        blst_p1_mult(&mut point, blst_p1_generator(), number.to_le_bytes().as_ptr(), 64);
        blst_p1_to_affine(&mut affine, &point);
    }
    affine
}

/// Points, and entries for buckets of the given sizes that pick among them.
fn check(rng: &mut ChaCha8Rng, points: &[blst_p1_affine], sizes: &[u32], blocks: u32, batch: u32) {
    let (mut entries, mut starts, mut expected) = (Vec::new(), vec![0], Vec::new());
    for size in sizes {
        let mut sum = blst_p1::default();
        for place in 0..*size {
            let (index, negated) = (rng.gen_range(0..points.len()), rng.r#gen::<bool>());
            let mut point = from_affine(&points[index]);
            // SAFETY: a valid point.
            unsafe { blst_p1_cneg(&mut point, negated) };
            add(&mut sum, &point);
            let marks = if negated { NEGATED } else { 0 } | if place == 0 { FIRST } else { 0 };
            entries.push(index as u32 | marks);
        }
        starts.push(entries.len() as u32);
        expected.push(sum);
    }
    for late in [false, true] {
        let sums = Buckets { points, entries: &entries, starts: &starts }.sums(blocks, batch, late);
        for (bucket, (sum, expected)) in sums.iter().zip(&expected).enumerate() {
            // SAFETY: valid points.
            let same = unsafe { blst_p1_is_equal(sum, expected) };
            assert!(
                same,
                "bucket {bucket} of {} entries, {blocks} blocks, batch {batch}, late {late}",
                sizes[bucket]
            );
        }
    }
}

#[test]
fn points_that_are_all_different() {
    let rng = &mut ChaCha8Rng::seed_from_u64(1);
    let points: Vec<_> = (1..3000).map(|number| multiple(number * number)).collect();
    let sizes: Vec<u32> = (0..150).map(|_| rng.gen_range(0..90)).collect();
    check(rng, &points, &sizes, 2, 4);
    check(rng, &points, &sizes, 1, 13);
    check(rng, &points, &sizes, 1, 24);
}

/// Sums meet the point they are added to, its opposite, and infinity, all the time.
#[test]
fn points_that_are_few() {
    let rng = &mut ChaCha8Rng::seed_from_u64(2);
    for numbers in [&[0, 1, 2][..], &[0], &[5, 5, 7], &[1, 2, 3, 4, 6, 8, 0]] {
        let points: Vec<_> = numbers.iter().map(|number| multiple(*number)).collect();
        let sizes: Vec<u32> = (0..200).map(|_| rng.gen_range(0..50)).collect();
        check(rng, &points, &sizes, 1, 7);
    }
}

/// Runs that begin and end within one bucket, and fewer entries than there are runs.
#[test]
fn buckets_that_are_few() {
    let rng = &mut ChaCha8Rng::seed_from_u64(3);
    let points: Vec<_> = (0..40).map(multiple).collect();
    for sizes in [&[4000][..], &[0, 3, 0, 0, 5000, 1, 0], &[1], &[300, 0], &[0, 0]] {
        check(rng, &points, sizes, 1, 6);
        check(rng, &points, sizes, 2, 2);
    }
}
