//! Keys, jobs and an engine around the core.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use blstrs::Scalar;
use ff::Field;
use interlock_core_api::{OpenOptions, Residency};
use interlock_engine::circuit::Witness;
use interlock_engine::circuit::recorder::{Recorder, WitnessRecorder};
use interlock_engine::core::ProvingKey;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::loaded::LoadedCore;
use interlock_engine::host::{OptionsText, PolicyLibrary, Verified};
use interlock_engine::pipeline::{self, Engine, Job, PartitionOutcome, TimelineEvent, TimelineKind};
use interlock_engine::proof;
use interlock_engine::srs::{HBasis, Srs, setup};
use interlock_tests::fixtures;
use interlock_tests::libraries::library;
use rand::rngs::OsRng;

use super::driver::{Books, OBJECTS, books};

/// Room for a few small tasks.
pub const VRAM: u64 = 256 << 20;

pub fn options(residency: Residency) -> OpenOptions {
    OpenOptions { vram_limit: VRAM, residency, ..OpenOptions::default() }
}

/// The key of a checked-in circuit.
pub fn key(name: &str) -> Arc<ProvingKey> {
    let (circuit, _) = fixtures::circuit(name);
    let srs = setup::generate(&circuit, OsRng);
    Arc::new(ProvingKey { circuit, srs })
}

pub fn witness(name: &str) -> Witness {
    fixtures::circuit(name).1
}

pub const SMALL: &str = "multiplier";

/// A key and a witness with a domain of `2^log_domain` points: bits, each its own square. Of the SRS only the sizes are
/// right.
pub fn sized(log_domain: u32, h_basis: HBasis) -> (Arc<ProvingKey>, Arc<Witness>) {
    let (mut recorder, mut values) = (Recorder::new(), WitnessRecorder::new());
    recorder.alloc_input();
    values.alloc_input(Scalar::ONE);
    // Two rows of the domain are those of the inputs.
    for _ in 0..(1_u32 << log_domain) - 2 {
        let bit = [(recorder.alloc_aux(), Scalar::ONE)];
        values.alloc_aux(Scalar::ONE);
        recorder.enforce(bit, bit, bit);
    }
    let circuit = recorder.finish().expect("it is small");
    let of = key(SMALL).srs.clone();
    let (g1, g2, variables) = (of.a[0], of.b_g2[0], circuit.num_variables());
    let h = circuit.domain_size() - usize::from(h_basis == HBasis::Monomial);
    let all: Vec<u32> = (0..variables as u32).collect();
    let mut vk = of.vk;
    vk.ic = vec![g1; circuit.num_inputs];
    let srs = Srs {
        vk,
        h: vec![g1; h],
        h_basis,
        l: vec![g1; circuit.num_aux],
        a: vec![g1; variables],
        a_variables: all.clone(),
        b_g1: vec![g1; variables],
        b_g2: vec![g2; variables],
        b_variables: all,
    };
    (Arc::new(ProvingKey { circuit, srs }), Arc::new(values.finish()))
}

pub fn job(key: &Arc<ProvingKey>, partitions: usize) -> Job {
    let mut job = Job::new(key.clone());
    let witness = witness(SMALL);
    for _ in 0..partitions {
        job.push_witness(witness.clone());
    }
    job
}

/// An engine over the core that stages ahead, with the CPU core behind.
pub fn engine(core: &Arc<LoadedCore>, workers: u32, recorder: Arc<dyn pipeline::Recorder>) -> Engine {
    let verified = Verified::file(&library("two-lock"), None, None, &OptionsText::default());
    let policy = PolicyLibrary::open(verified.expect("the library is good")).expect("the library is good");
    let cpu = CpuCore::new(1 << 30, Some(1)).expect("a thread");
    Engine::builder(core.clone())
        .fallback_core(Arc::new(cpu))
        .policy(policy)
        .workers_per_device(workers)
        .dumps(concat!(env!("CARGO_TARGET_TMPDIR"), "/dumps"))
        .recorder(recorder)
        .start()
        .expect("starts")
}

/// Every partition has a proof that bellperson's verifier accepts.
#[track_caller]
pub fn assert_proved(key: &ProvingKey, outcomes: &[PartitionOutcome], partitions: usize) {
    assert_eq!(outcomes.len(), partitions);
    for outcome in outcomes {
        let proved = outcome.result.as_ref().unwrap_or_else(|error| panic!("{error}"));
        assert!(proof::verify(&key.srs.vk, &proved.proof, &proved.public_inputs).expect("well formed"));
    }
}

/// Nothing is held on any device.
#[track_caller]
pub fn assert_idle(engine: &Engine, core: &LoadedCore, devices: usize) {
    for snapshot in engine.snapshots() {
        assert_eq!(snapshot.reserved_bytes, 0, "{snapshot:?}");
        assert!(snapshot.waiting.is_empty() && snapshot.running.is_empty(), "{snapshot:?}");
    }
    for device in 0..devices {
        assert_eq!(core.usage(device).held_bytes, 0);
    }
}

/// Keeps what the tests ask about.
#[derive(Default)]
pub struct Record {
    state: Mutex<Recorded>,
}

#[derive(Default)]
struct Recorded {
    first_arrival: Option<Books>,
    most: [u64; OBJECTS.len()],
    lost: Vec<u32>,
    /// Partition and device of each arrival.
    arrivals: Vec<(u32, u32)>,
    after_loss: BTreeSet<u32>,
}

impl Record {
    /// The books when the first task came to its device.
    pub fn first_arrival(&self) -> Books {
        self.state.lock().unwrap().first_arrival.take().expect("a task has come")
    }

    /// The most objects of each kind that were seen.
    pub fn most(&self) -> [u64; OBJECTS.len()] {
        self.state.lock().unwrap().most
    }

    /// Devices that were said to be lost, each time.
    pub fn lost(&self) -> Vec<u32> {
        self.state.lock().unwrap().lost.clone()
    }

    /// How often a partition came to a device.
    pub fn arrivals(&self, partition: u32, device: u32) -> usize {
        self.state.lock().unwrap().arrivals.iter().filter(|arrival| **arrival == (partition, device)).count()
    }

    /// Devices that took tasks after the first one was lost.
    pub fn took_over(&self) -> BTreeSet<u32> {
        self.state.lock().unwrap().after_loss.clone()
    }
}

impl pipeline::Recorder for Record {
    fn record(&self, event: &TimelineEvent) {
        let mut state = self.state.lock().unwrap();
        match (event.event, event.device, event.partition) {
            (TimelineKind::Arrived, Some(device), Some(partition)) => {
                if state.first_arrival.is_none() {
                    state.first_arrival = Some(books());
                }
                state.arrivals.push((partition, device));
                if !state.lost.is_empty() {
                    state.after_loss.insert(device);
                }
            }
            (TimelineKind::DeviceLost, Some(device), _) => state.lost.push(device),
            (TimelineKind::Ended | TimelineKind::Failed, ..) => {
                let now = books().objects();
                state.most = std::array::from_fn(|kind| state.most[kind].max(now[kind]));
            }
            _ => {}
        }
    }
}
