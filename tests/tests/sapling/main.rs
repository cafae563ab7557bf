//! Zcash Sapling: real circuits with the SRS of the mainnet ceremony, judged by Zcash's own verifier.

mod shim;

use interlock_engine::circuit::Circuit;
use interlock_engine::format::{Input, PointCheck, Reason};
use interlock_engine::proof;
use interlock_engine::srs::{Srs, params};
use interlock_tests::prove::prove;
use rand_010::SeedableRng;
use rand_010::rngs::StdRng;
use sapling_crypto::circuit::{Output, OutputParameters, Spend, SpendParameters, ValueCommitmentOpening};
use sapling_crypto::keys::ExpandedSpendingKey;
use sapling_crypto::value::{NoteValue, ValueCommitTrapdoor, ValueCommitment};
use sapling_crypto::{
    CommitmentTree, Diversifier, IncrementalWitness, Node, Note, PaymentAddress, Rseed,
    SaplingVerificationContext,
};

/// Constraints of the circuits, as `sapling-crypto` states them in its own tests.
const OUTPUT_CONSTRAINTS: usize = 7827;
const SPEND_CONSTRAINTS: usize = 98777;

/// An element of the Jubjub scalar field that no test depends on.
fn number(seed: u8) -> jubjub::Fr {
    jubjub::Fr::from_bytes_wide(&[seed; 64])
}

fn spending_key() -> ExpandedSpendingKey {
    ExpandedSpendingKey::from_spending_key(&[7; 32]).unwrap()
}

fn address() -> PaymentAddress {
    let key = spending_key().proof_generation_key().to_viewing_key();
    (0..=255).find_map(|byte| key.to_payment_address(Diversifier([byte; 11]))).unwrap()
}

fn opening() -> ValueCommitmentOpening {
    ValueCommitmentOpening { value: NoteValue::from_raw(123_456_789), randomness: number(1) }
}

fn commitment() -> ValueCommitment {
    let ValueCommitmentOpening { value, randomness } = opening();
    ValueCommitment::derive(value, ValueCommitTrapdoor::from_bytes(randomness.to_bytes()).unwrap())
}

fn note() -> Note {
    Note::from_parts(address(), opening().value, Rseed::BeforeZip212(number(2)))
}

fn read(name: &str, bytes: &[u8], circuit: &Circuit) -> Srs {
    params::read(&Input::from_bytes(name, bytes), circuit, PointCheck::Sampled).unwrap()
}

const NO_OUTPUT: Output =
    Output { value_commitment_opening: None, payment_address: None, commitment_randomness: None, esk: None };

fn no_spend() -> Spend {
    Spend {
        value_commitment_opening: None,
        proof_generation_key: None,
        payment_address: None,
        commitment_randomness: None,
        ar: None,
        auth_path: vec![None; 32],
        anchor: None,
    }
}

#[test]
fn output_is_accepted_by_zcash() {
    let (_, bytes) = wagyu_zcash_parameters::load_sapling_parameters();
    let circuit = shim::record(NO_OUTPUT);
    assert_eq!(circuit.num_constraints(), OUTPUT_CONSTRAINTS);
    let srs = read("sapling-output.params", &bytes, &circuit);

    let esk = number(3);
    let witness = shim::witness(
        &circuit,
        Output {
            value_commitment_opening: Some(opening()),
            payment_address: Some(address()),
            commitment_randomness: Some(number(2)),
            esk: Some(esk),
        },
    );
    assert_eq!(witness.check(&circuit), Ok(()));
    let proof = proof::to_bytes(&prove(circuit, srs, witness));

    let theirs = OutputParameters::read(bytes.as_slice(), false).unwrap().prepared_verifying_key();
    let epk = || jubjub::ExtendedPoint::from(address().diversifier().g_d().unwrap() * esk);
    let check = |commitment: &ValueCommitment| {
        let proof = groth16::Proof::read(proof.as_slice()).unwrap();
        SaplingVerificationContext::new().check_output(commitment, note().cmu(), epk(), proof, &theirs)
    };
    assert!(check(&commitment()));
    let another = ValueCommitTrapdoor::from_bytes(number(9).to_bytes()).unwrap();
    assert!(!check(&ValueCommitment::derive(opening().value, another)));
}

#[test]
fn spend_is_accepted_by_zcash() {
    let (bytes, _) = wagyu_zcash_parameters::load_sapling_parameters();
    let circuit = shim::record(no_spend());
    assert_eq!(circuit.num_constraints(), SPEND_CONSTRAINTS);
    let srs = read("sapling-spend.params", &bytes, &circuit);

    // The note is the second of three in the tree.
    let mut tree = CommitmentTree::empty();
    tree.append(Node::from_scalar(bls12_381::Scalar::from(5))).unwrap();
    tree.append(Node::from_cmu(&note().cmu())).unwrap();
    let mut path = IncrementalWitness::from_tree(tree).unwrap();
    path.append(Node::from_scalar(bls12_381::Scalar::from(6))).unwrap();
    let anchor = bls12_381::Scalar::from_bytes(&path.root().to_bytes()).unwrap();
    let path = path.path().unwrap();
    let position = u64::from(path.position());

    let (key, alpha) = (spending_key(), number(4));
    let witness = shim::witness(
        &circuit,
        Spend {
            value_commitment_opening: Some(opening()),
            proof_generation_key: Some(key.proof_generation_key()),
            payment_address: Some(address()),
            commitment_randomness: Some(number(2)),
            ar: Some(alpha),
            auth_path: path
                .path_elems()
                .iter()
                .enumerate()
                .map(|(level, node)| {
                    let sibling = bls12_381::Scalar::from_bytes(&node.to_bytes()).unwrap();
                    Some((sibling, position >> level & 1 == 1))
                })
                .collect(),
            anchor: Some(anchor),
        },
    );
    assert_eq!(witness.check(&circuit), Ok(()));
    let proof = proof::to_bytes(&prove(circuit, srs, witness));

    let theirs = SpendParameters::read(bytes.as_slice(), false).unwrap().prepared_verifying_key();
    let viewing_key = key.proof_generation_key().to_viewing_key();
    let nullifier = note().nf(viewing_key.nk(), position);
    let message = [8; 32];
    let signature = key.ask().randomize(&alpha).sign(StdRng::seed_from_u64(1), &message);
    let check = |nullifier: &[u8; 32]| {
        SaplingVerificationContext::new().check_spend(
            &commitment(),
            anchor,
            nullifier,
            viewing_key.rk(alpha),
            &message,
            signature,
            groth16::Proof::read(proof.as_slice()).unwrap(),
            &theirs,
        )
    };
    assert!(check(&nullifier.0));
    let mut another = nullifier.0;
    another[0] ^= 1;
    assert!(!check(&another));
}

#[test]
fn the_ceremonys_transcript_is_checked() {
    let (_, bytes) = wagyu_zcash_parameters::load_sapling_parameters();
    let circuit = shim::record(NO_OUTPUT);
    let read = |bytes: &[u8]| {
        let input = Input::from_bytes("sapling-output.params", bytes);
        params::read(&input, &circuit, PointCheck::Sampled).err().unwrap()
    };
    // One byte short, one byte more, and a last contribution that is not the key's.
    let error = read(&bytes[..bytes.len() - 1]);
    assert!(matches!(error.reason, Reason::TrailingBytes { .. }), "{error}");
    let error = read(&[bytes.as_slice(), &[0]].concat());
    assert!(matches!(error.reason, Reason::TrailingBytes { .. }), "{error}");
    let mut swapped = bytes.clone();
    let last = bytes.len() - 544;
    swapped.copy_within(last - 544..last, last);
    let error = read(&swapped);
    assert!(matches!(error.reason, Reason::TrailingBytes { .. }), "{error}");
    assert_eq!(error.section, "the ceremony's transcript");

    // And the other circuit's parameters are refused.
    let (spend, _) = wagyu_zcash_parameters::load_sapling_parameters();
    let error = read(&spend);
    assert!(matches!(error.reason, Reason::OtherCircuit { .. }), "{error}");
}
