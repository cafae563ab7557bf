//! Scalars in files, and which curve a prime belongs to.

use blstrs::Scalar;
use ff::PrimeField;
use num_bigint::BigUint;

use super::{FormatError, Reason, Section};

/// Bytes of a scalar.
pub(crate) const SCALAR_BYTES: usize = 32;

/// The scalar field, as errors call it.
const BLS12_381: &str = "BLS12-381";

/// The primes that circom knows, as its option `--prime` calls them.
const CIRCOM_PRIMES: [(&str, &str); 7] = [
    ("bn128", "21888242871839275222246405745257275088548364400416034343698204186575808495617"),
    ("bls12377", "8444461749428370424248824938781546531375899335154063827935233455917409239041"),
    ("goldilocks", "18446744069414584321"),
    (
        "grumpkin, or bn128 by its base field",
        "21888242871839275222246405745257275088696311157297823662689037894645226208583",
    ),
    ("pallas", "28948022309329048855892746252171976963363056481941560715954676764349967630337"),
    ("vesta", "28948022309329048855892746252171976963363056481941647379679742748393362948097"),
    ("secq256r1", "115792089210356248762697446949407573530086143415290314195533631308867097853951"),
];

/// The order of the scalar field.
pub(crate) fn scalar_modulus() -> BigUint {
    BigUint::from_bytes_le((-Scalar::from(1)).to_repr().as_ref()) + 1u32
}

/// Reads a field header: the length of an element in bytes, then the modulus, which must be `expected`.
pub(crate) fn expect_modulus(section: &mut Section, expected: &BigUint) -> Result<(), FormatError> {
    let start = section.position();
    let length = section.u32_le()?;
    // The widest base field in use has 96 bytes; whatever says more is no length.
    if length > 128 {
        let found = u64::from(length);
        let reason = Reason::TooLarge { what: "the length of a field element", limit: 128, found };
        return Err(section.error_at(start, reason));
    }
    let found = BigUint::from_bytes_le(section.take(length as usize)?);
    let bytes = expected.bits().div_ceil(64) * 8;
    if found == *expected && u64::from(length) == bytes {
        return Ok(());
    }
    let known = CIRCOM_PRIMES.iter().find(|(_, prime)| found.to_string() == *prime);
    let found = match known {
        Some((name, _)) => format!("{name} (modulus {found})"),
        None => format!("another field (modulus {found} in {length} bytes)"),
    };
    let expected = format!("{BLS12_381} (modulus {expected} in {bytes} bytes)");
    Err(section.error_at(start, Reason::WrongCurve { expected, found }))
}

/// Reads a scalar: 32 bytes, little-endian, below the order of the field.
pub(crate) fn scalar_from_bytes(bytes: &[u8]) -> Option<Scalar> {
    let repr = bytes.try_into().ok()?;
    Scalar::from_repr_vartime(repr)
}
