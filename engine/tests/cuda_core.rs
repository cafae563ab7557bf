//! The CUDA core against the CPU core, on a real card: the same SRS, witness and blinding give the same proof,
//! byte for byte.
//!
//! Runs where `INTERLOCK_CUDA_CORE` names the library or it lies where cargo puts it, and where there is a driver;
//! elsewhere each test says why it is skipped.

use std::sync::{Arc, Mutex};

use blstrs::{Bls12, G1Affine};
use group::prime::PrimeCurveAffine;
use interlock_core_api::{OpenOptions, Residency, UsageRecord};
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::loaded::{LoadCoreFault, LoadedCore};
use interlock_engine::core::{Blinding, Core, CoreTask, ProvingKey};
use interlock_engine::proof::Proof;
use interlock_engine::srs::HBasis;
use interlock_engine::srs::setup::generate_with_basis;
use interlock_tests::libraries;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

mod common;

use common::Instance;

/// Device memory of a core, keys included.
const LIMIT: u64 = 4 << 30;

/// Sizes above this are left to machines with time: `INTERLOCK_CUDA_TEST_LOG_SIZE=22` asks for them.
const LOG_SIZE: u32 = 18;

fn most_log_size() -> u32 {
    let asked = std::env::var("INTERLOCK_CUDA_TEST_LOG_SIZE");
    asked.map_or(LOG_SIZE, |size| size.parse().expect("INTERLOCK_CUDA_TEST_LOG_SIZE is a number"))
}

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// The core, or nothing, with a line that says why.
fn cuda_core(options: &OpenOptions) -> Option<LoadedCore> {
    let file = libraries::cuda_core()?;
    match LoadedCore::open("cuda", &file, options) {
        Ok(core) => Some(core),
        Err(error) if matches!(error.fault, LoadCoreFault::NoDriver | LoadCoreFault::NoDevice(_)) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn options(residency: Residency) -> OpenOptions {
    // Every coefficient of a dense circuit is another one: their table is on the card wherever the key is.
    let (vram_limit, key_memory) = match most_log_size() {
        size if size <= LOG_SIZE => (LIMIT, 0),
        // With room for multiples of the points of 2^20.
        size if size <= 22 => (6 * LIMIT, 2 * LIMIT),
        _ => (16 * LIMIT, 6 * LIMIT),
    };
    OpenOptions { vram_limit, key_memory, residency, ..OpenOptions::default() }
}

/// One core that keeps keys on the card and one that streams them.
fn both() -> Option<[LoadedCore; 2]> {
    Some([cuda_core(&options(Residency::RESIDENT))?, cuda_core(&options(Residency::STREAMED))?])
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

fn check_basis(cores: &[LoadedCore], instance: &Instance, basis: HBasis) {
    check_key(cores, instance, &key(instance, basis));
}

fn check_key(cores: &[LoadedCore], instance: &Instance, key: &Arc<ProvingKey>) {
    let witness = Arc::new(instance.witness.clone());
    let blinding = Blinding::random(rng(2));
    let cpu = CpuCore::new(LIMIT, None).unwrap();
    let expected = bytes(&run(cpu.task(0, key.clone(), witness.clone(), blinding).unwrap(), true));
    for (index, cuda) in cores.iter().enumerate() {
        let plan = cuda.plan(key);
        for staged in [true, false] {
            let task = cuda.task(0, key.clone(), witness.clone(), blinding).unwrap();
            assert_eq!(
                bytes(&run(task, staged)),
                expected,
                "core {index}, {:?}, domain {}",
                key.srs.h_basis,
                instance.circuit.domain_size()
            );
        }
        let usage = cuda.usage(0);
        assert_eq!(usage.held_bytes, 0);
        assert!(usage.peak_bytes >= plan.peak_bytes());
    }
}

fn check(cores: &[LoadedCore], instance: &Instance) {
    check_basis(cores, instance, HBasis::Monomial);
    check_basis(cores, instance, HBasis::OddCoset);
}

#[test]
fn dense_values_of_every_size() {
    let Some(cores) = both() else { return };
    for log_size in 2..=15 {
        check(&cores, &common::dense((1 << log_size) - 3, &mut rng(log_size)));
    }
    check(&cores, &common::dense((1 << 18) - 3, &mut rng(18)));
}

#[test]
fn bits_small_values_and_equal_values() {
    let Some(cores) = both() else { return };
    for constraints in [20, 1_000, 60_000] {
        for ones in [0.0, 0.5, 1.0] {
            check(&cores, &common::bits(constraints, ones, &mut rng(3)));
        }
        check(&cores, &common::small_values(constraints, &mut rng(4)));
        check(&cores, &common::repeated_value(constraints, &mut rng(5)));
        check(&cores, &common::lone_value(constraints, &mut rng(5)));
    }
}

#[test]
fn public_inputs_one_and_thousands() {
    let Some(cores) = both() else { return };
    check(&cores, &common::tiny());
    for inputs in [1, 30, 5_000, 100_000] {
        check(&cores, &common::many_inputs(inputs, &mut rng(6)));
    }
    check(&cores, &common::with_unconstrained(common::dense(500, &mut rng(7)), 700, &mut rng(8)));
}

#[test]
fn rows_of_one_and_of_thousands_of_terms() {
    let Some(cores) = both() else { return };
    for constraints in [10, 700, 3_000] {
        check(&cores, &common::long_rows(constraints, &mut rng(16)));
    }
}

/// Points that are equal, opposite or infinite are added in other ways than all others. An SRS of a sound setup has
/// none, so that these proofs are wrong, but on both cores alike.
#[test]
fn points_that_meet_in_a_bucket() {
    // With room for multiples of the points of 2^20, whose sum shares inversions.
    let options = OpenOptions { vram_limit: 3 * LIMIT, key_memory: 5 * LIMIT / 2, ..OpenOptions::default() };
    let Some(core) = cuda_core(&options) else { return };
    let cores = [core];
    for log_size in [8, 12, 20] {
        let instance = common::dense((1 << log_size) - 3, &mut rng(28));
        let mut key = Arc::into_inner(key(&instance, HBasis::Monomial)).unwrap();
        let h = &mut key.srs.h;
        for first in (0..h.len() - 16).step_by(16) {
            let point = h[first];
            h[first + 1..first + 6].fill(point);
            h[first + 6..first + 10].fill(-point);
            h[first + 10..first + 13].fill(G1Affine::identity());
        }
        let half = h.len() / 2;
        let point = h[half];
        h[half..half + half / 2].fill(point);
        let key = Arc::new(key);
        let peak = cores[0].plan(&key).peak_bytes();
        assert!(log_size < 20 || peak > 300 << 20, "without multiples it would be 100 MB: {peak}");
        check_key(&cores, &instance, &key);
    }
}

#[test]
fn large_circuits_of_every_shape() {
    let Some(cores) = both() else { return };
    for log_size in (18..=most_log_size()).step_by(2) {
        let constraints = (1 << log_size) - 5_001;
        let shapes: [(&str, &dyn Fn() -> Instance); 4] = [
            ("dense", &|| common::dense(constraints, &mut rng(20))),
            ("bits", &|| common::bits(constraints, 0.5, &mut rng(21))),
            ("all zero but one", &|| common::lone_value(constraints, &mut rng(22))),
            ("public inputs", &|| common::many_inputs(constraints / 2, &mut rng(23))),
        ];
        for (name, make) in shapes {
            check_basis(&cores, &make(), HBasis::Monomial);
            println!("2^{log_size}, {name}: the same proofs");
        }
    }
}

#[test]
fn tasks_that_overlap_do_not_disturb_each_other() {
    let Some(cores) = both() else { return };
    let instances = [common::dense(20_000, &mut rng(9)), common::bits(30_000, 0.5, &mut rng(10))];
    let jobs: Vec<_> = instances
        .iter()
        .map(|instance| {
            let (key, witness) = (key(instance, HBasis::Monomial), Arc::new(instance.witness.clone()));
            let blinding = Blinding::random(rng(11));
            let cpu = CpuCore::new(LIMIT, None).unwrap();
            let proof = bytes(&run(cpu.task(0, key.clone(), witness.clone(), blinding).unwrap(), true));
            (key, witness, blinding, proof)
        })
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (cores, jobs) = (&cores, &jobs);
            scope.spawn(move || {
                for round in 0..10 {
                    let (key, witness, blinding, expected) = &jobs[(thread + round) % 2];
                    let core = &cores[round / 2 % 2];
                    let task = core.task(0, key.clone(), witness.clone(), *blinding).unwrap();
                    assert_eq!(bytes(&run(task, round % 3 == 0)), *expected);
                }
            });
        }
    });
    assert!(cores.iter().all(|core| core.usage(0).held_bytes == 0));
}

/// From when to when a task did a step on the card, in milliseconds.
type Step = (usize, String, f32, f32);

#[test]
fn uploads_and_kernels_of_tasks_overlap_on_the_card() {
    let options = OpenOptions { measure_steps: true, ..options(Residency::RESIDENT) };
    let Some(cuda) = cuda_core(&options) else { return };
    let instance = common::dense((1 << 17) - 3, &mut rng(24));
    let (key, witness) = (key(&instance, HBasis::Monomial), Arc::new(instance.witness.clone()));
    cuda.load(&key).unwrap();
    let steps = Mutex::new(Vec::<Step>::new());
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (cuda, key, witness, steps) = (&cuda, &key, &witness, &steps);
            scope.spawn(move || {
                for round in 0..10 {
                    let blinding = Blinding::random(rng(25));
                    let mut task = cuda.loaded_task(0, key.clone(), witness.clone(), blinding).unwrap();
                    task.prepare().unwrap();
                    task.stage().unwrap();
                    task.compute().unwrap();
                    let done = task.steps().into_iter().map(|step| {
                        let (begin, name) = (step.start_milliseconds, step.name.to_string());
                        (3 * round + thread, name, begin, begin + step.milliseconds)
                    });
                    steps.lock().unwrap().extend(done);
                }
            });
        }
    });
    let steps = steps.into_inner().unwrap();
    let overlap = |left: &Step, right: &Step| left.0 != right.0 && left.2 < right.3 && right.2 < left.3;
    let pairs = |is_it: &dyn Fn(&Step, &Step) -> bool| {
        let beside =
            |left: &Step| steps.iter().filter(|right| is_it(left, right) && overlap(left, right)).count();
        steps.iter().map(beside).sum::<usize>()
    };
    let uploads = pairs(&|left, right| left.1 == "upload" && right.1 != "upload");
    let kernels = pairs(&|left, right| left.1 != "upload" && right.1 != "upload");
    println!("{uploads} uploads beside steps of kernels, {kernels} steps of kernels beside others");
    assert!(uploads > 0 && kernels > 0, "{steps:?}");
}

#[test]
fn a_task_holds_what_its_plan_says_and_no_more() {
    for residency in [Residency::RESIDENT, Residency::STREAMED] {
        for log_size in (4..=most_log_size()).step_by(2) {
            let Some(cuda) = cuda_core(&options(residency)) else { return };
            let instance = common::bits((1 << log_size) - 5, 0.5, &mut rng(12));
            let (key, witness) = (key(&instance, HBasis::Monomial), Arc::new(instance.witness.clone()));
            cuda.load(&key).unwrap();
            let plan = cuda.plan(&key);
            let mut task = cuda.task(0, key, witness, Blinding::random(rng(13))).unwrap();
            task.prepare().unwrap();
            assert_eq!(cuda.usage(0), UsageRecord { held_bytes: 0, peak_bytes: 0 });
            task.stage().unwrap();
            assert_eq!(cuda.usage(0).held_bytes, plan.staged_bytes);
            task.compute().unwrap();
            assert_eq!(cuda.usage(0), UsageRecord { held_bytes: 0, peak_bytes: plan.peak_bytes() });
            println!("2^{log_size} {residency:?}: staged {}, peak {}", plan.staged_bytes, plan.peak_bytes());
        }
    }
}

#[test]
fn a_task_that_does_not_fit_fails_alone() {
    let Some(cuda) = cuda_core(&options(Residency::RESIDENT)) else { return };
    let instance = common::dense(3_000, &mut rng(14));
    let plan = cuda.plan(&key(&instance, HBasis::Monomial));
    drop(cuda);
    let key_memory = 64 << 20;
    let vram_limit = key_memory + plan.peak_bytes() + plan.staged_bytes;
    let options = OpenOptions { vram_limit, key_memory, ..OpenOptions::default() };
    let Some(cuda) = cuda_core(&options) else { return };
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

#[test]
fn unused_keys_make_room_for_others() {
    let instances = [1_000, 1_100, 1_200].map(|constraints| common::dense(constraints, &mut rng(26)));
    let keys: Vec<_> = instances.iter().map(|instance| key(instance, HBasis::Monomial)).collect();
    // One of these keys takes about a megabyte, and 400 KB of tables: two do not fit.
    let options = OpenOptions { key_memory: 2 << 20, ..options(Residency::RESIDENT) };
    let Some(cuda) = cuda_core(&options) else { return };
    for (key, instance) in keys.iter().zip(&instances).cycle().take(6) {
        let task = cuda.task(0, key.clone(), Arc::new(instance.witness.clone()), Blinding::random(rng(27)));
        run(task.unwrap(), true);
    }
}
