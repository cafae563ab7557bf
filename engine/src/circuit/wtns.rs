//! circom's `.wtns`, version 2: the values of all wires.
//!
//! | section | holds |
//! |---|---|
//! | 1 header | field, number of values |
//! | 2 values | a scalar each: 32 bytes, little-endian, canonical |

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use blstrs::Scalar;
use ff::{Field, PrimeField};
use rayon::prelude::*;

use super::r1cs::{section_header, write_field};
use super::{Witness, huge_pages};
use crate::format::binfile::BinFile;
use crate::format::field::{SCALAR_BYTES, expect_modulus, scalar_from_bytes, scalar_modulus};
use crate::format::{FormatError, Input, Reason};

const FORMAT: &str = "wtns";
const VERSION: u32 = 2;
const HEADER: u32 = 1;
const VALUES: u32 = 2;

/// Reads a witness. Whether it belongs to a circuit is for [`Witness::check`] to say.
///
/// # Errors
/// When the file is no `.wtns` over BLS12-381, or is damaged.
pub fn read(input: &Input) -> Result<Witness, FormatError> {
    let file = BinFile::open(input, FORMAT, VERSION)?;
    let mut header = file.section(HEADER, "section 1 (header)")?;
    expect_modulus(&mut header, &scalar_modulus())?;
    let count = header.u32_le()?;
    header.finish()?;

    let mut section = file.section(VALUES, "section 2 (values)")?;
    section.require_exactly(count.into(), SCALAR_BYTES as u64)?;
    let start = section.position();
    let count = count as usize;
    let mut values = huge_pages::with_capacity(count);
    while values.len() < count {
        let bytes = section.take_items(SCALAR_BYTES, count - values.len())?;
        // The values go where they stay, in parallel: of those that are none the first is told.
        let first = values.len() as u64;
        let wrong = AtomicU64::new(u64::MAX);
        values.par_extend(bytes.par_chunks_exact(SCALAR_BYTES).enumerate().map(|(index, bytes)| {
            scalar_from_bytes(bytes).unwrap_or_else(|| {
                wrong.fetch_min(first + index as u64, Ordering::Relaxed);
                Scalar::ZERO
            })
        }));
        let index = wrong.into_inner();
        if index != u64::MAX {
            let offset = start + index * SCALAR_BYTES as u64;
            return Err(section.error_at(offset, Reason::NonCanonicalScalar { index }));
        }
    }
    Ok(Witness { values })
}

/// Writes `witness`, for circom's and snarkjs's tools.
///
/// # Errors
/// Those of `writer`.
pub fn write(witness: &Witness, mut writer: impl Write) -> io::Result<()> {
    writer.write_all(FORMAT.as_bytes())?;
    writer.write_all(&VERSION.to_le_bytes())?;
    writer.write_all(&2u32.to_le_bytes())?;
    section_header(&mut writer, HEADER, 40)?;
    write_field(&mut writer)?;
    writer.write_all(&(witness.values.len() as u32).to_le_bytes())?;
    section_header(&mut writer, VALUES, (witness.values.len() * SCALAR_BYTES) as u64)?;
    for value in &witness.values {
        writer.write_all(&value.to_repr())?;
    }
    writer.flush()
}
