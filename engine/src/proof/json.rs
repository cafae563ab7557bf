//! Points and scalars in snarkjs's JSON: decimal strings, points with a third coordinate of one.

use blstrs::{G1Affine, G2Affine, Scalar};
use ff::PrimeField;
use num_bigint::BigUint;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::format::field::{scalar_from_bytes, scalar_modulus};
use crate::format::points::{BASE_BYTES, Encoding, Fault, FilePoint, base_modulus};
use crate::format::{FormatError, Input, Reason};

pub(super) const PROTOCOL: &str = "groth16";
pub(super) const CURVE: &str = "bls12381";

pub(super) type G1Json = [String; 3];
pub(super) type G2Json = [[String; 2]; 3];

/// Digits of the greatest number: a base field element has 115.
const MOST_DIGITS: usize = 128;

/// Whether the first character that is no white space opens a JSON object or array.
pub(super) fn is_json(input: &Input) -> Result<bool, FormatError> {
    if input.is_empty() {
        return Err(input.error("the file", None, Reason::Empty));
    }
    let head = input.section("the file", 0, input.len().min(64)).take_head()?;
    Ok(matches!(head.trim_ascii_start().first(), Some(b'{' | b'[')))
}

/// Parses a whole file of at most `limit` bytes. Returns its text too, in which errors find their place.
pub(super) fn parse<T: DeserializeOwned>(input: &Input, limit: u64) -> Result<(String, T), FormatError> {
    let bytes = input.read_all(limit)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to() as u64;
        input.error("the JSON text", Some(offset), Reason::Json("not UTF-8".to_owned()))
    })?;
    let value = serde_json::from_str(&text).map_err(|error| {
        let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
        let offset = lines.map(str::len).sum::<usize>() + error.column();
        input.error("the JSON text", Some(offset as u64), Reason::Json(error.to_string()))
    })?;
    Ok((text, value))
}

pub(super) fn to_text(value: &impl Serialize) -> String {
    // Strings, numbers and sequences always have a JSON form.
    serde_json::to_string_pretty(value).expect("plain data has a JSON form") + "\n"
}

/// The fields of a JSON file: turns them into points, with errors that name the field.
pub(super) struct Fields<'a> {
    pub(super) input: &'a Input,
    pub(super) text: &'a str,
}

impl Fields<'_> {
    pub(super) fn error(&self, field: &str, reason: Reason) -> FormatError {
        let offset = self.text.find(&format!("\"{field}\"")).map(|at| at as u64);
        self.input.error(format!("field {field}"), offset, reason)
    }

    pub(super) fn expect_groth16(&self, protocol: &str, curve: &str) -> Result<(), FormatError> {
        if protocol != PROTOCOL {
            return Err(self.error("protocol", Reason::WrongProtocol { found: protocol.to_owned() }));
        }
        if curve != CURVE {
            let (expected, found) = (CURVE.to_owned(), curve.to_owned());
            return Err(self.error("curve", Reason::WrongCurve { expected, found }));
        }
        Ok(())
    }

    pub(super) fn g1(&self, field: &str, index: usize, point: &G1Json) -> Result<G1Affine, FormatError> {
        let [x, y, z] = point;
        self.point(field, index, &[x, y], (z == "1", z == "0"))
    }

    pub(super) fn g2(&self, field: &str, index: usize, point: &G2Json) -> Result<G2Affine, FormatError> {
        let [x, y, z] = point;
        let z = (z[0] == "1" && z[1] == "0", z[0] == "0" && z[1] == "0");
        // The uncompressed form has the coefficient of u first.
        self.point(field, index, &[&x[1], &x[0], &y[1], &y[0]], z)
    }

    /// `z` says whether the third coordinate is one, and whether it is zero.
    fn point<P: FilePoint>(
        &self,
        field: &str,
        index: usize,
        coordinates: &[&String],
        z: (bool, bool),
    ) -> Result<P, FormatError> {
        let index = index as u64;
        let decoded = match z {
            (true, _) => decode::<P>(coordinates),
            (_, true) => return Err(self.error(field, Reason::PointAtInfinity { index })),
            _ => Err(Fault::Encoding),
        };
        let reason = match decoded {
            Ok(point) if point.in_subgroup() => return Ok(point),
            Ok(_) | Err(Fault::Subgroup) => Reason::PointNotInSubgroup { index },
            Err(Fault::Encoding) => Reason::NonCanonicalPoint { index },
            Err(Fault::Curve) => Reason::PointNotOnCurve { index },
        };
        Err(self.error(field, reason))
    }
}

fn decode<P: FilePoint>(coordinates: &[&String]) -> Result<P, Fault> {
    let modulus = base_modulus();
    let mut bytes = Vec::with_capacity(P::BYTES);
    for coordinate in coordinates {
        let value = decimal(coordinate).filter(|value| *value < modulus).ok_or(Fault::Encoding)?;
        let digits = value.to_bytes_be();
        bytes.resize(bytes.len() + BASE_BYTES - digits.len(), 0);
        bytes.extend(digits);
    }
    P::decode(&bytes, Encoding::Uncompressed)
}

fn decimal(text: &str) -> Option<BigUint> {
    let plain = !text.is_empty() && text.len() <= MOST_DIGITS && text.bytes().all(|b| b.is_ascii_digit());
    if plain { BigUint::parse_bytes(text.as_bytes(), 10) } else { None }
}

/// A scalar from a decimal string, when it is below the order of the field.
pub(super) fn scalar(text: &str) -> Option<Scalar> {
    let value = decimal(text).filter(|value| *value < scalar_modulus())?;
    let mut bytes = value.to_bytes_le();
    bytes.resize(32, 0);
    scalar_from_bytes(&bytes)
}

pub(super) fn from_scalar(scalar: &Scalar) -> String {
    BigUint::from_bytes_le(&scalar.to_repr()).to_string()
}

fn coordinates<const N: usize>(uncompressed: &[u8]) -> [String; N] {
    std::array::from_fn(|i| BigUint::from_bytes_be(&uncompressed[i * BASE_BYTES..][..BASE_BYTES]).to_string())
}

/// The JSON form of a point that is not infinity.
pub(super) fn from_g1(point: &G1Affine) -> G1Json {
    let [x, y] = coordinates(&point.to_uncompressed());
    [x, y, "1".to_owned()]
}

/// The JSON form of a point that is not infinity.
pub(super) fn from_g2(point: &G2Affine) -> G2Json {
    let [x1, x0, y1, y0] = coordinates(&point.to_uncompressed());
    [[x0, x1], [y0, y1], ["1".to_owned(), "0".to_owned()]]
}
