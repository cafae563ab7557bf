//! What goes into the engine and what comes out: jobs, partitions, outcomes.

use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use bellperson::groth16::Proof;
use blstrs::{Bls12, Scalar};
use interlock_settings::units::exact_bytes;
use serde::Serialize;

use super::shared::JobContext;
use crate::circuit::{Witness, WitnessError};
use crate::core::{CoreError, ProvingKey};

/// Why a witness could not be made; what the maker of the witness said.
pub type SynthesisError = Box<dyn Error + Send + Sync>;

/// Makes one witness, on a synthesis worker.
pub(super) type WitnessSource = Box<dyn FnOnce() -> Result<Witness, SynthesisError> + Send>;

/// Proofs of one circuit, a partition for each witness.
pub struct Job {
    pub(super) key: Arc<ProvingKey>,
    pub(super) priority: i32,
    pub(super) partitions: Vec<WitnessSource>,
}

impl Job {
    /// A job for this circuit and SRS, with no partitions yet and priority 0.
    pub fn new(key: Arc<ProvingKey>) -> Self {
        Self { key, priority: 0, partitions: Vec::new() }
    }

    /// With this priority: higher goes first, in the queues and at every gate.
    #[must_use]
    pub fn with_priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    /// Adds a partition whose witness is there already.
    pub fn push_witness(&mut self, witness: Witness) {
        self.push_synthesis(move || Ok(witness));
    }

    /// Adds a partition whose witness is made on a synthesis worker when its turn comes.
    pub fn push_synthesis<F>(&mut self, synthesize: F)
    where
        F: FnOnce() -> Result<Witness, SynthesisError> + Send + 'static,
    {
        self.partitions.push(Box::new(synthesize));
    }

    /// Number of partitions.
    pub fn len(&self) -> usize {
        self.partitions.len()
    }

    /// Whether there are no partitions.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }
}

/// A submitted job.
pub struct JobHandle {
    pub(super) context: Arc<JobContext>,
    pub(super) partitions: usize,
    pub(super) outcomes: Receiver<PartitionOutcome>,
}

impl JobHandle {
    /// The job's number, as reports and traces show it.
    pub fn id(&self) -> u64 {
        self.context.job
    }

    /// Number of partitions, and so of outcomes.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// The outcomes as partitions end, in no particular order: one for each partition.
    /// Blocks while the next one is not there yet.
    pub fn outcomes(&self) -> impl Iterator<Item = PartitionOutcome> + '_ {
        self.outcomes.iter().take(self.partitions)
    }

    /// Waits for all partitions; outcomes in the order of the partitions.
    pub fn wait(self) -> Vec<PartitionOutcome> {
        let mut outcomes: Vec<_> = self.outcomes().collect();
        outcomes.sort_by_key(|outcome| outcome.report.partition);
        outcomes
    }
}

/// How one partition ended.
#[derive(Debug)]
pub struct PartitionOutcome {
    /// The proof, or why there is none.
    pub result: Result<Proved, TaskError>,
    /// What it took.
    pub report: PartitionReport,
}

/// A proof with what it is about.
#[derive(Clone, Debug)]
pub struct Proved {
    /// The proof; verified unless the engine was told not to.
    pub proof: Proof<Bls12>,
    /// The public inputs, without the constant one.
    pub public_inputs: Vec<Scalar>,
}

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The witness could not be made.
    #[error("the witness could not be made")]
    Synthesis(#[source] SynthesisError),
    /// The witness is not one of this circuit, or does not satisfy it.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// Every attempt failed.
    #[error("{} failed, last: {}", attempts(causes.len()), causes.last().map_or(String::new(), ToString::to_string))]
    Failed {
        /// What each attempt failed with, in order.
        causes: Vec<AttemptError>,
    },
    /// The engine stopped before the task began, or the job was cancelled before it was done.
    #[error("given up: the engine was stopped or the job cancelled")]
    Cancelled,
}

fn attempts(count: usize) -> String {
    if count == 1 { "the attempt".into() } else { format!("all {count} attempts") }
}

/// Why one attempt failed.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// The core gave up.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// The proof does not verify although the witness satisfies the circuit: the SRS belongs to
    /// another circuit, or the core computed something wrong.
    #[error("the {core} core's proof does not verify: is the SRS the one of this circuit?")]
    WrongProof {
        /// Which core made it.
        core: &'static str,
    },
    /// The device has less memory for tasks than this one needs.
    #[error("{core} core, {device}: a task needs {}, there are {} for tasks", exact_bytes(*.needed), exact_bytes(*.capacity))]
    TooLarge {
        /// Which core.
        core: &'static str,
        /// Name of the device.
        device: String,
        /// Peak bytes of the task's plan.
        needed: u64,
        /// What the device has for all tasks together.
        capacity: u64,
    },
    /// The core panicked.
    #[error("the {core} core panicked in {stage}: {message}")]
    Panicked {
        /// Which core.
        core: &'static str,
        /// In which stage.
        stage: &'static str,
        /// What it said.
        message: String,
    },
}

impl AttemptError {
    /// Whether another attempt could end differently.
    pub(super) fn is_worth_a_retry(&self) -> bool {
        !matches!(self, AttemptError::Core(CoreError::Mismatch { .. }))
    }

    /// What the device said, when it is lost.
    pub(super) fn loss(&self) -> Option<&str> {
        match self {
            AttemptError::Core(CoreError::DeviceLost { message, .. }) => Some(message),
            _ => None,
        }
    }
}

/// What one stage of a task took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StageReport {
    /// Nanoseconds at the gate.
    pub wait_ns: u64,
    /// Nanoseconds inside.
    pub run_ns: u64,
}

/// What one partition took; for the last attempt, where there was more than one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartitionReport {
    /// Number of the job.
    pub job: u64,
    /// Index of the partition in its job.
    pub partition: u32,
    /// The core that ran the last attempt.
    pub core: &'static str,
    /// The device it ran on.
    pub device: u32,
    /// The device worker that drove it.
    pub worker: u32,
    /// Attempts made.
    pub attempts: u32,
    /// Whether the data was placed inside Compute: the policy skipped Stage, or it was a retry.
    pub staged_inline: bool,
    /// Nanoseconds to make the witness.
    pub synthesis_ns: u64,
    /// Nanoseconds between the witness and a free device worker.
    pub queue_ns: u64,
    /// CPU work before device memory is held.
    pub prepare: StageReport,
    /// Reserve and upload; all zero where the task was staged inline.
    pub stage: StageReport,
    /// Kernels.
    pub compute: StageReport,
    /// Proof assembly.
    pub finish: StageReport,
    /// Nanoseconds to verify the proof.
    pub verify_ns: u64,
    /// For each lock taken: nanoseconds at the gate before it was.
    pub lock_wait_ns: std::collections::BTreeMap<String, u64>,
}
