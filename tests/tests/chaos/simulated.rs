//! A core that proves nothing: stages take random times, plans are random, and stages fail at random. What stands for a proof tells
//! which witness it is of. It keeps its own books of device memory, against which the engine's ledger is checked.

use std::collections::HashMap;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use blstrs::{Bls12, G1Affine, G1Projective, G2Affine, Scalar};
use ff::Field;
use group::Group;
use group::prime::PrimeCurveAffine;
use interlock_engine::circuit::Witness;
use interlock_engine::core::{Blinding, Core, CoreError, CoreTask, Device, Plan, ProvingKey};
use interlock_engine::proof::Proof;
use parking_lot::Mutex;
use rand::Rng;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::statement::{Statements, number, square};

const NAME: &str = "simulated";

/// Chances of failing, in thousandths: of a stage, and of the device in a stage.
#[derive(Clone, Copy)]
pub struct Faults {
    pub stage: u32,
    pub device: u32,
}

impl Faults {
    pub const NONE: Faults = Faults { stage: 0, device: 0 };
}

/// Clones are one core.
#[derive(Clone)]
pub struct Simulated(Arc<Inner>);

struct Inner {
    devices: Vec<Device>,
    /// By the key's address: the core is asked about these keys only.
    plans: HashMap<usize, Plan>,
    faults: Faults,
    seed: u64,
    held: Vec<AtomicU64>,
    lost: Vec<AtomicBool>,
    books: Mutex<Books>,
}

/// What came to pass.
#[derive(Clone, Default)]
pub struct Books {
    /// Attempts, by the witness's number.
    attempts: HashMap<u64, u64>,
    /// Proofs made, by the witness's number.
    pub proofs: HashMap<u64, u64>,
    pub failures: u64,
    pub lost_devices: u64,
    /// Grants that went beyond a device's memory.
    pub overcommits: u64,
}

impl Simulated {
    /// A core with `devices` devices, each of which has room for at least one task of any key.
    pub fn new(devices: usize, faults: Faults, statements: &Statements, rng: &mut ChaCha20Rng) -> Self {
        let plan = |rng: &mut ChaCha20Rng| Plan {
            staged_bytes: rng.gen_range(1..1_000),
            compute_extra: rng.gen_range(0..1_000),
            host_bytes: 0,
        };
        let plans: HashMap<usize, Plan> =
            statements.keys.iter().map(|key| (Arc::as_ptr(key) as usize, plan(rng))).collect();
        let largest = plans.values().map(Plan::peak_bytes).max().expect("there are keys");
        let device = |index: usize, rng: &mut ChaCha20Rng| Device {
            name: format!("simulated {index}"),
            capacity_bytes: largest + rng.gen_range(0..2_000),
            uuid: None,
        };
        let inner = Inner {
            devices: (0..devices).map(|index| device(index, rng)).collect(),
            plans,
            faults,
            seed: rng.r#gen(),
            held: (0..devices).map(|_| AtomicU64::new(0)).collect(),
            lost: (0..devices).map(|_| AtomicBool::new(false)).collect(),
            books: Mutex::default(),
        };
        Self(Arc::new(inner))
    }

    /// What came to pass, once nothing holds memory any more.
    pub fn books(&self) -> Books {
        assert!(self.0.held.iter().all(|held| held.load(Ordering::SeqCst) == 0), "all memory was given back");
        self.0.books.lock().clone()
    }
}

/// What stands for the proof of a witness.
pub fn token(number: u64) -> Proof<Bls12> {
    let point = |scalar: Scalar| G1Affine::from(G1Projective::generator() * scalar);
    let square = square(number);
    Proof { a: point(square), b: G2Affine::generator(), c: point(square + Scalar::ONE) }
}

impl Core for Simulated {
    fn name(&self) -> &'static str {
        NAME
    }

    fn devices(&self) -> &[Device] {
        &self.0.devices
    }

    fn plan(&self, key: &ProvingKey) -> Plan {
        self.0.plans[&(std::ptr::from_ref(key) as usize)]
    }

    fn task(
        &self,
        device: usize,
        key: Arc<ProvingKey>,
        witness: Arc<Witness>,
        _blinding: Blinding,
    ) -> Result<Box<dyn CoreTask>, CoreError> {
        let number = number(&witness);
        let attempt = {
            let mut books = self.0.books.lock();
            let attempts = books.attempts.entry(number).or_default();
            *attempts += 1;
            *attempts
        };
        let rng = ChaCha20Rng::seed_from_u64(self.0.seed ^ (number << 8) ^ attempt);
        let plan = self.plan(&key);
        Ok(Box::new(Task { core: self.0.clone(), device, number, plan, rng, held: 0, staged: false }))
    }
}

struct Task {
    core: Arc<Inner>,
    device: usize,
    number: u64,
    plan: Plan,
    rng: ChaCha20Rng,
    held: u64,
    staged: bool,
}

impl Task {
    /// Takes its time, and perhaps fails.
    fn run(&mut self) -> Result<(), CoreError> {
        let long = Duration::from_micros(self.rng.gen_range(0..1_500));
        if self.rng.r#gen() {
            thread::sleep(long);
        } else {
            let start = Instant::now();
            while start.elapsed() < long {
                hint::spin_loop();
            }
        }
        let Inner { faults, lost, books, .. } = &*self.core;
        let device = self.device;
        if self.rng.gen_ratio(faults.device, 1_000) && !lost[device].swap(true, Ordering::SeqCst) {
            books.lock().lost_devices += 1;
        }
        if lost[device].load(Ordering::SeqCst) {
            let message = "it fell off the bus".to_owned();
            return Err(CoreError::DeviceLost { core: NAME, device, message });
        }
        if !self.rng.gen_ratio(faults.stage, 1_000) {
            return Ok(());
        }
        books.lock().failures += 1;
        match self.rng.gen_range(0..3) {
            0 => Err(CoreError::OutOfMemory { core: NAME, what: "buckets".into(), bytes: self.held }),
            1 => Err(CoreError::Device { core: NAME, device, message: "kernel error".to_owned() }),
            // A panic that says nothing on standard error: there are many.
            _ => std::panic::resume_unwind(Box::new("the card is on fire")),
        }
    }

    fn allocate(&mut self, bytes: u64) {
        let held = self.core.held[self.device].fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.held += bytes;
        if held > self.core.devices[self.device].capacity_bytes {
            self.core.books.lock().overcommits += 1;
        }
    }

    fn free(&mut self) {
        self.core.held[self.device].fetch_sub(self.held, Ordering::SeqCst);
        self.held = 0;
    }
}

impl CoreTask for Task {
    fn prepare(&mut self) -> Result<(), CoreError> {
        self.run()
    }

    fn stage(&mut self) -> Result<(), CoreError> {
        self.allocate(self.plan.staged_bytes);
        self.staged = true;
        self.run()
    }

    fn compute(&mut self) -> Result<(), CoreError> {
        let staged = if self.staged { 0 } else { self.plan.staged_bytes };
        self.allocate(staged + self.plan.compute_extra);
        self.run()?;
        self.free();
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Proof<Bls12>, CoreError> {
        self.run()?;
        *self.core.books.lock().proofs.entry(self.number).or_default() += 1;
        Ok(token(self.number))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.free();
    }
}
