//! The CUDA core against the CPU core, on a real card: the same SRS, witness and blinding give the same proof,
//! byte for byte.
//!
//! Runs where `INTERLOCK_CUDA_CORE` names the library or it lies where cargo puts it, and where there is a driver;
//! elsewhere each test says why it is skipped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use blstrs::Bls12;
use interlock_core_api::{OpenOptions, UsageRecord};
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::loaded::{LoadCoreFault, LoadedCore};
use interlock_engine::core::{Blinding, Core, CoreTask, ProvingKey};
use interlock_engine::proof::Proof;
use interlock_engine::srs::HBasis;
use interlock_engine::srs::setup::generate_with_basis;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

mod common;

use common::Instance;

const BUDGET: u64 = 4 << 30;

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn library() -> PathBuf {
    std::env::var_os("INTERLOCK_CUDA_CORE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/libinterlock_cuda.so"),
        PathBuf::from,
    )
}

/// The core, or nothing, with a line that says why.
fn cuda_core(vram_limit: u64) -> Option<LoadedCore> {
    let file = library();
    if !file.exists() {
        println!("skipped: {} has not been built", file.display());
        return None;
    }
    let options = OpenOptions { vram_limit, ..OpenOptions::default() };
    match LoadedCore::open("cuda", &file, &options) {
        Ok(core) => Some(core),
        Err(error) if matches!(error.fault, LoadCoreFault::NoDriver) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn run(mut task: Box<dyn CoreTask>, staged: bool) -> Proof<Bls12> {
    task.prepare().unwrap();
    if staged {
        task.stage().unwrap();
    }
    task.compute().unwrap();
    task.finish().unwrap()
}

fn bytes(proof: &Proof<Bls12>) -> Vec<u8> {
    let mut bytes = Vec::new();
    proof.write(&mut bytes).unwrap();
    bytes
}

fn key(instance: &Instance, basis: HBasis) -> Arc<ProvingKey> {
    let srs = generate_with_basis(&instance.circuit, basis, rng(1));
    Arc::new(ProvingKey { circuit: instance.circuit.clone(), srs })
}

fn check_basis(cuda: &LoadedCore, instance: &Instance, basis: HBasis) {
    let key = key(instance, basis);
    let witness = Arc::new(instance.witness.clone());
    let blinding = Blinding::random(rng(2));
    let cpu = CpuCore::new(BUDGET, None).unwrap();
    let expected = bytes(&run(cpu.task(0, key.clone(), witness.clone(), blinding).unwrap(), true));
    for staged in [true, false] {
        let task = cuda.task(0, key.clone(), witness.clone(), blinding).unwrap();
        assert_eq!(
            bytes(&run(task, staged)),
            expected,
            "{basis:?}, domain {}",
            instance.circuit.domain_size()
        );
    }
    assert_eq!(cuda.usage(0).held_bytes, 0);
}

fn check(cuda: &LoadedCore, instance: &Instance) {
    check_basis(cuda, instance, HBasis::Monomial);
    check_basis(cuda, instance, HBasis::OddCoset);
}

#[test]
fn dense_values_of_every_size() {
    let Some(cuda) = cuda_core(BUDGET) else { return };
    for log_size in 2..=15 {
        check(&cuda, &common::dense((1 << log_size) - 3, &mut rng(log_size)));
    }
    check_basis(&cuda, &common::dense((1 << 17) - 3, &mut rng(17)), HBasis::Monomial);
}

#[test]
fn bits_small_values_and_equal_values() {
    let Some(cuda) = cuda_core(BUDGET) else { return };
    for constraints in [20, 1_000, 60_000] {
        for ones in [0.0, 0.5, 1.0] {
            check(&cuda, &common::bits(constraints, ones, &mut rng(3)));
        }
        check(&cuda, &common::small_values(constraints, &mut rng(4)));
        check(&cuda, &common::repeated_value(constraints, &mut rng(5)));
    }
}

#[test]
fn public_inputs_one_and_thousands() {
    let Some(cuda) = cuda_core(BUDGET) else { return };
    check(&cuda, &common::tiny());
    for inputs in [1, 30, 5_000] {
        check(&cuda, &common::many_inputs(inputs, &mut rng(6)));
    }
    check(&cuda, &common::with_unconstrained(common::dense(500, &mut rng(7)), 700, &mut rng(8)));
}

#[test]
fn tasks_that_overlap_do_not_disturb_each_other() {
    let Some(cuda) = cuda_core(BUDGET) else { return };
    let instances = [common::dense(20_000, &mut rng(9)), common::bits(30_000, 0.5, &mut rng(10))];
    let jobs: Vec<_> = instances
        .iter()
        .map(|instance| {
            let (key, witness) = (key(instance, HBasis::Monomial), Arc::new(instance.witness.clone()));
            let blinding = Blinding::random(rng(11));
            let cpu = CpuCore::new(BUDGET, None).unwrap();
            let proof = bytes(&run(cpu.task(0, key.clone(), witness.clone(), blinding).unwrap(), true));
            (key, witness, blinding, proof)
        })
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (cuda, jobs) = (&cuda, &jobs);
            scope.spawn(move || {
                for round in 0..10 {
                    let (key, witness, blinding, expected) = &jobs[(thread + round) % 2];
                    let task = cuda.task(0, key.clone(), witness.clone(), *blinding).unwrap();
                    assert_eq!(bytes(&run(task, round % 3 == 0)), *expected);
                }
            });
        }
    });
    assert_eq!(cuda.usage(0).held_bytes, 0);
}

#[test]
fn a_task_holds_what_its_plan_says_and_no_more() {
    let Some(cuda) = cuda_core(BUDGET) else { return };
    let instance = common::dense(3_000, &mut rng(12));
    let (key, witness) = (key(&instance, HBasis::Monomial), Arc::new(instance.witness.clone()));
    let plan = cuda.plan(&key);
    let mut task = cuda.task(0, key, witness, Blinding::random(rng(13))).unwrap();
    task.prepare().unwrap();
    assert_eq!(cuda.usage(0), UsageRecord { held_bytes: 0, peak_bytes: 0 });
    task.stage().unwrap();
    assert_eq!(cuda.usage(0).held_bytes, plan.staged_bytes);
    task.compute().unwrap();
    assert_eq!(cuda.usage(0), UsageRecord { held_bytes: 0, peak_bytes: plan.peak_bytes() });
}

#[test]
fn a_task_that_does_not_fit_fails_alone() {
    let Some(cuda) = cuda_core(BUDGET) else { return };
    let instance = common::dense(3_000, &mut rng(14));
    let plan = cuda.plan(&key(&instance, HBasis::Monomial));
    drop(cuda);
    let Some(cuda) = cuda_core(plan.peak_bytes() + plan.staged_bytes) else { return };
    let (key, witness) = (key(&instance, HBasis::Monomial), Arc::new(instance.witness.clone()));
    let task = || cuda.task(0, key.clone(), witness.clone(), Blinding::random(rng(15))).unwrap();
    let mut waiting: Vec<_> = (0..2).map(|_| task()).collect();
    for task in &mut waiting {
        task.prepare().unwrap();
        task.stage().unwrap();
    }
    let mut third = task();
    third.prepare().unwrap();
    assert!(third.compute().is_err());
    drop(third);
    for mut task in waiting {
        task.compute().unwrap();
    }
    assert_eq!(cuda.usage(0).held_bytes, 0);
}
