//! Verifying keys, in and out: snarkjs's `verification_key.json` and bellperson's bytes.
//!
//! The JSON leaves out beta and delta in G1, which only a prover needs: keys that come from it
//! hold the point at infinity there. They verify, but cannot be written in bellperson's form.

use std::io::{self, Write};

use blstrs::{Bls12, G1Affine};
use group::prime::PrimeCurveAffine;
use serde::{Deserialize, Serialize};

use super::json::{self, Fields, G1Json, G2Json};
use crate::format::points::{Encoding, FilePoint, read_finite, read_point};
use crate::format::{FormatError, Input, PointCheck, Reason, Section};

pub use bellperson::groth16::VerifyingKey;

/// The longest key that is read, in bytes: a million public inputs in JSON.
const MOST_BYTES: u64 = 1 << 28;

/// Reads a verifying key: JSON when its first character is `{`, bellperson's bytes otherwise.
///
/// # Errors
/// When the file is neither, or a point in it is bad.
pub fn read(input: &Input) -> Result<VerifyingKey<Bls12>, FormatError> {
    if json::is_json(input)? {
        return read_json(input);
    }
    let mut section = input.section("the verifying key", 0, input.len());
    let key = read_uncompressed(&mut section, |bytes, count| {
        let left = bytes / G1Affine::BYTES as u64;
        match u64::from(count) <= left {
            true => Ok(()),
            false => {
                Err(Reason::CountMismatch { what: "the points of IC", expected: left, found: count.into() })
            }
        }
    })?;
    section.finish()?;
    Ok(key)
}

/// Reads bellperson's bytes, with every check. `accept` gets the number of bytes left and the number of
/// points in IC, before those are read.
pub(crate) fn read_uncompressed(
    section: &mut Section,
    accept: impl FnOnce(u64, u32) -> Result<(), Reason>,
) -> Result<VerifyingKey<Bls12>, FormatError> {
    let encoding = Encoding::Uncompressed;
    let alpha_g1 = read_point(section, encoding, 0)?;
    let beta_g1 = read_point(section, encoding, 1)?;
    let beta_g2 = read_point(section, encoding, 2)?;
    let gamma_g2 = read_point(section, encoding, 3)?;
    let delta_g1 = read_point(section, encoding, 4)?;
    let delta_g2 = read_point(section, encoding, 5)?;
    let at = section.position();
    let count = section.u32_be()?;
    accept(section.remaining(), count).map_err(|reason| section.error_at(at, reason))?;
    section.rename("the verifying key's IC");
    let ic = read_finite(section, count as usize, encoding, PointCheck::Full)?;
    Ok(VerifyingKey { alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1, delta_g2, ic })
}

#[derive(Serialize, Deserialize)]
struct KeyJson {
    protocol: String,
    curve: String,
    #[serde(rename = "nPublic")]
    n_public: u64,
    vk_alpha_1: G1Json,
    vk_beta_2: G2Json,
    vk_gamma_2: G2Json,
    vk_delta_2: G2Json,
    #[serde(rename = "IC")]
    ic: Vec<G1Json>,
}

fn read_json(input: &Input) -> Result<VerifyingKey<Bls12>, FormatError> {
    let (text, key): (_, KeyJson) = json::parse(input, MOST_BYTES)?;
    let fields = Fields { input, text: &text };
    fields.expect_groth16(&key.protocol, &key.curve)?;
    let ic = key.ic.iter().enumerate();
    let ic = ic.map(|(index, point)| fields.g1("IC", index, point)).collect::<Result<Vec<_>, _>>()?;
    if ic.len() as u64 != key.n_public.saturating_add(1) {
        let (expected, found) = (key.n_public.saturating_add(1), ic.len() as u64);
        return Err(fields.error("IC", Reason::CountMismatch { what: "the points of IC", expected, found }));
    }
    Ok(VerifyingKey {
        alpha_g1: fields.g1("vk_alpha_1", 0, &key.vk_alpha_1)?,
        beta_g1: G1Affine::identity(),
        beta_g2: fields.g2("vk_beta_2", 0, &key.vk_beta_2)?,
        gamma_g2: fields.g2("vk_gamma_2", 0, &key.vk_gamma_2)?,
        delta_g1: G1Affine::identity(),
        delta_g2: fields.g2("vk_delta_2", 0, &key.vk_delta_2)?,
        ic,
    })
}

/// The key as snarkjs's `verification_key.json`, without `vk_alphabeta_12`, which no verifier reads.
pub fn to_json(key: &VerifyingKey<Bls12>) -> String {
    json::to_text(&KeyJson {
        protocol: json::PROTOCOL.to_owned(),
        curve: json::CURVE.to_owned(),
        n_public: key.ic.len().saturating_sub(1) as u64,
        vk_alpha_1: json::from_g1(&key.alpha_g1),
        vk_beta_2: json::from_g2(&key.beta_g2),
        vk_gamma_2: json::from_g2(&key.gamma_g2),
        vk_delta_2: json::from_g2(&key.delta_g2),
        ic: key.ic.iter().map(json::from_g1).collect(),
    })
}

/// Writes the key as bellperson's `VerifyingKey::write` does.
///
/// # Errors
/// Those of `writer`, and [`io::ErrorKind::InvalidInput`] for a key that came from JSON.
pub fn write_bytes(key: &VerifyingKey<Bls12>, writer: impl Write) -> io::Result<()> {
    if bool::from(key.beta_g1.is_identity() | key.delta_g1.is_identity()) {
        let message = "a verifying key that was read from JSON lacks beta and delta in G1, which bellperson's \
                       form holds";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    key.write(writer)
}
