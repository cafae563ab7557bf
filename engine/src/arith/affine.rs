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

/// How two points add up.
enum Case {
    /// One of them is the identity, or both cancel out: no division.
    Trivial,
    /// Different `x`.
    Chord,
    /// The same point twice.
    Tangent,
}

#[inline]
fn case<P: AffinePoint>(p: &P, q: &P) -> Case {
    if p.is_identity() || q.is_identity() {
        Case::Trivial
    } else if p.x() != q.x() {
        Case::Chord
    } else if p.y() == q.y() {
        Case::Tangent
    } else {
        Case::Trivial
    }
}

/// What `p + q` has to divide by; never zero, as no point of an odd-order curve has `y = 0`.
#[inline]
fn denominator<P: AffinePoint>(p: &P, q: &P) -> P::Field {
    match case(p, q) {
        Case::Trivial => P::Field::ONE,
        Case::Chord => q.x().sub(p.x()),
        Case::Tangent => p.y().add(p.y()),
    }
}

/// `p + q`, given the inverse of [`denominator`].
#[inline]
fn add_with_inverse<P: AffinePoint>(p: &P, q: &P, inverse: &P::Field) -> P {
    let numerator = match case(p, q) {
        Case::Chord => q.y().sub(p.y()),
        Case::Tangent => {
            let square = p.x().square();
            square.add(&square).add(&square)
        }
        Case::Trivial if p.is_identity() => return *q,
        Case::Trivial if q.is_identity() => return *p,
        Case::Trivial => return P::IDENTITY,
    };
    let lambda = numerator.mul(inverse);
    let x = lambda.square().sub(p.x()).sub(q.x());
    let y = p.x().sub(&x).mul(&lambda).sub(p.y());
    P::new(x, y)
}

/// Independent additions for [`add_batch`].
pub trait Additions<P> {
    /// How many there are.
    fn count(&self) -> usize;
    /// The two points of addition `index`. Asked for twice per addition.
    fn operands(&self, index: usize) -> (P, P);
    /// Takes the sum of addition `index`.
    fn store(&mut self, index: usize, sum: P);
}

/// Does `additions`. Sums are stored in ascending order, each right after its operands were read for
/// the last time: a sum may overwrite the operands of any addition up to its own.
///
/// `scratch` is overwritten.
///
/// # Panics
/// When `scratch` is shorter than the number of additions.
#[inline]
pub fn add_batch<P: AffinePoint>(additions: &mut impl Additions<P>, scratch: &mut [P::Field]) {
    let count = additions.count();
    if count == 0 {
        return;
    }
    // scratch[i] = product of the denominators after i
    let mut product = P::Field::ONE;
    for (index, slot) in scratch[..count].iter_mut().enumerate().rev() {
        let (p, q) = additions.operands(index);
        *slot = product;
        product = product.mul(&denominator(&p, &q));
    }
    // inverse = 1 / product of the denominators from i on
    let mut inverse = product.invert();
    for (index, later) in scratch[..count].iter().enumerate() {
        let (p, q) = additions.operands(index);
        let own = inverse.mul(later);
        inverse = inverse.mul(&denominator(&p, &q));
        additions.store(index, add_with_inverse(&p, &q, &own));
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    struct Pairs<P>(Vec<(P, P)>, Vec<P>);

    impl<P: AffinePoint> Additions<P> for Pairs<P> {
        fn count(&self) -> usize {
            self.0.len()
        }
        fn operands(&self, index: usize) -> (P, P) {
            self.0[index]
        }
        fn store(&mut self, index: usize, sum: P) {
            self.1[index] = sum;
        }
    }

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
        let mut batch = Pairs(pairs.clone(), vec![points[0]; pairs.len()]);
        add_batch(&mut batch, &mut vec![P::Field::ZERO; pairs.len()]);
        for ((p, q), sum) in pairs.iter().zip(&batch.1) {
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
