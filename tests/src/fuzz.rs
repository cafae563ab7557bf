//! What the fuzz targets of `tests/fuzz` do with their bytes. It lives here so that the ordinary tests
//! can replay the corpus: every input must give a value or a typed error, never a panic.

use interlock_engine::circuit::{r1cs, wtns};
use interlock_engine::format::{FormatError, Input, PointCheck};
use interlock_engine::srs::{params, zkey};

use crate::fixtures;

/// A target: its name, which is that of its corpus, and what it does. The result says whether the bytes
/// were accepted.
pub type Target = (&'static str, fn(&[u8]) -> Result<(), FormatError>);

/// All targets.
pub const TARGETS: [Target; 4] =
    [("r1cs", read_r1cs), ("wtns", read_wtns), ("zkey", read_zkey), ("params", read_params)];

/// Reads an `.r1cs`; what was read must survive being written.
///
/// # Errors
/// When the bytes are refused.
///
/// # Panics
/// When there is a fault in the reader or writer.
pub fn read_r1cs(bytes: &[u8]) -> Result<(), FormatError> {
    let circuit = r1cs::read(&Input::from_bytes("fuzz.r1cs", bytes))?;
    let (a, b) = circuit.densities();
    assert!(a.len() >= circuit.num_inputs && b.len() <= circuit.num_variables());
    let mut written = Vec::new();
    r1cs::write(&circuit, &mut written).unwrap();
    let again = r1cs::read(&Input::from_bytes("again.r1cs", written))?;
    assert_eq!(again, circuit);
    Ok(())
}

/// Reads a `.wtns`; what was read must survive being written.
///
/// # Errors
/// When the bytes are refused.
///
/// # Panics
/// When there is a fault in the reader or writer.
pub fn read_wtns(bytes: &[u8]) -> Result<(), FormatError> {
    let witness = wtns::read(&Input::from_bytes("fuzz.wtns", bytes))?;
    let mut written = Vec::new();
    wtns::write(&witness, &mut written).unwrap();
    assert_eq!(wtns::read(&Input::from_bytes("again.wtns", written))?, witness);
    Ok(())
}

/// Reads a `.zkey`, by itself and as that of `circom_mul/mul.r1cs`.
///
/// # Errors
/// When the bytes are refused.
///
/// # Panics
/// When there is a fault in the reader.
pub fn read_zkey(bytes: &[u8]) -> Result<(), FormatError> {
    let circuit = r1cs::read(&fixtures::open("circom_mul/mul.r1cs"))?;
    let input = Input::from_bytes("fuzz.zkey", bytes);
    let by_itself = zkey::Zkey::open(&input)?.srs(PointCheck::Sampled);
    let of_circuit = zkey::read(&input, &circuit, PointCheck::Sampled);
    assert!(by_itself.is_ok() || of_circuit.is_err());
    let srs = of_circuit?;
    assert_eq!(srs.h.len(), circuit.domain_size());
    assert_eq!((srs.l.len(), srs.vk.ic.len()), (circuit.num_aux, circuit.num_inputs));
    Ok(())
}

/// Reads `.params` as those of [`fixtures::small`]; what was read must survive being written.
///
/// # Errors
/// When the bytes are refused.
///
/// # Panics
/// When there is a fault in the reader or writer.
pub fn read_params(bytes: &[u8]) -> Result<(), FormatError> {
    let srs =
        params::read(&Input::from_bytes("fuzz.params", bytes), &fixtures::small(), PointCheck::Sampled)?;
    let mut written = Vec::new();
    params::write(&srs, &mut written).unwrap();
    assert!(bytes.starts_with(&written));
    Ok(())
}
