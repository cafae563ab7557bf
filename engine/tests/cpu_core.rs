//! The CPU core against bellperson: with the same SRS, witness and blinding both make the same
//! proof, byte for byte, and bellperson's verifier accepts it.

use std::sync::Arc;

use bellperson::groth16::{create_proof, prepare_verifying_key, verify_proof};
use blstrs::{Bls12, Scalar};
use ff::Field;
use interlock_engine::circuit::FileChunk;
use interlock_engine::circuit::bellpepper::{record, synthesize_witness};
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::{Blinding, Core, CoreError, CoreTask, ProvingKey};
use interlock_engine::proof::Proof;
use interlock_engine::srs::setup::{generate, generate_with_basis};
use interlock_engine::srs::{HBasis, Srs};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

mod common;

use common::{Instance, Rows, bellperson_parameters};

const BUDGET: u64 = 1 << 30;

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn core() -> CpuCore {
    CpuCore::new(BUDGET, Some(2)).unwrap()
}

fn run(mut task: Box<dyn CoreTask>) -> Proof<Bls12> {
    task.prepare().unwrap();
    task.stage().unwrap();
    task.compute().unwrap();
    task.finish().unwrap()
}

fn prove(core: &CpuCore, instance: &Instance, srs: Srs, blinding: Blinding) -> Proof<Bls12> {
    let key = Arc::new(ProvingKey { circuit: instance.circuit.clone(), srs });
    run(core.task(0, key, Arc::new(instance.witness.clone()), blinding).unwrap())
}

fn bytes(proof: &Proof<Bls12>) -> Vec<u8> {
    let mut bytes = Vec::new();
    proof.write(&mut bytes).unwrap();
    bytes
}

fn verifies(instance: &Instance, srs: &Srs, proof: &Proof<Bls12>) -> bool {
    let inputs = instance.witness.public_inputs(&instance.circuit);
    verify_proof(&prepare_verifying_key(&srs.vk), proof, inputs).unwrap()
}

/// Both bases verify; in the monomial one the proof is bellperson's.
fn check(instance: &Instance) {
    let mut rng = rng(11);
    let core = core();
    let blinding = Blinding::random(&mut rng);
    let srs = generate(&instance.circuit, &mut rng);
    let parameters = bellperson_parameters(&srs);
    let theirs = create_proof(Rows(instance), &parameters, blinding.r, blinding.s).unwrap();
    let ours = prove(&core, instance, srs.clone(), blinding);
    assert_eq!(bytes(&ours), bytes(&theirs));
    assert!(verifies(instance, &srs, &ours));
    check_odd_coset(&core, instance);
}

fn check_odd_coset(core: &CpuCore, instance: &Instance) {
    let mut rng = rng(12);
    let srs = generate_with_basis(&instance.circuit, HBasis::OddCoset, &mut rng);
    let proof = prove(core, instance, srs.clone(), Blinding::random(&mut rng));
    assert!(verifies(instance, &srs, &proof));
}

#[test]
fn dense_values_of_every_size() {
    for constraints in [2, 3, 6, 13, 30, 61, 126, 250, 1000, 16_000] {
        check(&common::dense(constraints, &mut rng(constraints as u64)));
    }
}

#[test]
fn bits() {
    for (constraints, ones) in [(7, 0.5), (1000, 0.5), (5000, 0.02), (20_000, 0.98)] {
        check(&common::bits(constraints, ones, &mut rng(1)));
    }
}

#[test]
fn all_zero_but_the_constant_one() {
    check(&common::bits(300, 0.0, &mut rng(2)));
}

#[test]
fn all_one() {
    check(&common::bits(300, 1.0, &mut rng(3)));
}

#[test]
fn small_and_negative_values() {
    check(&common::small_values(6000, &mut rng(4)));
}

#[test]
fn one_large_value_everywhere() {
    check(&common::repeated_value(6000, &mut rng(5)));
}

#[test]
fn thousands_of_public_inputs() {
    check(&common::many_inputs(3000, &mut rng(6)));
}

#[test]
fn one_private_variable_and_no_input() {
    check(&common::tiny());
}

/// bellperson refuses points at infinity, so only its verifier is asked.
#[test]
fn variables_that_no_constraint_mentions() {
    let core = core();
    let instance = common::with_unconstrained(common::dense(100, &mut rng(7)), 40, &mut rng(8));
    let mut rng = rng(9);
    for basis in [HBasis::Monomial, HBasis::OddCoset] {
        let srs = generate_with_basis(&instance.circuit, basis, &mut rng);
        let proof = prove(&core, &instance, srs.clone(), Blinding::random(&mut rng));
        assert!(verifies(&instance, &srs, &proof));
    }
}

/// snarkjs keeps a point for every variable in every query, infinities included.
#[test]
fn points_at_infinity_in_the_a_and_b_queries() {
    let core = core();
    let instance = common::small_values(500, &mut rng(10));
    let mut srs = generate_with_basis(&instance.circuit, HBasis::OddCoset, rng(13));
    let everything: Vec<u32> = (0..instance.circuit.num_variables() as u32).collect();
    let spread = |variables: &[u32]| -> Vec<Option<usize>> {
        everything.iter().map(|variable| variables.binary_search(variable).ok()).collect()
    };
    let (in_a, in_b) = (spread(&srs.a_variables), spread(&srs.b_variables));
    assert!(in_a.iter().chain(&in_b).any(Option::is_none), "the test needs a hole");
    srs.a = in_a.iter().map(|at| at.map_or_else(Default::default, |at| srs.a[at])).collect();
    srs.b_g1 = in_b.iter().map(|at| at.map_or_else(Default::default, |at| srs.b_g1[at])).collect();
    srs.b_g2 = in_b.iter().map(|at| at.map_or_else(Default::default, |at| srs.b_g2[at])).collect();
    (srs.a_variables, srs.b_variables) = (everything.clone(), everything);
    let proof = prove(&core, &instance, srs.clone(), Blinding::random(rng(14)));
    assert!(verifies(&instance, &srs, &proof));
}

#[test]
fn sha256_of_a_file_chunk() {
    let chunk = b"what is proved is the knowledge of these bytes";
    let circuit = || FileChunk::new(chunk, 50).unwrap();
    let instance = Instance {
        circuit: record(FileChunk::shape(50)).unwrap(),
        witness: synthesize_witness(circuit()).unwrap(),
    };
    let mut rng = rng(15);
    let srs = generate(&instance.circuit, &mut rng);
    let blinding = Blinding::random(&mut rng);
    let parameters = bellperson_parameters(&srs);
    let theirs = create_proof(circuit(), &parameters, blinding.r, blinding.s).unwrap();
    let ours = prove(&core(), &instance, srs.clone(), blinding);
    assert_eq!(bytes(&ours), bytes(&theirs));
    let inputs = FileChunk::public_inputs(chunk, 50).unwrap();
    assert!(verify_proof(&prepare_verifying_key(&srs.vk), &ours, &inputs).unwrap());
}

#[test]
fn a_witness_that_does_not_satisfy_the_circuit_makes_no_valid_proof() {
    let mut instance = common::dense(200, &mut rng(16));
    let srs = generate(&instance.circuit, rng(17));
    *instance.witness.values.last_mut().unwrap() += Scalar::ONE;
    let proof = prove(&core(), &instance, srs.clone(), Blinding::random(rng(18)));
    assert!(!verifies(&instance, &srs, &proof));
}

#[test]
fn tasks_side_by_side_on_threads_of_all_kinds() {
    let core = core();
    let instance = common::dense(2000, &mut rng(19));
    let srs = generate(&instance.circuit, rng(20));
    let blinding = Blinding::random(rng(21));
    let key = Arc::new(ProvingKey { circuit: instance.circuit.clone(), srs });
    let witness = Arc::new(instance.witness.clone());
    let task = || core.task(0, key.clone(), witness.clone(), blinding).unwrap();
    let expected = bytes(&run(task()));
    std::thread::scope(|scope| {
        let plain: Vec<_> = (0..6).map(|_| scope.spawn(|| bytes(&run(task())))).collect();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let (one, two) = pool.install(|| rayon::join(|| bytes(&run(task())), || bytes(&run(task()))));
        assert_eq!((&one, &two), (&expected, &expected));
        for thread in plain {
            assert_eq!(thread.join().unwrap(), expected);
        }
    });
}

#[test]
fn staging_inline_makes_the_same_proof() {
    let core = core();
    let instance = common::dense(100, &mut rng(22));
    let srs = generate(&instance.circuit, rng(23));
    let blinding = Blinding::random(rng(24));
    let key = Arc::new(ProvingKey { circuit: instance.circuit.clone(), srs });
    let task = || core.task(0, key.clone(), Arc::new(instance.witness.clone()), blinding).unwrap();
    let mut inline = task();
    inline.prepare().unwrap();
    inline.compute().unwrap();
    assert_eq!(bytes(&inline.finish().unwrap()), bytes(&run(task())));
}

#[test]
fn stages_out_of_order_are_errors() {
    let core = core();
    let instance = common::tiny();
    let srs = generate(&instance.circuit, rng(25));
    let key = Arc::new(ProvingKey { circuit: instance.circuit.clone(), srs });
    let blinding = Blinding::random(rng(26));
    let task = || core.task(0, key.clone(), Arc::new(instance.witness.clone()), blinding).unwrap();
    let out_of_order = |result| matches!(result, Err(CoreError::OutOfOrder { .. }));
    assert!(out_of_order(task().stage()));
    assert!(out_of_order(task().compute()));
    assert!(out_of_order(task().finish().map(drop)));
    let mut twice = task();
    twice.prepare().unwrap();
    assert!(out_of_order(twice.prepare()));
    let mut early = task();
    early.prepare().unwrap();
    early.stage().unwrap();
    assert!(out_of_order(early.finish().map(drop)));
}

#[test]
fn vectors_that_do_not_fit_the_circuit_are_errors() {
    let core = core();
    let instance = common::dense(50, &mut rng(27));
    let srs = generate(&instance.circuit, rng(28));
    let refused = |spoil: &dyn Fn(&mut Srs, &mut Vec<Scalar>)| {
        let (mut srs, mut witness) = (srs.clone(), instance.witness.clone());
        spoil(&mut srs, &mut witness.values);
        let key = Arc::new(ProvingKey { circuit: instance.circuit.clone(), srs });
        let task = core.task(0, key, Arc::new(witness), Blinding::random(rng(29)));
        let result = task.and_then(|mut task| task.prepare());
        assert!(matches!(result, Err(CoreError::Mismatch { .. })), "{result:?}");
    };
    fn shorten<T>(vector: &mut Vec<T>) {
        vector.truncate(vector.len() - 1);
    }
    refused(&|_, values| shorten(values));
    refused(&|_, values| values.push(Scalar::ONE));
    refused(&|srs, _| shorten(&mut srs.h));
    refused(&|srs, _| srs.h_basis = HBasis::OddCoset);
    refused(&|srs, _| shorten(&mut srs.l));
    refused(&|srs, _| shorten(&mut srs.a));
    refused(&|srs, _| shorten(&mut srs.b_g1));
    refused(&|srs, _| shorten(&mut srs.b_g2));
    refused(&|srs, _| shorten(&mut srs.vk.ic));
    refused(&|srs, _| *srs.a_variables.last_mut().unwrap() = 1_000_000);
    refused(&|srs, _| *srs.b_variables.last_mut().unwrap() = 1_000_000);
}
