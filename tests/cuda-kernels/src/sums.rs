//! Sums over buckets, in affine coordinates.

use blst::{blst_fp, blst_p1, blst_p1_add_or_double, blst_p1_affine, blst_p1_from_affine};

use crate::{FIRST, alone};

/// Threads of a block of `accumulate_batched`.
const LANES: u32 = 128;

/// Parts that a thread of `merge_runs` takes.
const MERGE_RUN: usize = 8;

/// The bucket of a part that there is not.
const NO_BUCKET: u32 = u32::MAX;

/// X, Y, ZZZ, ZZ.
type Xyzz = [blst_fp; 4];

/// Four words of 16 bytes, as the kernels read memory.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Quad([u32; 4]);

unsafe extern "C" {
    fn test_sum_batched(
        late: bool,
        blocks: u32,
        sums: *mut Xyzz,
        parts: *mut [blst_fp; 2],
        part_buckets: *mut u32,
        next_parts: *mut Xyzz,
        next_buckets: *mut u32,
        entries: *const u32,
        starts: *const u32,
        buckets: u32,
        points: *const Quad,
        run_sums: *mut Quad,
        run_products: *mut Quad,
        run_buckets: *mut u32,
        batch: u32,
    );
}

/// What a sum over buckets is made of.
pub struct Buckets<'a> {
    /// Affine points; both coordinates of infinity are 0.
    pub points: &'a [blst_p1_affine],
    /// Indices of points, sorted by bucket, with [`NEGATED`](crate::NEGATED) and [`FIRST`].
    pub entries: &'a [u32],
    /// Where each bucket's entries start, and where the last one's end.
    pub starts: &'a [u32],
}

impl Buckets<'_> {
    /// The sums of all buckets, by `accumulate_batched` with so many blocks and runs a thread, then by `merge_runs`. What these leave to
    /// be merged is added by blst. Copies are made when they are asked for, or as `late` as can be.
    ///
    /// # Panics
    /// When there is nothing to run, an entry has no point, or starts and [`FIRST`] do not fit each other.
    pub fn sums(&self, blocks: u32, batch: u32, late: bool) -> Vec<blst_p1> {
        let buckets = self.starts.len() - 1;
        assert!(blocks > 0 && batch > 0, "blocks, and runs for each thread");
        assert!(self.starts[0] == 0 && self.starts.is_sorted());
        assert_eq!(self.starts[buckets] as usize, self.entries.len());
        assert!(self.entries.iter().all(|entry| ((entry & (FIRST - 1)) as usize) < self.points.len()));
        let is_first = |place: &u32| self.starts[..buckets].contains(place);
        for (place, entry) in (0..).zip(self.entries) {
            assert_eq!(entry & FIRST != 0, is_first(&place), "entry {place}");
        }
        let runs = (blocks * LANES * batch) as usize;
        let merged = runs.div_ceil(MERGE_RUN).next_multiple_of(LANES as usize);
        // What nobody writes must not be read: it would not be on the curve.
        let junk = blst_fp { l: [0x5a5a_5a5a_5a5a_5a5a; 6] };
        let junk_quads = |count| vec![Quad([0x5a5a_5a5a; 4]); count];
        let mut sums = vec![[junk; 4]; buckets];
        let (mut parts, mut part_buckets) = (vec![[junk; 2]; runs], vec![0; runs]);
        let (mut next_parts, mut next_buckets) = (vec![[junk; 4]; merged], vec![NO_BUCKET; merged]);
        let (mut run_sums, mut run_products) = (junk_quads(6 * runs), junk_quads(3 * runs));
        let mut run_buckets = vec![0; runs];
        let points = self.quads();
        let _alone = alone();
        // SAFETY: there are as many elements as the kernels reach, by the checks and sizes above; field elements and points are the
        // same words on both sides, aligned to 16 bytes where they are read as such.
        unsafe {
            test_sum_batched(
                late,
                blocks,
                sums.as_mut_ptr(),
                parts.as_mut_ptr(),
                part_buckets.as_mut_ptr(),
                next_parts.as_mut_ptr(),
                next_buckets.as_mut_ptr(),
                self.entries.as_ptr(),
                self.starts.as_ptr(),
                buckets as u32,
                points.as_ptr(),
                run_sums.as_mut_ptr(),
                run_products.as_mut_ptr(),
                run_buckets.as_mut_ptr(),
                batch,
            );
        }
        let empty = |bucket: usize| self.starts[bucket] == self.starts[bucket + 1];
        let sum = |(bucket, sum): (usize, &Xyzz)| if empty(bucket) { blst_p1::default() } else { point(sum) };
        let mut sums: Vec<blst_p1> = sums.iter().enumerate().map(sum).collect();
        for (part, bucket) in next_parts.iter().zip(&next_buckets).filter(|(_, bucket)| **bucket != NO_BUCKET)
        {
            add(&mut sums[*bucket as usize], &point(part));
        }
        sums
    }

    fn quads(&self) -> Vec<Quad> {
        let limbs = self.points.iter().flat_map(|point| point.x.l.into_iter().chain(point.y.l));
        let limbs: Vec<u64> = limbs.collect();
        let words = |limb: u64| [limb as u32, (limb >> 32) as u32];
        limbs
            .chunks_exact(2)
            .map(|pair| {
                let ([a, b], [c, d]) = (words(pair[0]), words(pair[1]));
                Quad([a, b, c, d])
            })
            .collect()
    }
}

/// Adds a point to another.
pub fn add(sum: &mut blst_p1, point: &blst_p1) {
    let before = *sum;
    // SAFETY: valid points; blst allows infinity, and both being the same.
    unsafe { blst_p1_add_or_double(sum, &before, point) };
}

/// A point in Jacobian coordinates.
pub fn from_affine(affine: &blst_p1_affine) -> blst_p1 {
    let mut point = blst_p1::default();
    // SAFETY: a valid point or infinity.
    unsafe { blst_p1_from_affine(&mut point, affine) };
    point
}

/// The kernels' sums have ZZ 1, or 0 at infinity.
fn point([x, y, _, zz]: &Xyzz) -> blst_p1 {
    if zz.l == [0; 6] { blst_p1::default() } else { from_affine(&blst_p1_affine { x: *x, y: *y }) }
}
