//! The engine under each policy that ships, with a few numbers of workers.

use std::sync::Arc;
use std::time::Instant;

use interlock_engine::core::Core;
use interlock_engine::host::{OptionsText, PolicyLibrary};
use interlock_engine::pipeline::{Engine, Job};

use super::Error;
use crate::busy::Busy;
use crate::statement::Statement;

/// Numbers of device workers that are tried.
pub const WORKERS: [u32; 3] = [1, 3, 6];

/// The most of them.
pub const MOST_WORKERS: u32 = WORKERS[WORKERS.len() - 1];

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
    /// Seconds in which some task was in Compute.
    pub busy_seconds: f64,
    /// Proofs whose data was uploaded inside Compute.
    pub staged_inline: u64,
}

/// The policies, linked, with their defaults and by the name they go by here; and `vram-token` with more permits than two, for
/// circuits too small to fill a card.
///
/// # Errors
/// A policy does not fit this engine.
pub fn policies() -> Result<Vec<(String, PolicyLibrary)>, Error> {
    let vram_token = interlock_vram_token::interlock_policy();
    let arms = [
        (interlock_serialized_fallback::interlock_policy(), ""),
        (interlock_single_lock::interlock_policy(), ""),
        (interlock_two_lock::interlock_policy(), ""),
        (vram_token, ""),
        (vram_token, "(compute_permits: 6)"),
    ];
    let linked = arms.into_iter().map(|(module, options)| {
        let text = if options.is_empty() { OptionsText::default() } else { OptionsText::new(options) };
        let policy = PolicyLibrary::linked(module, &text)?;
        Ok((format!("{}{options}", policy.name()), policy))
    });
    linked.collect()
}

impl Seat {
    /// Starts an engine on `core`.
    ///
    /// # Errors
    /// What the engine says.
    pub fn start(
        core: &Arc<dyn Core>,
        (name, policy): (String, PolicyLibrary),
        workers: u32,
    ) -> Result<Self, Error> {
        let busy = Arc::new(Busy::default());
        let builder = Engine::builder(core.clone()).policy(policy).workers_per_device(workers);
        let engine = builder.recorder(busy.clone()).start()?;
        Ok(Self { policy: name, workers, engine, busy })
    }

    /// An engine for each policy and each number in [`WORKERS`]. They stand idle until they are used.
    ///
    /// # Errors
    /// The first that cannot start.
    pub fn start_all(core: &Arc<dyn Core>) -> Result<Vec<Self>, Error> {
        let mut seats = Vec::new();
        for policy in policies()? {
            for workers in WORKERS {
                seats.push(Self::start(core, policy.clone(), workers)?);
            }
        }
        Ok(seats)
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

    /// The most device bytes that tasks held at once since the engine started.
    pub fn peak_bytes(&self) -> u64 {
        self.engine.devices().iter().map(|device| device.counters.peak_reserved_bytes).max().unwrap_or(0)
    }

    /// Verdicts that the host refused since the engine started: 0 for a policy that is right.
    pub fn refused(&self) -> u64 {
        self.engine.devices().iter().flat_map(|device| device.counters.refusals.values()).sum()
    }
}
