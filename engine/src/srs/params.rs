//! bellperson's and bellman's `.params`: what Filecoin's and Zcash's ceremonies left behind.
//!
//! Counts are big-endian `u32`, points uncompressed, in this order: the verifying key (alpha in G1, beta
//! in G1 and G2, gamma in G2, delta in G1 and G2, count and points of IC), then h, l, a, b in G1, b in
//! G2, each with its count.
//!
//! The `a` and `b` vectors leave out points at infinity without saying which variables those
//! belong to. The writer drops them by value: variable `i` has no point when `u_i(x)` (or `v_i(x)`) is
//! zero. bellperson's prover goes by structure: it expects a point for each variable that some
//! constraint mentions with a coefficient that is not zero, once the terms of one variable are summed,
//! and for each public input in `a`. The two agree: such a variable's polynomial is not the zero
//! polynomial, and vanishes at the secret `x` only with a chance of (domain size) / 2^255. So
//! the variables are those of [`Circuit::densities`], and the counts must be theirs.
//! (bellman does not sum terms; a circuit in which that matters has no usable `.params`.)
//!
//! Zcash's files go on with the transcript of the ceremony (`MPCParameters` of the crate `phase2`): the
//! hash of the circuit in 64 bytes, a count, and 544 bytes per contribution. It is accepted when its
//! length is right and its last contribution made this key's delta.

use std::io::{self, Write};

use blstrs::{G1Affine, G2Affine};
use group::UncompressedEncoding;

use super::{HBasis, Srs};
use crate::circuit::Circuit;
use crate::format::points::{Encoding, FilePoint, read_all, read_finite, read_point};
use crate::format::{FormatError, Input, PointCheck, Reason, Section};
use crate::proof::vkey;

const ENCODING: Encoding = Encoding::Uncompressed;

/// Reads the SRS of `circuit`.
///
/// # Errors
/// When the file is damaged, a point in it is bad, or its counts are not those of `circuit`.
pub fn read(input: &Input, circuit: &Circuit, check: PointCheck) -> Result<Srs, FormatError> {
    if input.is_empty() {
        return Err(input.error("the file", None, Reason::Empty));
    }
    let mut section = input.section("the verifying key", 0, input.len());
    let vk = vkey::read_uncompressed(&mut section, |_, found| {
        expect_count("the number of public inputs, one included", circuit.num_inputs, found)
    })?;
    let (a_variables, b_variables) = circuit.densities();

    section.rename("h");
    let count = "the number of points in h";
    let h = counted(&mut section, count, circuit.domain_size() - 1, |section, count| {
        read_finite(section, count, ENCODING, check)
    })?;
    section.rename("l");
    // Infinity belongs to a private variable that no constraint mentions.
    let count = "the number of points in l";
    let l = counted(&mut section, count, circuit.num_aux, |section, count| {
        read_all(section, count, ENCODING, check)
    })?;
    section.rename("a");
    let a = query(&mut section, "the number of points in a", a_variables.len(), check)?;
    section.rename("b in G1");
    let b_g1 = query(&mut section, "the number of points in b in G1", b_variables.len(), check)?;
    section.rename("b in G2");
    let b_g2 = query(&mut section, "the number of points in b in G2", b_variables.len(), check)?;
    if section.remaining() > 0 {
        section.rename("the ceremony's transcript");
        read_transcript(&mut section, &vk.delta_g1)?;
    }
    Ok(Srs { vk, h, h_basis: HBasis::Monomial, l, a, a_variables, b_g1, b_g2, b_variables })
}

fn query<P: FilePoint>(
    section: &mut Section,
    what: &'static str,
    expected: usize,
    check: PointCheck,
) -> Result<Vec<P>, FormatError> {
    counted(section, what, expected, |section, count| read_finite(section, count, ENCODING, check))
}

/// Reads a count, which must be `expected`, then that many points.
fn counted<P>(
    section: &mut Section,
    what: &'static str,
    expected: usize,
    read: impl FnOnce(&mut Section, usize) -> Result<Vec<P>, FormatError>,
) -> Result<Vec<P>, FormatError> {
    let at = section.position();
    let found = section.u32_be()?;
    expect_count(what, expected, found).map_err(|reason| section.error_at(at, reason))?;
    read(section, expected)
}

fn expect_count(what: &'static str, expected: usize, found: u32) -> Result<(), Reason> {
    match found as usize == expected {
        true => Ok(()),
        false => Err(Reason::OtherCircuit { what, expected: expected as u64, found: found.into() }),
    }
}

/// Bytes of one contribution: delta after it, s and s*delta in G1, r*delta in G2, and a hash.
const CONTRIBUTION_BYTES: u64 = 3 * 96 + 192 + 64;

/// Reads what Zcash's ceremony left behind the parameters.
fn read_transcript(section: &mut Section, delta: &G1Affine) -> Result<(), FormatError> {
    let start = section.position();
    let extra = section.remaining();
    let not_a_transcript = |section: &Section| section.error_at(start, Reason::TrailingBytes { extra });
    if extra < 64 + 4 + CONTRIBUTION_BYTES {
        return Err(not_a_transcript(section));
    }
    section.take(64)?;
    let contributions = u64::from(section.u32_be()?);
    if contributions == 0 || contributions.saturating_mul(CONTRIBUTION_BYTES) != section.remaining() {
        return Err(not_a_transcript(section));
    }
    for _ in 1..contributions {
        section.take(CONTRIBUTION_BYTES as usize)?;
    }
    let last: G1Affine = read_point(section, ENCODING, contributions - 1)?;
    if last != *delta {
        return Err(not_a_transcript(section));
    }
    section.take(CONTRIBUTION_BYTES as usize - G1Affine::BYTES)?;
    Ok(())
}

/// Why an SRS could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// `.params` hold `h` in the monomial basis; an SRS from a `.zkey` has it on the odd coset.
    #[error(
        "an SRS that was read from a .zkey cannot be written as .params: its h points are on the odd coset"
    )]
    NotMonomial,
    /// A vector has more points than the format can count.
    #[error("{what} has more than {max} points", max = u32::MAX)]
    TooLarge {
        /// The vector.
        what: &'static str,
    },
    /// The writer failed.
    #[error("writing failed: {0}")]
    Io(#[from] io::Error),
}

/// Writes `srs` as bellperson's `Parameters::write` does.
///
/// # Errors
/// [`WriteError`]; then what was written so far is of no use.
pub fn write(srs: &Srs, mut writer: impl Write) -> Result<(), WriteError> {
    if srs.h_basis != HBasis::Monomial {
        return Err(WriteError::NotMonomial);
    }
    srs.vk.write(&mut writer)?;
    write_points(&mut writer, "h", &srs.h)?;
    write_points(&mut writer, "l", &srs.l)?;
    write_points(&mut writer, "a", &srs.a)?;
    write_points(&mut writer, "b in G1", &srs.b_g1)?;
    write_points::<G2Affine>(&mut writer, "b in G2", &srs.b_g2)?;
    writer.flush()?;
    Ok(())
}

fn write_points<P: UncompressedEncoding>(
    writer: &mut impl Write,
    what: &'static str,
    points: &[P],
) -> Result<(), WriteError> {
    let count = u32::try_from(points.len()).map_err(|_| WriteError::TooLarge { what })?;
    writer.write_all(&count.to_be_bytes())?;
    for point in points {
        writer.write_all(point.to_uncompressed().as_ref())?;
    }
    Ok(())
}
