//! The demonstration circuit: knowledge of a chunk of bytes whose SHA-256 digest is public.
//!
//! A file is cut into chunks of `chunk_bytes` bytes; the last one is padded with zero bytes, so that
//! all chunks share one circuit. The digest is that of the padded chunk. Its 256 bits, in the order
//! SHA-256 writes them, are packed into two public inputs: bit `i` of the first 254 bits has weight
//! `2^i` in the first input, the other two bits are packed the same way into the second.
//!
//! A constraint system that takes values alone (`is_witness_generator`) gets them computed in parallel,
//! past the gadgets (`sha256_witness`): the same values in the same order.

use bellpepper_core::boolean::{AllocatedBit, Boolean};
use bellpepper_core::{ConstraintSystem, SynthesisError};
use bellperson::gadgets::multipack;
use bellperson::gadgets::sha256::sha256;
use blstrs::Scalar;
use ff::{Field, PrimeField};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::sha256_witness;

/// Knowledge of the bytes of one chunk. Without bytes it still has its shape, for
/// [`record`](super::bellpepper::record).
#[derive(Clone, Debug)]
pub struct FileChunk {
    chunk: Option<Vec<u8>>,
    chunk_bytes: usize,
}

/// A chunk has more bytes than its circuit takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a chunk of {found} bytes does not fit the circuit, which takes {chunk_bytes}")]
pub struct ChunkTooLong {
    /// The length of the chunk.
    pub found: usize,
    /// The most bytes the circuit takes.
    pub chunk_bytes: usize,
}

impl FileChunk {
    /// The shape of the circuit for chunks of `chunk_bytes` bytes.
    pub fn shape(chunk_bytes: usize) -> Self {
        Self { chunk: None, chunk_bytes }
    }

    /// The circuit with its witness: `chunk`, padded with zero bytes to `chunk_bytes`.
    ///
    /// # Errors
    /// When `chunk` is longer than `chunk_bytes`.
    pub fn new(chunk: &[u8], chunk_bytes: usize) -> Result<Self, ChunkTooLong> {
        Ok(Self { chunk: Some(padded(chunk, chunk_bytes)?), chunk_bytes })
    }

    /// The public inputs of the chunk, computed from the bytes without the circuit.
    ///
    /// # Errors
    /// When `chunk` is longer than `chunk_bytes`.
    pub fn public_inputs(chunk: &[u8], chunk_bytes: usize) -> Result<Vec<Scalar>, ChunkTooLong> {
        Ok(public_inputs(&padded(chunk, chunk_bytes)?))
    }
}

fn public_inputs(chunk: &[u8]) -> Vec<Scalar> {
    let bits: Vec<bool> = bits(&Sha256::digest(chunk)).collect();
    let pack = |bits: &[bool]| {
        bits.iter().rev().fold(Scalar::ZERO, |sum, &bit| sum.double() + Scalar::from(u64::from(bit)))
    };
    bits.chunks(Scalar::CAPACITY as usize).map(pack).collect()
}

fn padded(chunk: &[u8], chunk_bytes: usize) -> Result<Vec<u8>, ChunkTooLong> {
    if chunk.len() > chunk_bytes {
        return Err(ChunkTooLong { found: chunk.len(), chunk_bytes });
    }
    let mut bytes = chunk.to_vec();
    bytes.resize(chunk_bytes, 0);
    Ok(bytes)
}

/// The bits of `bytes` in the order SHA-256 reads them: the most significant of each byte first.
fn bits(bytes: &[u8]) -> impl Iterator<Item = bool> + '_ {
    bytes.iter().flat_map(|byte| (0..8).rev().map(move |shift| byte >> shift & 1 == 1))
}

/// The values that [`FileChunk`] allocates for `chunk`, in their order.
fn allocate_values(chunk: &[u8], cs: &mut impl ConstraintSystem<Scalar>) {
    let mut parts = vec![bits(chunk).collect()];
    parts.extend(sha256_witness::variables(chunk));
    let (mut slots, _) = cs.allocate_empty(parts.iter().map(Vec::len).sum(), 0);
    let filled: Vec<_> =
        parts.iter().map(|part| (slots.split_off_mut(..part.len()).expect("room for all"), part)).collect();
    filled.into_par_iter().for_each(|(slots, part)| {
        for (slot, &bit) in slots.iter_mut().zip(part) {
            *slot = if bit { Scalar::ONE } else { Scalar::ZERO };
        }
    });
    cs.extend_inputs(&public_inputs(chunk));
}

impl bellpepper_core::Circuit<Scalar> for FileChunk {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        if let Some(chunk) = &self.chunk
            && cs.is_witness_generator()
        {
            allocate_values(chunk, cs);
            return Ok(());
        }
        let values: Vec<Option<bool>> = match &self.chunk {
            Some(chunk) => bits(chunk).map(Some).collect(),
            None => vec![None; 8 * self.chunk_bytes],
        };
        let preimage = values
            .into_iter()
            .enumerate()
            .map(|(i, value)| {
                AllocatedBit::alloc(cs.namespace(|| format!("preimage bit {i}")), value).map(Boolean::from)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let digest = sha256(cs.namespace(|| "digest"), &preimage)?;
        multipack::pack_into_inputs(cs.namespace(|| "pack"), &digest)
    }
}

#[cfg(test)]
mod tests {
    use bellpepper_core::{Circuit as _, Index, LinearCombination, Variable};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::bellpepper::{record, synthesize_witness, synthesize_witness_for};
    use super::*;

    #[test]
    fn witness_satisfies_the_recorded_shape() {
        let shape = record(FileChunk::shape(70)).unwrap();
        let chunk = b"a chunk that is shorter than its circuit";
        let witness = synthesize_witness(FileChunk::new(chunk, 70).unwrap()).unwrap();
        assert_eq!(witness.values.len(), shape.num_variables());
        assert_eq!(shape.first_unsatisfied(&witness), None);
        assert_eq!(witness.public_inputs(&shape), FileChunk::public_inputs(chunk, 70).unwrap());
        let again = synthesize_witness_for(&shape, FileChunk::new(chunk, 70).unwrap()).unwrap();
        assert_eq!(witness, again);
    }

    /// Takes values one by one, as a prover does, which is no witness generator.
    #[derive(Default)]
    struct OneByOne {
        inputs: Vec<Scalar>,
        aux: Vec<Scalar>,
    }

    impl ConstraintSystem<Scalar> for OneByOne {
        type Root = Self;

        fn alloc<F, A, AR>(&mut self, _: A, value: F) -> Result<Variable, SynthesisError>
        where
            F: FnOnce() -> Result<Scalar, SynthesisError>,
            A: FnOnce() -> AR,
            AR: Into<String>,
        {
            self.aux.push(value()?);
            Ok(Variable::new_unchecked(Index::Aux(self.aux.len() - 1)))
        }

        fn alloc_input<F, A, AR>(&mut self, _: A, value: F) -> Result<Variable, SynthesisError>
        where
            F: FnOnce() -> Result<Scalar, SynthesisError>,
            A: FnOnce() -> AR,
            AR: Into<String>,
        {
            self.inputs.push(value()?);
            Ok(Variable::new_unchecked(Index::Input(self.inputs.len() - 1)))
        }

        fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, _: LA, _: LB, _: LC)
        where
            A: FnOnce() -> AR,
            AR: Into<String>,
            LA: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
            LB: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
            LC: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        {
        }

        fn push_namespace<NR: Into<String>, N: FnOnce() -> NR>(&mut self, _: N) {}

        fn pop_namespace(&mut self) {}

        fn get_root(&mut self) -> &mut Self {
            self
        }
    }

    fn assert_gadgets_agree(chunk: &[u8]) {
        let circuit = || FileChunk::new(chunk, chunk.len()).unwrap();
        let mut gadgets = OneByOne { inputs: vec![Scalar::ONE], aux: Vec::new() };
        circuit().synthesize(&mut gadgets).unwrap();
        let values = [gadgets.inputs, gadgets.aux].concat();
        assert!(synthesize_witness(circuit()).unwrap().values == values, "{} bytes", chunk.len());
    }

    /// Each length puts the constant bits of the padding elsewhere.
    #[test]
    fn values_are_those_of_the_gadgets() {
        let bytes: Vec<u8> = (0..1000).map(|i: u32| ((i * i * 167 + i * 59) >> 3) as u8).collect();
        (0..=130).chain([1000]).for_each(|length| assert_gadgets_agree(&bytes[..length]));
        for byte in [0, 0xff] {
            [1, 3, 55, 64, 100].iter().for_each(|&length| assert_gadgets_agree(&vec![byte; length]));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn values_of_any_chunk_are_those_of_the_gadgets(chunk in vec(any::<u8>(), 0..200)) {
            assert_gadgets_agree(&chunk);
        }
    }

    #[test]
    fn another_digest_is_refused_by_the_circuit() {
        let shape = record(FileChunk::shape(8)).unwrap();
        let mut witness = synthesize_witness(FileChunk::new(b"12345678", 8).unwrap()).unwrap();
        witness.values[1] += Scalar::ONE;
        assert!(shape.first_unsatisfied(&witness).is_some());
    }

    /// FIPS 180-4 gives the digest of the empty message; the packing is bellperson's.
    #[test]
    fn public_inputs_pack_the_digest_of_the_standard() {
        let digest = [
            0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
            0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
        ];
        let packed = multipack::compute_multipacking::<Scalar>(&multipack::bytes_to_bits(&digest));
        assert_eq!(FileChunk::public_inputs(b"", 0).unwrap(), packed);
    }

    #[test]
    fn too_long_a_chunk_is_an_error() {
        let error = FileChunk::new(&[0; 9], 8).unwrap_err();
        assert_eq!(error, ChunkTooLong { found: 9, chunk_bytes: 8 });
    }
}
