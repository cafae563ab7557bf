//! Points in files: the two encodings, and how much of them is checked.
//!
//! Every point is checked to be a canonical encoding of a point on the curve: that costs a few
//! field multiplications, less than reading it. Being in the subgroup of prime order costs a hundred
//! times as much, so that by default a sample of each section is checked for it; see [`PointCheck`].

use blst::{blst_fp, blst_fp2, blst_p1_affine, blst_p2_affine};
use blstrs::{G1Affine, G2Affine};
use group::prime::PrimeCurveAffine;
use rand::Rng;
use rayon::prelude::*;

use super::{FormatError, Reason, Section};

/// How many points of a big section are checked to be in the subgroup of prime order.
///
/// Under either choice every point is checked to be canonically encoded and on the curve, and every
/// point of a verifying key or a proof, and every point of a section of up to
/// [`PointCheck::SAMPLE`] points, is checked to be in the subgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PointCheck {
    /// [`PointCheck::SAMPLE`] points of each section, picked at random each time. A section with one
    /// bad point in a hundred escapes with a chance of 1 in 29,000; a single bad point most likely
    /// escapes. A proof made with a bad point does not verify, and no proof leaves the engine unverified.
    #[default]
    Sampled,
    /// Every point: for an SRS from a source that is not trusted.
    Full,
}

impl PointCheck {
    /// Points per section that [`PointCheck::Sampled`] checks.
    pub const SAMPLE: usize = 1024;

    /// The indices to check among `count` points, ascending: one from each of equal spans. Nothing when
    /// all are to be checked.
    fn picks(self, count: usize) -> Option<Vec<usize>> {
        if self == Self::Full || count <= Self::SAMPLE {
            return None;
        }
        let mut rng = rand::thread_rng();
        let bound = |span: usize| (span as u128 * count as u128 / Self::SAMPLE as u128) as usize;
        Some((0..Self::SAMPLE).map(|span| rng.gen_range(bound(span)..bound(span + 1))).collect())
    }
}

/// How the bytes of a point are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// snarkjs: affine x, y, little-endian, in Montgomery form with R = 2^384; infinity is all zeros.
    Montgomery,
    /// bellperson, Zcash: affine x, y, big-endian, flags in the top three bits.
    Uncompressed,
}

/// The modulus of the base field in 64-bit limbs, the least significant first
/// (draft-irtf-cfrg-pairing-friendly-curves, section 4.2.1).
const BASE_MODULUS: [u64; 6] = [
    0xb9fe_ffff_ffff_aaab,
    0x1eab_fffe_b153_ffff,
    0x6730_d2a0_f6b0_f624,
    0x6477_4b84_f385_12bf,
    0x4b1b_a7b6_434b_acd7,
    0x1a01_11ea_397f_e69a,
];

/// Bytes of an element of the base field.
pub(crate) const BASE_BYTES: usize = 48;

/// The modulus of the base field.
pub(crate) fn base_modulus() -> num_bigint::BigUint {
    num_bigint::BigUint::from_bytes_le(&BASE_MODULUS.map(u64::to_le_bytes).concat())
}

fn below_modulus(limbs: &[u64; 6]) -> bool {
    limbs.iter().rev().lt(BASE_MODULUS.iter().rev())
}

fn montgomery_element(bytes: &[u8]) -> Option<blst_fp> {
    let (limbs, _) = bytes.as_chunks::<8>();
    let limbs: [u64; 6] = std::array::from_fn(|i| u64::from_le_bytes(limbs[i]));
    below_modulus(&limbs).then_some(blst_fp { l: limbs })
}

/// What is wrong with a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes are not the one encoding of a point.
    Encoding,
    /// The curve equation does not hold.
    Curve,
    /// The point is not in the subgroup of prime order.
    Subgroup,
}

/// A point of one of the two groups, as files hold it.
pub(crate) trait FilePoint: PrimeCurveAffine + Send + Sync {
    /// Bytes in either encoding.
    const BYTES: usize;

    /// Reads `Self::BYTES` bytes. The result is on the curve, or infinity.
    fn decode(bytes: &[u8], encoding: Encoding) -> Result<Self, Fault>;

    /// Whether the point is in the subgroup of prime order.
    fn in_subgroup(&self) -> bool;
}

impl FilePoint for G1Affine {
    const BYTES: usize = 2 * BASE_BYTES;

    fn decode(bytes: &[u8], encoding: Encoding) -> Result<Self, Fault> {
        match encoding {
            Encoding::Montgomery => {
                let element = |i: usize| montgomery_element(&bytes[i * BASE_BYTES..][..BASE_BYTES]);
                let (x, y) = element(0).zip(element(1)).ok_or(Fault::Encoding)?;
                let mut point = Self::identity();
                *point.as_mut() = blst_p1_affine { x, y };
                checked(point, point.is_on_curve().into())
            }
            Encoding::Uncompressed => {
                uncompressed(bytes, |bytes| Self::from_uncompressed_unchecked(bytes.try_into().ok()?).into())
            }
        }
    }

    fn in_subgroup(&self) -> bool {
        self.is_torsion_free().into()
    }
}

impl FilePoint for G2Affine {
    const BYTES: usize = 4 * BASE_BYTES;

    fn decode(bytes: &[u8], encoding: Encoding) -> Result<Self, Fault> {
        match encoding {
            Encoding::Montgomery => {
                let element = |i: usize| montgomery_element(&bytes[i * BASE_BYTES..][..BASE_BYTES]);
                let pair = |i: usize| Some(blst_fp2 { fp: [element(i)?, element(i + 1)?] });
                let (x, y) = pair(0).zip(pair(2)).ok_or(Fault::Encoding)?;
                let mut point = Self::identity();
                *point.as_mut() = blst_p2_affine { x, y };
                checked(point, point.is_on_curve().into())
            }
            Encoding::Uncompressed => {
                uncompressed(bytes, |bytes| Self::from_uncompressed_unchecked(bytes.try_into().ok()?).into())
            }
        }
    }

    fn in_subgroup(&self) -> bool {
        self.is_torsion_free().into()
    }
}

fn checked<P: FilePoint>(point: P, on_curve: bool) -> Result<P, Fault> {
    match on_curve || bool::from(point.is_identity()) {
        true => Ok(point),
        false => Err(Fault::Curve),
    }
}

/// Reads an uncompressed point with blst's `read`, which checks the curve equation, but would take a
/// compressed point too.
fn uncompressed<P>(bytes: &[u8], read: impl Fn(&[u8]) -> Option<P>) -> Result<P, Fault> {
    const COMPRESSED: u8 = 0x80;
    const SIGN: u8 = 0x20;
    if bytes[0] & (COMPRESSED | SIGN) != 0 {
        return Err(Fault::Encoding);
    }
    read(bytes).ok_or_else(|| {
        let canonical = bytes[0] >> 5 == 0 && bytes.chunks_exact(BASE_BYTES).all(below_modulus_be);
        let x = &bytes[..bytes.len() / 2];
        match canonical {
            false => Fault::Encoding,
            // blst refuses x = 0 at once: no such point is in either subgroup.
            true if x.iter().all(|&byte| byte == 0) => Fault::Subgroup,
            true => Fault::Curve,
        }
    })
}

fn below_modulus_be(element: &[u8]) -> bool {
    let limb = |i: usize| element[BASE_BYTES - 8 * (i + 1)..][..8].iter();
    let limbs = std::array::from_fn(|i| limb(i).fold(0, |sum, &byte| sum << 8 | u64::from(byte)));
    below_modulus(&limbs)
}

fn reason(fault: Fault, index: u64) -> Reason {
    match fault {
        Fault::Encoding => Reason::NonCanonicalPoint { index },
        Fault::Curve => Reason::PointNotOnCurve { index },
        Fault::Subgroup => Reason::PointNotInSubgroup { index },
    }
}

/// Reads one point with every check; infinity is refused. `index` is for errors.
pub(crate) fn read_point<P: FilePoint>(
    section: &mut Section,
    encoding: Encoding,
    index: u64,
) -> Result<P, FormatError> {
    let start = section.position();
    let decoded = P::decode(section.take(P::BYTES)?, encoding);
    let reason = match decoded {
        Ok(point) if bool::from(point.is_identity()) => Reason::PointAtInfinity { index },
        Ok(point) if !point.in_subgroup() => Reason::PointNotInSubgroup { index },
        Ok(point) => return Ok(point),
        Err(fault) => reason(fault, index),
    };
    Err(section.error_at(start, reason))
}

/// Reads `count` points, of which all, a sample or none may be infinity: `each` gets them in order
/// with their index, and says whether it takes them.
pub(crate) fn read_points<P: FilePoint>(
    section: &mut Section,
    count: usize,
    encoding: Encoding,
    check: PointCheck,
    mut each: impl FnMut(usize, P) -> Result<(), Reason>,
) -> Result<(), FormatError> {
    section.require((count as u64).saturating_mul(P::BYTES as u64))?;
    let start = section.position();
    let offset = |index: usize| start + (index * P::BYTES) as u64;
    let picks = check.picks(count);
    let mut first = 0;
    while first < count {
        let bytes = section.take_items(P::BYTES, count - first)?;
        let points: Vec<Result<P, Fault>> =
            bytes.par_chunks_exact(P::BYTES).map(|bytes| P::decode(bytes, encoding)).collect();
        let bad = |index: &usize| matches!(&points[index - first], Ok(point) if !point.in_subgroup());
        let here = first..first + points.len();
        let outside = match &picks {
            None => here.into_par_iter().find_first(bad),
            Some(picks) => {
                let at = |bound: usize| picks.partition_point(|&pick| pick < bound);
                picks[at(here.start)..at(here.end)].par_iter().copied().find_first(bad)
            }
        };
        for (index, point) in (first..).zip(&points) {
            let taken = match point {
                Ok(_) if Some(index) == outside => Err(Reason::PointNotInSubgroup { index: index as u64 }),
                Ok(point) => each(index, *point),
                Err(fault) => Err(reason(*fault, index as u64)),
            };
            taken.map_err(|reason| section.error_at(offset(index), reason))?;
        }
        first += points.len();
    }
    Ok(())
}

/// Reads `count` points; infinity is refused.
pub(crate) fn read_finite<P: FilePoint>(
    section: &mut Section,
    count: usize,
    encoding: Encoding,
    check: PointCheck,
) -> Result<Vec<P>, FormatError> {
    section.require((count as u64).saturating_mul(P::BYTES as u64))?;
    let mut points = Vec::with_capacity(count);
    read_points(section, count, encoding, check, |index, point: P| {
        if point.is_identity().into() {
            return Err(Reason::PointAtInfinity { index: index as u64 });
        }
        points.push(point);
        Ok(())
    })?;
    Ok(points)
}

/// Reads `count` points; infinity is kept.
pub(crate) fn read_all<P: FilePoint>(
    section: &mut Section,
    count: usize,
    encoding: Encoding,
    check: PointCheck,
) -> Result<Vec<P>, FormatError> {
    section.require((count as u64).saturating_mul(P::BYTES as u64))?;
    let mut points = Vec::with_capacity(count);
    read_points(section, count, encoding, check, |_, point| {
        points.push(point);
        Ok(())
    })?;
    Ok(points)
}

#[cfg(test)]
mod tests {
    use blstrs::Scalar;
    use group::Curve;

    use super::*;
    use crate::format::Input;

    #[test]
    fn modulus_is_the_one_blst_uses() {
        // p - 1 is the largest canonical coordinate, p is not one.
        let bytes = BASE_MODULUS.map(u64::to_le_bytes).concat();
        assert!(montgomery_element(&bytes).is_none());
        let mut below = bytes.clone();
        below[0] -= 1;
        assert!(montgomery_element(&below).is_some());
        // -y = p - y in the encoding of the negated generator.
        let (plus, minus) = (G1Affine::generator(), -G1Affine::generator());
        let y = |point: &G1Affine| num_bigint::BigUint::from_bytes_be(&point.to_uncompressed()[48..]);
        assert_eq!(y(&plus) + y(&minus), base_modulus());
    }

    #[test]
    fn picks_are_ascending_and_within() {
        for count in [1025, 5000, 1 << 27] {
            let picks = PointCheck::Sampled.picks(count).unwrap();
            assert_eq!(picks.len(), PointCheck::SAMPLE);
            assert!(picks.is_sorted_by(|a, b| a < b));
            assert!(picks.last().is_some_and(|&last| last < count));
        }
        assert_eq!(PointCheck::Sampled.picks(1024), None);
        assert_eq!(PointCheck::Full.picks(2000), None);
    }

    fn montgomery(point: &G1Affine) -> Vec<u8> {
        let raw: &blst_p1_affine = point.as_ref();
        [raw.x.l, raw.y.l].concat().iter().flat_map(|limb| limb.to_le_bytes()).collect()
    }

    fn read(bytes: Vec<u8>, encoding: Encoding) -> Result<Vec<G1Affine>, FormatError> {
        let input = Input::from_bytes("points", bytes);
        let count = input.len() as usize / G1Affine::BYTES;
        read_finite(&mut input.section("test", 0, input.len()), count, encoding, PointCheck::Sampled)
    }

    #[test]
    fn both_encodings_are_read_back() {
        let points: Vec<G1Affine> =
            (1..2000u64).map(|k| (G1Affine::generator() * Scalar::from(k)).to_affine()).collect();
        let raw = points.iter().flat_map(montgomery).collect();
        assert!(read(raw, Encoding::Montgomery).unwrap() == points);
        let flat = points.iter().flat_map(G1Affine::to_uncompressed).collect();
        assert!(read(flat, Encoding::Uncompressed).unwrap() == points);
    }

    #[test]
    fn each_fault_has_its_reason_and_place() {
        let good = G1Affine::generator();
        type Case = (fn(&mut [u8]), Encoding, fn(&Reason) -> bool);
        let cases: [Case; 5] = [
            (|b| b[1] ^= 1, Encoding::Montgomery, |r| matches!(r, Reason::PointNotOnCurve { index: 1 })),
            (|b| b[47] = 0xff, Encoding::Montgomery, |r| matches!(r, Reason::NonCanonicalPoint { index: 1 })),
            (|b| b.fill(0), Encoding::Montgomery, |r| matches!(r, Reason::PointAtInfinity { index: 1 })),
            (|b| b[95] ^= 1, Encoding::Uncompressed, |r| matches!(r, Reason::PointNotOnCurve { index: 1 })),
            (
                |b| b[0] |= 0x80,
                Encoding::Uncompressed,
                |r| matches!(r, Reason::NonCanonicalPoint { index: 1 }),
            ),
        ];
        for (damage, encoding, expected) in cases {
            let one = match encoding {
                Encoding::Montgomery => montgomery(&good),
                Encoding::Uncompressed => good.to_uncompressed().to_vec(),
            };
            let mut bytes = [one.clone(), one].concat();
            damage(&mut bytes[96..]);
            let error = read(bytes, encoding).unwrap_err();
            assert!(expected(&error.reason), "{error}");
            assert_eq!(error.offset, Some(96));
        }
    }

    /// A point of the curve y^2 = x^3 + 4 with a small x, which is in the subgroup with a chance of
    /// 1 in 2^125.
    fn outside() -> G1Affine {
        let point = (1..20u8).find_map(|x| {
            let mut bytes = [0; 48];
            (bytes[0], bytes[47]) = (0x80, x);
            Option::from(G1Affine::from_compressed_unchecked(&bytes))
        });
        point.unwrap()
    }

    #[test]
    fn a_point_outside_the_subgroup_is_refused() {
        let small = outside();
        let mut order_3 = [0; 96];
        order_3[95] = 2;
        for (bytes, encoding) in [
            (small.to_uncompressed().to_vec(), Encoding::Uncompressed),
            (montgomery(&small), Encoding::Montgomery),
            (order_3.to_vec(), Encoding::Uncompressed),
        ] {
            let error = read(bytes, encoding).unwrap_err();
            assert!(matches!(error.reason, Reason::PointNotInSubgroup { index: 0 }), "{error}");
        }
    }

    #[test]
    fn a_full_check_finds_the_one_point_in_thousands() {
        let good = G1Affine::generator().to_uncompressed();
        let mut bytes = good.repeat(3000);
        bytes[96 * 2345..][..96].copy_from_slice(&outside().to_uncompressed());
        let input = Input::from_bytes("points", bytes);
        let mut section = input.section("test", 0, input.len());
        let read = read_finite::<G1Affine>(&mut section, 3000, Encoding::Uncompressed, PointCheck::Full);
        let error = read.unwrap_err();
        assert!(matches!(error.reason, Reason::PointNotInSubgroup { index: 2345 }), "{error}");
        assert_eq!(error.offset, Some(2345 * 96));
    }
}
