//! snarkjs judges the engine's proofs.
//!
//! It runs where node and `tests/snarkjs/node_modules` are (`npm install` in `tests/snarkjs`); elsewhere the
//! tests say that they were skipped, and pass.

use std::path::{Path, PathBuf};
use std::process::Command;

use blstrs::{Bls12, Scalar};
use interlock_engine::circuit::bellpepper::{record, synthesize_witness};
use interlock_engine::circuit::recorder::{Recorder, WitnessRecorder};
use interlock_engine::circuit::{Circuit, FileChunk, Witness, r1cs, wtns};
use interlock_engine::format::{Input, PointCheck};
use interlock_engine::proof::vkey::{self, VerifyingKey};
use interlock_engine::proof::{self, Proof, Verifier};
use interlock_engine::srs::{Srs, params, setup, zkey};
use interlock_tests::fixtures::{self, CIRCUITS};
use interlock_tests::prove::prove;
use rand::rngs::OsRng;

/// snarkjs, when it can be run.
struct Snarkjs {
    script: PathBuf,
}

impl Snarkjs {
    /// Finds snarkjs, or says on standard output why the test is skipped.
    fn find() -> Option<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("snarkjs/node_modules/snarkjs/build/cli.cjs");
        let node = Command::new("node").arg("--version").output();
        if !node.is_ok_and(|output| output.status.success()) {
            println!("skipped: node is not installed");
            return None;
        }
        if !script.is_file() {
            println!("skipped: snarkjs is not installed; run `npm install` in tests/snarkjs");
            return None;
        }
        Some(Self { script })
    }

    /// Whether `snarkjs groth16 verify` accepts, by its exit code and by what it prints.
    fn accepts(&self, key: &VerifyingKey<Bls12>, inputs: &[Scalar], proof: &Proof<Bls12>) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let output = Command::new("node")
            .arg(&self.script)
            .args(["groth16", "verify"])
            .arg(write("vkey.json", vkey::to_json(key)))
            .arg(write("public.json", proof::public_to_json(inputs)))
            .arg(write("proof.json", proof::to_json(proof)))
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let accepted = printed.contains("OK!");
        assert_eq!(accepted, output.status.success(), "{printed}");
        assert!(accepted || printed.contains("Invalid proof"), "{printed}");
        accepted
    }
}

/// Proves, has the engine's own verifier judge, then snarkjs: the proof holds, and not for another input.
fn check(snarkjs: &Snarkjs, circuit: Circuit, srs: Srs, witness: Witness) {
    assert_eq!(witness.check(&circuit), Ok(()));
    let key = srs.vk.clone();
    let mut inputs = witness.public_inputs(&circuit).to_vec();
    let proof = prove(circuit, srs, witness);
    assert_eq!(Verifier::new(&key).unwrap().verify(&proof, &inputs), Ok(true));
    assert!(snarkjs.accepts(&key, &inputs, &proof));
    if let Some(first) = inputs.first_mut() {
        *first += Scalar::from(1);
        assert!(!snarkjs.accepts(&key, &inputs, &proof));
    }
}

#[test]
fn accepts_proofs_made_with_its_own_zkey() {
    let Some(snarkjs) = Snarkjs::find() else { return };
    let circuit = r1cs::read(&fixtures::open("circom_mul/mul.r1cs")).unwrap();
    let witness = wtns::read(&fixtures::open("circom_mul/mul.wtns")).unwrap();
    let srs = zkey::read(&fixtures::open("circom_mul/mul.zkey"), &circuit, PointCheck::Full).unwrap();
    check(&snarkjs, circuit, srs, witness);

    let (circuit, witness) = fixtures::circuit("range");
    let srs = zkey::read(&fixtures::open("circuits/range.zkey"), &circuit, PointCheck::Full).unwrap();
    check(&snarkjs, circuit, srs, witness);
}

#[test]
fn accepts_proofs_made_with_our_setup() {
    let Some(snarkjs) = Snarkjs::find() else { return };
    for name in CIRCUITS {
        let (circuit, witness) = fixtures::circuit(name);
        // Through a file, as the command line does it.
        let mut bytes = Vec::new();
        params::write(&setup::generate(&circuit, OsRng), &mut bytes).unwrap();
        let input = Input::from_bytes("params", bytes);
        let srs = params::read(&input, &circuit, PointCheck::Full).unwrap();
        check(&snarkjs, circuit, srs, witness);
    }
}

#[test]
fn accepts_a_proof_of_a_bellpepper_circuit() {
    let Some(snarkjs) = Snarkjs::find() else { return };
    let circuit = record(FileChunk::shape(40)).unwrap();
    let witness = synthesize_witness(FileChunk::new(b"forty bytes or less", 40).unwrap()).unwrap();
    let srs = setup::generate(&circuit, OsRng);
    check(&snarkjs, circuit, srs, witness);
}

#[test]
fn accepts_a_proof_without_public_inputs() {
    let Some(snarkjs) = Snarkjs::find() else { return };
    let mut recorder = Recorder::new();
    let (x, y) = (recorder.alloc_aux(), recorder.alloc_aux());
    let unit = |variable| [(variable, Scalar::from(1))];
    recorder.enforce(unit(x), unit(x), unit(y));
    let circuit = recorder.finish().unwrap();
    let mut values = WitnessRecorder::for_circuit(&circuit);
    values.alloc_aux(Scalar::from(7));
    values.alloc_aux(Scalar::from(49));
    let srs = setup::generate(&circuit, OsRng);
    check(&snarkjs, circuit, srs, values.finish());
}
