use std::sync::Arc;

use blstrs::{Bls12, G1Affine, Scalar};
use group::prime::PrimeCurveAffine;
use interlock_engine::circuit::Witness;
use interlock_engine::circuit::recorder::{Recorder, Variable, WitnessRecorder};
use interlock_engine::core::Blinding;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::proof::Proof;

use super::*;
use crate::peer::seats::{POLICIES, SeatOptions};
use crate::peer::table::{details, summary};

/// What the case's file is named after.
const LOG_SIZE: u32 = 2;

/// A prover that stands in for the peer: the CPU core, with a fault or without.
struct StandIn {
    statement: Statement,
    core: CpuCore,
    spoil: fn(usize, &mut Proof<Bls12>),
}

impl PeerProver for StandIn {
    fn prove(
        &self,
        inputs: &ProverInputs,
        witness: &Witness,
        blindings: &[Blinding],
    ) -> Result<Vec<Proof<Bls12>>, Error> {
        assert_eq!(witness.values.len(), inputs.num_inputs + inputs.num_aux);
        let proof = |(index, blinding): (usize, &Blinding)| {
            let mut proof = Statement { blinding: *blinding, ..self.statement.clone() }.prove(&self.core)?;
            (self.spoil)(index, &mut proof);
            Ok(proof)
        };
        blindings.iter().enumerate().map(proof).collect()
    }
}

/// Knowledge of 2^2, 2^4, ... of which each is the square of the one before; the last is public.
fn squares() -> Statement {
    let (mut circuit, mut witness) = (Recorder::new(), WitnessRecorder::new());
    let one = Scalar::from(1);
    let mut value = Scalar::from(2);
    let mut last = circuit.alloc_aux();
    witness.alloc_aux(value);
    for _ in 0..40 {
        value *= value;
        let square = circuit.alloc_aux();
        witness.alloc_aux(value);
        circuit.enforce([(last, one)], [(last, one)], [(square, one)]);
        last = square;
    }
    let public = circuit.alloc_input();
    witness.alloc_input(value);
    circuit.enforce([(last, one)], [(Variable::Input(0), one)], [(public, one)]);
    Statement::new(circuit.finish().unwrap(), witness.finish())
}

fn case() -> (tempfile::TempDir, Case) {
    let directory = tempfile::tempdir().unwrap();
    let case = Case::of(squares(), LOG_SIZE, directory.path()).unwrap();
    (directory, case)
}

fn stand_in(case: &Case, spoil: fn(usize, &mut Proof<Bls12>)) -> StandIn {
    let core = CpuCore::new(u64::MAX, None).unwrap();
    StandIn { statement: case.statement.clone(), core, spoil }
}

#[test]
fn a_peer_with_another_proof_is_found_out() {
    let (_directory, case) = case();
    assert!(case.check_peer(&stand_in(&case, |_, _| {})).is_ok());
    let other_c = stand_in(&case, |index, proof| {
        if index == 0 {
            proof.c = G1Affine::generator();
        }
    });
    let message = case.check_peer(&other_c).unwrap_err().to_string();
    assert!(message.contains("differs in C") && message.contains("does not verify"), "{message}");
    let late = stand_in(&case, |index, proof| {
        if index == 2 {
            proof.a = G1Affine::generator();
        }
    });
    let message = case.check_peer(&late).unwrap_err().to_string();
    assert!(message.contains("circuit 2 of 4"), "{message}");
}

#[test]
fn every_policy_and_number_of_workers_is_in_the_comparison() {
    let (_directory, case) = case();
    let peer = stand_in(&case, |_, _| {});
    let core: Arc<dyn Core> = Arc::new(CpuCore::new(1 << 30, None).unwrap());
    case.check_core(core.as_ref()).unwrap();
    let policies = POLICIES.map(str::to_owned).to_vec();
    let seats = SeatOptions { policies: policies.clone(), workers: vec![1, 4] };
    let effort = Effort { rounds: 1, proofs: 1, at_once: vec![2, 3], seats };
    let alone = measure_peer(&case, &peer, &effort).unwrap();
    let comparison = compare(&case, &peer, alone, &core, &effort).unwrap();
    assert_eq!(comparison.constraints, case.statement.key.circuit.num_constraints());
    let rows: Vec<_> = comparison.engine.iter().map(|row| (row.policy.as_str(), row.workers)).collect();
    let expected: Vec<_> =
        policies.iter().flat_map(|policy| [1, 4].map(|workers| (policy.as_str(), workers))).collect();
    assert_eq!(rows, expected);
    assert_eq!(comparison.core_at_once.iter().map(|at_once| at_once.tasks).collect::<Vec<_>>(), [2, 3]);
    let plan = core.plan(&case.statement.key).peak_bytes();
    for row in &comparison.engine {
        assert_eq!((row.proofs, row.refused, row.peak_bytes), (1, 0, plan), "{row:?}");
        assert_eq!(row.skips, u64::from(row.policy == "serialized-fallback"), "{row:?}");
    }
    let text = details(&comparison);
    assert!(policies.iter().all(|policy| text.contains(policy)), "{text}");
    assert!(summary(&[comparison]).contains("| 2^2 |"));
}

#[test]
fn a_policy_that_is_not_there_is_said_with_those_that_are() {
    let core: Arc<dyn Core> = Arc::new(CpuCore::new(1 << 30, None).unwrap());
    let start = |policy: &str| {
        let options = SeatOptions { policies: vec![policy.to_owned()], workers: vec![2] };
        options.start(&core).map(|seats| seats.len()).map_err(|error| error.to_string())
    };
    let message = start("triple-lock(permits: 1)").unwrap_err();
    assert!(message.contains("`triple-lock`") && message.contains("two-lock, vram-token"), "{message}");
    assert!(start("vram-token(compute_permits: none)").is_err());
    assert_eq!(start("vram-token(compute_permits: 3)").unwrap(), 1);
}
