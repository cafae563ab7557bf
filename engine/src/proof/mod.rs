//! Proofs, public inputs and verifying keys, in and out, and whether a proof holds.

use std::path::Path;

use blstrs::{Bls12, G1Affine, G2Affine, Scalar};
use group::GroupEncoding;
use serde::{Deserialize, Serialize};

mod json;
mod verify;
pub mod vkey;

use crate::format::points::FilePoint;
use crate::format::{FormatError, Input, Reason};
use json::{Fields, G1Json, G2Json};

pub use bellperson::groth16::Proof;
pub use verify::{Verifier, VerifyError, verify};

/// Bytes of a proof in bellperson's form: A and C in G1 and B in G2, compressed.
pub const PROOF_BYTES: usize = 48 + 96 + 48;

/// The longest proof in JSON, in bytes: a thousand times what snarkjs writes is no proof.
const MOST_PROOF_BYTES: u64 = 1 << 20;

/// The longest list of public inputs, in bytes: some 800,000 of them.
const MOST_PUBLIC_BYTES: u64 = 1 << 26;

#[derive(Serialize, Deserialize)]
struct ProofJson {
    pi_a: G1Json,
    pi_b: G2Json,
    pi_c: G1Json,
    protocol: String,
    curve: String,
}

/// Reads a proof: snarkjs's JSON when its first character is `{`, bellperson's bytes otherwise.
///
/// # Errors
/// When the file is neither, or a point is infinity, off the curve or outside the subgroup.
pub fn read(input: &Input) -> Result<Proof<Bls12>, FormatError> {
    if json::is_json(input)? { read_json(input) } else { read_bytes(input) }
}

fn read_json(input: &Input) -> Result<Proof<Bls12>, FormatError> {
    let (text, proof): (_, ProofJson) = json::parse(input, MOST_PROOF_BYTES)?;
    let fields = Fields { input, text: &text };
    fields.expect_groth16(&proof.protocol, &proof.curve)?;
    Ok(Proof {
        a: fields.g1("pi_a", 0, &proof.pi_a)?,
        b: fields.g2("pi_b", 0, &proof.pi_b)?,
        c: fields.g1("pi_c", 0, &proof.pi_c)?,
    })
}

fn read_bytes(input: &Input) -> Result<Proof<Bls12>, FormatError> {
    let mut section = input.section("the proof", 0, input.len());
    section.require_exactly(1, PROOF_BYTES as u64)?;
    let a = compressed(section.take(48)?, G1Affine::from_compressed_unchecked);
    let b = compressed(section.take(96)?, G2Affine::from_compressed_unchecked);
    let c = compressed(section.take(48)?, G1Affine::from_compressed_unchecked);
    Ok(Proof {
        a: a.map_err(|reason| input.error("A of the proof", Some(0), reason))?,
        b: b.map_err(|reason| input.error("B of the proof", Some(48), reason))?,
        c: c.map_err(|reason| input.error("C of the proof", Some(48 + 96), reason))?,
    })
}

/// Reads a compressed point. There is one encoding of each point, so that whatever cannot be read is
/// not canonical or has an x that no point of the curve has.
fn compressed<P: FilePoint, const N: usize, R: Into<Option<P>>>(
    bytes: &[u8],
    read: fn(&[u8; N]) -> R,
) -> Result<P, Reason> {
    let index = 0;
    let point = bytes.try_into().ok().and_then(|bytes| read(bytes).into());
    let point: P = point.ok_or(Reason::NonCanonicalPoint { index })?;
    if point.is_identity().into() {
        return Err(Reason::PointAtInfinity { index });
    }
    if !point.in_subgroup() {
        return Err(Reason::PointNotInSubgroup { index });
    }
    Ok(point)
}

/// The proof as snarkjs's `proof.json`.
pub fn to_json(proof: &Proof<Bls12>) -> String {
    json::to_text(&ProofJson {
        pi_a: json::from_g1(&proof.a),
        pi_b: json::from_g2(&proof.b),
        pi_c: json::from_g1(&proof.c),
        protocol: json::PROTOCOL.to_owned(),
        curve: json::CURVE.to_owned(),
    })
}

/// The proof as bellperson's `Proof::write` writes it.
pub fn to_bytes(proof: &Proof<Bls12>) -> [u8; PROOF_BYTES] {
    let mut bytes = [0; PROOF_BYTES];
    bytes[..48].copy_from_slice(proof.a.to_bytes().as_ref());
    bytes[48..144].copy_from_slice(proof.b.to_bytes().as_ref());
    bytes[144..].copy_from_slice(proof.c.to_bytes().as_ref());
    bytes
}

/// Reads public inputs: a JSON array of decimal strings, as snarkjs's `public.json`.
///
/// # Errors
/// When the file is no such array, or a number is not below the order of the scalar field. (A number
/// beyond it would be a second name for the same input.)
pub fn read_public(input: &Input) -> Result<Vec<Scalar>, FormatError> {
    if input.is_empty() {
        return Err(input.error("the file", None, Reason::Empty));
    }
    let (_, numbers): (_, Vec<String>) = json::parse(input, MOST_PUBLIC_BYTES)?;
    let scalar = |(index, text): (usize, &String)| {
        let index = index as u64;
        let reason = if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
            Reason::NonCanonicalScalar { index }
        } else {
            Reason::Json(format!("number {index} is not a decimal number"))
        };
        json::scalar(text).ok_or_else(|| input.error("the public inputs", None, reason))
    };
    numbers.iter().enumerate().map(scalar).collect()
}

/// Public inputs as snarkjs's `public.json`.
pub fn public_to_json(inputs: &[Scalar]) -> String {
    json::to_text(&inputs.iter().map(json::from_scalar).collect::<Vec<_>>())
}

/// Reads a proof from a file; see [`read`].
///
/// # Errors
/// See [`read`].
pub fn open(path: impl AsRef<Path>) -> Result<Proof<Bls12>, FormatError> {
    read(&Input::open(path)?)
}
