//! bellperson's `.params`, against bellperson's own generator and writer.

use bellperson::groth16::{Parameters, generate_random_parameters};
use blstrs::{Bls12, Scalar};
use interlock_engine::circuit::Circuit;
use interlock_engine::circuit::bellpepper::record;
use interlock_engine::circuit::recorder::Recorder;
use interlock_engine::format::{Input, PointCheck, Reason};
use interlock_engine::srs::{HBasis, params};
use interlock_tests::fixtures;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Parameters that bellperson made for [`Small`], and the recorded circuit.
fn small() -> (Circuit, Parameters<Bls12>, Vec<u8>) {
    let rng = &mut ChaCha8Rng::seed_from_u64(7);
    let params = generate_random_parameters::<Bls12, _, _>(Small, rng).unwrap();
    let mut bytes = Vec::new();
    params.write(&mut bytes).unwrap();
    (record(Small).unwrap(), params, bytes)
}

/// The circuit that [`fixtures::small`] describes.
struct Small;

impl bellpepper_core::Circuit<Scalar> for Small {
    fn synthesize<CS: bellpepper_core::ConstraintSystem<Scalar>>(
        self,
        cs: &mut CS,
    ) -> Result<(), bellpepper_core::SynthesisError> {
        let missing = || Err(bellpepper_core::SynthesisError::AssignmentMissing);
        let x = cs.alloc(|| "x", missing)?;
        let y = cs.alloc(|| "y", missing)?;
        let z = cs.alloc_input(|| "z", missing)?;
        let w = cs.alloc(|| "w", missing)?;
        cs.enforce(|| "x (z + w - w) = y", |lc| lc + x, |lc| lc + z + w - w, |lc| lc + y);
        cs.enforce(|| "y 2 = w", |lc| lc + y, |lc| lc + (Scalar::from(2), CS::one()), |lc| lc + w);
        cs.enforce(|| "0 w = 0", |lc| lc + (Scalar::from(0), w), |lc| lc + w, |lc| lc);
        Ok(())
    }
}

#[test]
fn bellpersons_parameters_are_read_and_written_back() {
    let (circuit, theirs, bytes) = small();
    assert_eq!(circuit, fixtures::small());
    assert!(bytes == fixtures::bytes("small.params"));
    let srs = params::read(&Input::from_bytes("small.params", bytes.clone()), &circuit, PointCheck::Full);
    let srs = srs.unwrap();
    assert_eq!(srs.h_basis, HBasis::Monomial);
    assert!(srs.vk == theirs.vk);
    assert!(srs.h == *theirs.h && srs.l == *theirs.l && srs.a == *theirs.a);
    assert!(srs.b_g1 == *theirs.b_g1 && srs.b_g2 == *theirs.b_g2);
    // Variables: 0 one, 1 z, 2 x, 3 y, 4 w.
    assert_eq!(srs.a_variables, [0, 1, 2, 3]);
    assert_eq!(srs.b_variables, [0, 1, 4]);
    let mut written = Vec::new();
    params::write(&srs, &mut written).unwrap();
    assert!(written == bytes);
}

#[test]
fn an_srs_of_another_circuit_is_refused_with_both_numbers() {
    let (_, _, bytes) = small();
    let mut recorder = Recorder::new();
    recorder.alloc_input();
    let error = params::read(
        &Input::from_bytes("small.params", bytes),
        &recorder.finish().unwrap(),
        PointCheck::Sampled,
    )
    .unwrap_err();
    assert!(matches!(error.reason, Reason::OtherCircuit { expected: 1, found: 7, .. }), "{error}");
    assert!(error.to_string().contains("SRS of another circuit"), "{error}");
}

#[test]
fn bytes_behind_the_end_are_refused() {
    let (circuit, _, mut bytes) = small();
    let length = bytes.len() as u64;
    bytes.push(0);
    let error = params::read(&Input::from_bytes("p", bytes), &circuit, PointCheck::Sampled).unwrap_err();
    assert!(matches!(error.reason, Reason::TrailingBytes { extra: 1 }), "{error}");
    assert_eq!(error.offset, Some(length));
}
