//! The engine under some policies, with some numbers of workers.

use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use interlock_engine::core::Core;
use interlock_engine::host::{OptionsText, PolicyLibrary};
use interlock_engine::pipeline::{Engine, Job};

use super::Error;
use crate::busy::Busy;
use crate::measure::median;
use crate::statement::Statement;

/// What the batches of an engine came to.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Proofs a second; the median of the batches.
    pub rate: f64,
    /// Proofs of all batches.
    pub proofs: u64,
    /// Mean milliseconds per proof at gates before locks were granted.
    pub lock_wait_ms: f64,
    /// The share of the time in which some task of a card was in Compute; the mean of all cards.
    pub busy: f64,
    /// Proofs whose data was uploaded inside Compute.
    pub staged_inline: u64,
}

/// The policies that ship, and `vram-token` with more permits than two, for circuits too small to fill a card.
pub const POLICIES: [&str; 5] =
    ["serialized-fallback", "single-lock", "two-lock", "vram-token", "vram-token(compute_permits: 6)"];

/// Which engines are tried: each policy with each number of workers.
#[derive(Args, Clone, Debug)]
pub struct SeatOptions {
    /// A policy and its options, as in 'vram-token(compute_permits: 4)'; may be given several times
    #[arg(long = "policy", value_name = "POLICY", default_values_t = POLICIES.map(str::to_owned), value_parser = policy)]
    pub policies: Vec<String>,
    /// Numbers of workers on each card
    #[arg(long, value_delimiter = ',', default_values_t = [1, 3, 6], value_parser = clap::value_parser!(u32).range(1..=64))]
    pub workers: Vec<u32>,
}

impl SeatOptions {
    /// The most workers of any engine on a card.
    pub fn most_workers(&self) -> u32 {
        self.workers.iter().copied().max().unwrap_or(1)
    }

    /// Starts an engine on `core` for each policy and each number of workers. They stand idle until they are used.
    ///
    /// # Errors
    /// The first that cannot start.
    pub fn start(&self, core: &Arc<dyn Core>) -> Result<Vec<Seat>, Error> {
        let mut seats = Vec::new();
        for text in &self.policies {
            let policy = linked(text)?;
            for workers in &self.workers {
                seats.push(Seat::start(core, text, policy.clone(), *workers)?);
            }
        }
        Ok(seats)
    }
}

/// The text of a policy, if there is such a one.
fn policy(text: &str) -> Result<String, Error> {
    linked(text).map(|_| text.to_owned())
}

/// A policy that ships, by its name and perhaps options in parentheses.
fn linked(text: &str) -> Result<PolicyLibrary, Error> {
    let modules = [
        interlock_serialized_fallback::interlock_policy(),
        interlock_single_lock::interlock_policy(),
        interlock_two_lock::interlock_policy(),
        interlock_vram_token::interlock_policy(),
    ];
    let (name, options) = text.split_at(text.find('(').unwrap_or(text.len()));
    let options = if options.is_empty() { OptionsText::default() } else { OptionsText::new(options) };
    for module in modules {
        if PolicyLibrary::linked(module, &OptionsText::default())?.name() == name.trim() {
            return Ok(PolicyLibrary::linked(module, &options)?);
        }
    }
    Err(format!(
        "no policy `{name}` is linked into this bench; there are {}",
        POLICIES[..modules.len()].join(", ")
    )
    .into())
}

/// A running engine with the policy in its seat.
pub struct Seat {
    /// The policy, and options that are not its defaults.
    pub policy: String,
    /// Tasks that may be on their way at once.
    pub workers: u32,
    engine: Engine,
    busy: Arc<Busy>,
}

/// What a batch through the engine took.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// From the job's submission to its last proof, each verified.
    pub seconds: f64,
    /// Seconds at gates before locks were granted, all proofs together.
    pub lock_wait_seconds: f64,
    /// Seconds in which some task of a card was in Compute, all cards together.
    pub busy_seconds: f64,
    /// Proofs whose data was uploaded inside Compute.
    pub staged_inline: u64,
}

impl Seat {
    fn start(core: &Arc<dyn Core>, name: &str, policy: PolicyLibrary, workers: u32) -> Result<Self, Error> {
        let busy = Arc::new(Busy::default());
        let builder = Engine::builder(core.clone()).policy(policy).workers_per_device(workers);
        let engine = builder.recorder(busy.clone()).start()?;
        Ok(Self { policy: name.to_owned(), workers, engine, busy })
    }

    /// `proofs` partitions of one job. Their witnesses are copied before the clock starts.
    ///
    /// # Errors
    /// A partition has no proof, or needed more than one attempt.
    pub fn prove(&self, statement: &Statement, proofs: usize) -> Result<Batch, Error> {
        let mut job = Job::new(statement.key.clone());
        for _ in 0..proofs {
            job.push_witness((*statement.witness).clone());
        }
        let start = Instant::now();
        let outcomes = self.engine.submit(job)?.wait();
        let seconds = start.elapsed().as_secs_f64();
        let busy_seconds = self.busy.take_seconds();
        let mut batch = Batch { seconds, lock_wait_seconds: 0.0, busy_seconds, staged_inline: 0 };
        for outcome in outcomes {
            let report = outcome.report;
            let failed = |what: String| {
                format!("{} with {} workers, proof {}: {what}", self.policy, self.workers, report.partition)
            };
            outcome.result.map_err(|error| failed(error.to_string()))?;
            if report.attempts != 1 {
                return Err(failed(format!("took {} attempts", report.attempts)).into());
            }
            batch.lock_wait_seconds += report.lock_wait_ns.values().sum::<u64>() as f64 / 1e9;
            batch.staged_inline += u64::from(report.staged_inline);
        }
        Ok(batch)
    }

    /// What batches of so many proofs came to.
    ///
    /// # Panics
    /// When there are none.
    pub fn summary(&self, batches: &[Batch], proofs: usize) -> Summary {
        let sum = |of: fn(&Batch) -> f64| batches.iter().map(of).sum::<f64>();
        let all = proofs * batches.len();
        let cards = self.engine.devices().len() as f64;
        Summary {
            rate: proofs as f64 / median(batches.iter().map(|batch| batch.seconds).collect()),
            proofs: all as u64,
            lock_wait_ms: sum(|batch| batch.lock_wait_seconds) * 1e3 / all as f64,
            busy: sum(|batch| batch.busy_seconds) / sum(|batch| batch.seconds) / cards,
            staged_inline: batches.iter().map(|batch| batch.staged_inline).sum(),
        }
    }

    /// What a batch came to, said on standard error while others are still to come.
    pub fn tell(&self, batch: &Batch, proofs: usize) {
        eprintln!(
            "    {}, {} workers: {:.1} proofs/s",
            self.policy,
            self.workers,
            proofs as f64 / batch.seconds
        );
    }

    /// The most device bytes that tasks held at once since the engine started.
    pub fn peak_bytes(&self) -> u64 {
        self.engine.devices().iter().map(|device| device.counters.peak_reserved_bytes).max().unwrap_or(0)
    }

    /// Verdicts that the host refused since the engine started: 0 for a policy that is right.
    pub fn refused(&self) -> u64 {
        self.engine.devices().iter().flat_map(|device| device.counters.refusals.values()).sum()
    }
}
