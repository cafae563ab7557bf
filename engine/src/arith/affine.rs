//! Affine curve points, added in batches.
//!
//! Adding two affine points takes a division. Divisions are shared: the inverses of a batch of
//! values cost one inversion and three multiplications each (Montgomery's trick), so that one
//! addition takes 5M + 1S, against 8M + 2S for the cheapest mixed addition without divisions.
//! The formulas are the textbook ones:
//!
//! ```text
//! lambda = (y2 - y1) / (x2 - x1), or 3 x1^2 / 2 y1 when both points are the same
//! x3 = lambda^2 - x1 - x2
//! y3 = lambda (x1 - x3) - y1
//! ```
//!
//! Nothing here takes constant time: neither do the multi-scalar multiplications it is made for.

use std::fmt::Debug;

use blst::{blst_fp, blst_fp2, blst_p1_affine, blst_p2_affine};
use blstrs::{G1Affine, G1Projective, G2Affine, G2Projective};
use group::Group;

use super::field::RawField;

/// A point of a curve `y^2 = x^3 + b` of odd order, in affine coordinates. `(0, 0)`, which is on
/// neither curve of BLS12-381, stands for the identity, as in blst.
pub trait AffinePoint: Copy + Debug + Send + Sync + 'static {
    /// What the coordinates are.
    type Field: RawField;
    /// The same point in the form that is added one at a time.
    type Group: Group + Copy + Debug + Send + Sync;
    /// The same point as the rest of the engine holds it.
    type Public: AsRef<Self> + AsMut<Self> + Copy + Debug + Default + Send + Sync;

    /// The neutral element.
    const IDENTITY: Self;

    /// The point with these coordinates.
    fn new(x: Self::Field, y: Self::Field) -> Self;
    /// First coordinate.
    fn x(&self) -> &Self::Field;
    /// Second coordinate.
    fn y(&self) -> &Self::Field;
    /// `sum += self`.
    fn add_to(&self, sum: &mut Self::Group);
    /// Affine form of `points`: one inversion for all of them.
    fn normalize(points: &[Self::Group]) -> Vec<Self>;

    /// Whether this is the neutral element.
    #[inline]
    fn is_identity(&self) -> bool {
        self.x().is_zero() && self.y().is_zero()
    }

    /// `-self`.
    #[inline]
    fn neg(&self) -> Self {
        Self::new(*self.x(), self.y().neg())
    }

    /// As the rest of the engine holds it.
    fn to_public(self) -> Self::Public {
        let mut out = Self::Public::default();
        *out.as_mut() = self;
        out
    }
}

/// Implements [`AffinePoint`] for a blst type and its blstrs counterparts.
macro_rules! affine_point {
    ($point:ty, $field:ty, $public:ty, $group:ty) => {
        impl AffinePoint for $point {
            type Field = $field;
            type Group = $group;
            type Public = $public;

            const IDENTITY: Self = Self { x: <$field>::ZERO, y: <$field>::ZERO };

            #[inline]
            fn new(x: $field, y: $field) -> Self {
                Self { x, y }
            }

            #[inline]
            fn x(&self) -> &$field {
                &self.x
            }

            #[inline]
            fn y(&self) -> &$field {
                &self.y
            }

            #[inline]
            fn add_to(&self, sum: &mut $group) {
                *sum += self.to_public();
            }

            fn normalize(points: &[$group]) -> Vec<Self> {
                use group::Curve;
                let mut affine = vec![<$public>::default(); points.len()];
                <$group>::batch_normalize(points, &mut affine);
                affine.iter().map(|point| *point.as_ref()).collect()
            }
        }
    };
}

affine_point!(blst_p1_affine, blst_fp, G1Affine, G1Projective);
affine_point!(blst_p2_affine, blst_fp2, G2Affine, G2Projective);

/// Whether `p + q` is an addition of the common kind: no identity, different `x`. Points with `x = 0`
/// count as special too, as the identity has it.
#[inline(always)]
fn is_common<P: AffinePoint>(p: &P, q: &P, difference: &P::Field) -> bool {
    !difference.is_zero() && !p.x().is_zero() && !q.x().is_zero()
}

/// Additions that are not [common](is_common).
enum Special {
    /// One is the identity, or both cancel out.
    Trivial,
    /// The same point twice.
    Tangent,
    /// Different points, one with `x = 0`.
    Chord,
}

#[cold]
fn special<P: AffinePoint>(p: &P, q: &P) -> Special {
    if p.is_identity() || q.is_identity() {
        Special::Trivial
    } else if p.x() != q.x() {
        Special::Chord
    } else if p.y() == q.y() {
        Special::Tangent
    } else {
        Special::Trivial
    }
}

/// What a special `p + q` has to divide by; never zero, as no point of an odd-order curve has `y = 0`.
#[cold]
fn special_denominator<P: AffinePoint>(p: &P, q: &P) -> P::Field {
    match special(p, q) {
        Special::Trivial => P::Field::ONE,
        Special::Tangent => p.y().add(p.y()),
        Special::Chord => q.x().sub(p.x()),
    }
}

/// A special `p + q`, given the inverse of [`special_denominator`].
#[cold]
fn special_sum<P: AffinePoint>(p: &P, q: &P, inverse: &P::Field) -> P {
    match special(p, q) {
        Special::Trivial if p.is_identity() => *q,
        Special::Trivial if q.is_identity() => *p,
        Special::Trivial => P::IDENTITY,
        Special::Tangent => {
            let square = p.x().square();
            let numerator = square.add(&square).add(&square);
            sum_with_slope(p, q, &numerator.mul(inverse))
        }
        Special::Chord => sum_with_slope(p, q, &q.y().sub(p.y()).mul(inverse)),
    }
}

#[inline(always)]
fn sum_with_slope<P: AffinePoint>(p: &P, q: &P, slope: &P::Field) -> P {
    let x = slope.square().sub(p.x()).sub(q.x());
    let y = p.x().sub(&x).mul(slope).sub(p.y());
    P::new(x, y)
}

/// `left[i] += right[i]` for all `i`. `scratch` is overwritten.
///
/// # Panics
/// When the slices differ in length, or `scratch` is shorter.
pub fn add_batch<P: AffinePoint>(left: &mut [P], right: &[P], scratch: &mut [P::Field]) {
    assert_eq!(left.len(), right.len(), "each point needs its partner");
    // scratch[i] = product of the denominators before i
    let mut product = P::Field::ONE;
    for ((p, q), slot) in left.iter().zip(right).zip(&mut scratch[..right.len()]) {
        *slot = product;
        let difference = q.x().sub(p.x());
        product = if is_common(p, q, &difference) {
            product.mul(&difference)
        } else {
            product.mul(&special_denominator(p, q))
        };
    }
    // inverse = 1 / product of the denominators up to i
    let mut inverse = product.invert();
    for ((p, q), before) in left.iter_mut().zip(right).zip(&scratch[..right.len()]).rev() {
        let own = inverse.mul(before);
        let difference = q.x().sub(p.x());
        if is_common(p, q, &difference) {
            inverse = inverse.mul(&difference);
            let slope = q.y().sub(p.y()).mul(&own);
            *p = sum_with_slope(p, q, &slope);
        } else {
            inverse = inverse.mul(&special_denominator(p, q));
            *p = special_sum(p, q, &own);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn agrees_with_projective<P: AffinePoint>() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let random: Vec<_> = (0..40).map(|_| P::Group::random(&mut rng)).collect();
        let points = P::normalize(&random);
        let mut pairs: Vec<_> = points.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        pairs.push((points[0], points[0]));
        pairs.push((points[1], points[1].neg()));
        pairs.push((P::IDENTITY, points[2]));
        pairs.push((points[3], P::IDENTITY));
        pairs.push((P::IDENTITY, P::IDENTITY));
        pairs.extend(points.chunks(2).map(|pair| (pair[1], pair[0])));
        let (mut sums, right): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        add_batch(&mut sums, &right, &mut vec![P::Field::ZERO; pairs.len()]);
        for ((p, q), sum) in pairs.iter().zip(&sums) {
            let mut expected = P::Group::identity();
            p.add_to(&mut expected);
            q.add_to(&mut expected);
            let mut found = P::Group::identity();
            sum.add_to(&mut found);
            assert!(expected == found);
            assert_eq!(bool::from(expected.is_identity()), sum.is_identity());
        }
    }

    #[test]
    fn g1_batches_agree_with_projective_addition() {
        agrees_with_projective::<blst_p1_affine>();
    }

    #[test]
    fn g2_batches_agree_with_projective_addition() {
        agrees_with_projective::<blst_p2_affine>();
    }
}
