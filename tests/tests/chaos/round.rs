//! One engine's life: jobs come, policies go, and every proof is counted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::{Core, ProvingKey};
use interlock_engine::host;
use interlock_engine::pipeline::{Engine, EngineBuilder, EngineError, Job, JobHandle, Proved};
use interlock_engine::proof;
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::count::{Counts, Ear, Progress};
use crate::deck::{Dealt, Deck};
use crate::simulated::{Books, Faults, Simulated, token};
use crate::statement::{Statements, square, witness};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Real proofs, real verification.
    Cpu,
    /// Two devices that fail, and a third that does not.
    Simulated,
}

/// Where dumps go: not to the user's own.
const DUMPS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/dumps");
/// Swaps in one engine's life.
const SWAPS: usize = 5;

/// A round with what it needs.
struct Round<'a> {
    kind: Kind,
    what: &'a str,
    rng: ChaCha20Rng,
    statements: &'a Statements,
    deck: &'a mut Deck,
    progress: &'a Progress,
    next_number: u64,
    jobs: Vec<Asked>,
    counts: Counts,
}

/// A job under way.
struct Asked {
    handle: JobHandle,
    key: Arc<ProvingKey>,
    /// What its partitions are about.
    numbers: Vec<u64>,
}

pub fn play(
    kind: Kind,
    seed: u64,
    statements: &Statements,
    deck: &mut Deck,
    progress: &Progress,
    what: &str,
) -> Counts {
    let rng = ChaCha20Rng::seed_from_u64(seed);
    let (next_number, jobs, counts) = (0, Vec::new(), Counts::default());
    Round { kind, what, rng, statements, deck, progress, next_number, jobs, counts }.play()
}

impl Round<'_> {
    fn play(mut self) -> Counts {
        let ear = Arc::new(Ear::default());
        let simulated = (self.kind == Kind::Simulated).then(|| self.simulated());
        let engine = self.engine(simulated.as_ref(), &ear);
        let (what, over) = (self.what, AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    look(&engine, what);
                    thread::sleep(Duration::from_millis(7));
                }
            });
            // Also when a check fails: the scope waits for the onlooker.
            let _over = Over(&over);
            self.swap(&engine);
            self.collect();
        });
        self.check_engine(&engine);
        drop(engine);
        ear.tell(&mut self.counts);
        for core in simulated.iter().flatten() {
            self.check_books(&core.books());
        }
        let Counts { asked, verified, duplicates, losses, .. } = self.counts;
        assert_eq!((verified, duplicates, losses), (asked, 0, 0), "{}", self.what);
        self.counts
    }

    /// Work and swaps.
    fn swap(&mut self, engine: &Engine) {
        for _ in 0..SWAPS {
            self.ask(engine);
            self.breathe();
            let bad = self.deck.bad();
            self.switch(engine, &bad);
            self.ask(engine);
            self.breathe();
            if self.rng.gen_ratio(1, 4) {
                // Where there is nothing to go back to, that is said, and nothing happens.
                let _ = engine.restore_policy();
            } else {
                let honest = self.deck.honest();
                self.switch(engine, &honest);
            }
        }
        self.ask(engine);
    }

    /// The core that fails, and the one that takes over.
    fn simulated(&mut self) -> [Simulated; 2] {
        let faults = Faults {
            stage: *[0, 20, 100].choose(&mut self.rng).expect("three"),
            device: *[0, 1, 5].choose(&mut self.rng).expect("three"),
        };
        [(2, faults), (1, Faults::NONE)]
            .map(|(devices, faults)| Simulated::new(devices, faults, self.statements, &mut self.rng))
    }

    fn engine(&mut self, simulated: Option<&[Simulated; 2]>, ear: &Arc<Ear>) -> Engine {
        let first = if self.rng.r#gen() { self.deck.bad() } else { self.deck.honest() };
        match self.builder(simulated, ear).policy(first.policy.clone()).start() {
            Ok(engine) => engine,
            Err(EngineError::Policy(error)) if first.may_not_start => {
                self.counts.refused_at_start += 1;
                self.builder(simulated, ear).start().unwrap_or_else(|again| panic!("{error}, then {again}"))
            }
            Err(error) => panic!("{}: {}: {error}", self.what, first.what),
        }
    }

    fn builder(&mut self, simulated: Option<&[Simulated; 2]>, ear: &Arc<Ear>) -> EngineBuilder {
        let builder = match simulated {
            Some([main, fallback]) => Engine::builder(Arc::new(main.clone()))
                .fallback_core(Arc::new(fallback.clone()))
                .verify_proofs(false),
            None => {
                // Room for one task that computes and one that is staged.
                let plan = CpuCore::new(0, Some(1)).expect("a thread").plan(&self.statements.keys[0]);
                let core = CpuCore::new(plan.peak_bytes() + plan.staged_bytes, Some(1)).expect("a thread");
                Engine::builder(Arc::new(core))
            }
        };
        let limits = host::Limits {
            refusals: self.rng.gen_range(1..16),
            stall_ms: self.rng.gen_range(20..100),
            starve_ms: self.rng.gen_range(50..500),
            decision_ms: self.rng.gen_range(1..20),
            slow: self.rng.gen_range(1..20),
            ..host::Limits::default()
        };
        builder
            .workers_per_device(self.rng.gen_range(1..5))
            .synthesis_workers(self.rng.gen_range(1..3))
            .limits(limits.into())
            .dumps(DUMPS)
            .trial_decisions(*[1, 20, 1_000].choose(&mut self.rng).expect("three"))
            .recorder(ear.clone())
    }

    /// Asks for some proofs.
    fn ask(&mut self, engine: &Engine) {
        for _ in 0..self.rng.gen_range(1..4) {
            let key = self.statements.keys.choose(&mut self.rng).expect("there are keys").clone();
            let mut job = Job::new(key.clone()).with_priority(self.rng.gen_range(-2..3));
            let numbers: Vec<u64> =
                (0..self.rng.gen_range(1..7)).map(|index| self.next_number + index).collect();
            self.next_number += numbers.len() as u64;
            for number in &numbers {
                let number = *number;
                job.push_synthesis(move || Ok(witness(number)));
            }
            self.counts.asked += numbers.len() as u64;
            let handle = engine.submit(job).unwrap_or_else(|error| panic!("{}: {error}", self.what));
            self.jobs.push(Asked { handle, key, numbers });
        }
    }

    /// Lets the policy sit: often for a few tasks, at times until a watchdog has had enough of it.
    fn breathe(&mut self) {
        let longest = if self.rng.gen_ratio(1, 4) { 300_000 } else { 30_000 };
        thread::sleep(Duration::from_micros(self.rng.gen_range(0..longest)));
    }

    fn switch(&mut self, engine: &Engine, next: &Dealt) {
        match engine.switch_policy(&next.policy) {
            Ok(_) => self.counts.switches += 1,
            Err(_) if next.may_not_start => self.counts.refused_at_start += 1,
            Err(error) => panic!("{}: {}: {error}", self.what, next.what),
        }
    }

    /// Waits for every outcome and holds it against what was asked.
    fn collect(&mut self) {
        for Asked { handle, key, numbers } in std::mem::take(&mut self.jobs) {
            let mut times: HashMap<u32, u64> = HashMap::new();
            for outcome in handle.outcomes() {
                self.progress.one_more();
                *times.entry(outcome.report.partition).or_default() += 1;
                let number = numbers.get(outcome.report.partition as usize);
                let right = match (&outcome.result, number) {
                    (Ok(proved), Some(number)) => self.holds(&key, proved, *number),
                    _ => false,
                };
                if right {
                    self.counts.verified += 1;
                } else {
                    self.counts.losses += 1;
                    eprintln!("{}: {outcome:?}", self.what);
                }
            }
            self.counts.duplicates += times.values().map(|times| times - 1).sum::<u64>();
            self.counts.losses += numbers.len() as u64 - times.len() as u64;
        }
    }

    /// Whether it is the proof of partition `number`.
    fn holds(&self, key: &ProvingKey, proved: &Proved, number: u64) -> bool {
        let proof_holds = match self.kind {
            Kind::Cpu => proof::verify(&key.srs.vk, &proved.proof, &proved.public_inputs)
                .is_ok_and(|verified| verified),
            Kind::Simulated => proved.proof == token(number),
        };
        proof_holds && proved.public_inputs == [square(number)]
    }

    /// Nobody waits or runs, and nothing is reserved.
    fn check_engine(&mut self, engine: &Engine) {
        let what = self.what;
        for snapshot in engine.snapshots() {
            assert_eq!(snapshot.reserved_bytes, 0, "{what}: {snapshot:?}");
            assert!(snapshot.waiting.is_empty() && snapshot.running.is_empty(), "{what}: {snapshot:?}");
            assert!(snapshot.locks.iter().all(|lock| lock.holders.is_empty()), "{what}: {snapshot:?}");
        }
        let devices = engine.devices();
        let finished: u64 = devices.iter().map(|device| device.counters.finished).sum();
        self.counts.duplicates += finished.saturating_sub(self.counts.asked);
        assert!(devices.iter().all(|device| device.counters.peak_reserved_bytes <= device.capacity_bytes));
    }

    fn check_books(&mut self, books: &Books) {
        assert_eq!(books.overcommits, 0, "{}", self.what);
        self.counts.failures += books.failures;
        self.counts.lost_devices += books.lost_devices;
        self.counts.duplicates += books.proofs.values().map(|times| times - 1).sum::<u64>();
    }
}

/// What people ask while it runs; some of it asks the policy.
fn look(engine: &Engine, what: &str) {
    for device in engine.devices() {
        let peak = device.counters.peak_reserved_bytes;
        assert!(peak <= device.capacity_bytes, "{what}: {device:?}");
    }
    assert_eq!(engine.policy_stats().len(), engine.devices().len());
    for snapshot in engine.snapshots() {
        assert!(snapshot.reserved_bytes <= snapshot.capacity_bytes, "{what}: {snapshot:?}");
    }
}

/// Says that a round is over when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
