//! Device workers: each drives one task at a time through its gates and stages.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use bellperson::groth16::Proof;
use blstrs::Bls12;
use interlock_policy_api::Stage;
use rand_core::OsRng;

use super::job::{AttemptError, PartitionOutcome, PartitionReport, Proved, StageReport, TaskError};
use super::seat::{Gone, Turn};
use super::shared::{JobContext, Placed, SeatWithQueue, Shared};
use crate::circuit::Witness;
use crate::core::{Blinding, CoreError, CoreTask};
use crate::interlock::{Outcome, TaskId, TaskSpec, TimelineEvent, TimelineKind};

/// A partition with its witness, waiting for a device worker.
pub(super) struct ReadyTask {
    pub context: Arc<JobContext>,
    pub partition: u32,
    pub witness: Arc<Witness>,
    pub ready_at: Instant,
    pub report: PartitionReport,
    /// What earlier attempts failed with.
    pub causes: Vec<AttemptError>,
    /// Devices that were lost under an attempt at this task.
    pub losses: u32,
    /// The device that counts it as its own, from when it is sent there until it ends or goes elsewhere.
    pub placed: Option<Placed>,
    /// The line in which it waits for a device worker, while it does.
    pub place: Option<Line>,
}

/// Lines of witnesses that wait for device workers, each of limited length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// From synthesis.
    New,
    /// For the fallback core, after the main core has failed.
    Fallback,
}

/// Why a task left the device without a proof.
enum Ended {
    /// This attempt failed.
    Failed(AttemptError),
    /// The device was lost to somebody else's attempt.
    Evicted,
    /// No attempt can succeed.
    Hopeless(TaskError),
}

/// Drives tasks until the engine stops.
pub(super) fn run(shared: &Shared, seat: usize, worker: u32) {
    while let Some(mut task) = shared.seats[seat].queue.pop() {
        shared.give_back_place(&mut task);
        // What has begun is finished, by the fallback core if need be, unless nobody wants it any more.
        let begun = task.report.attempts > 0;
        if task.context.is_cancelled() || (shared.is_stopping() && !begun) {
            end_given_up(shared, task);
            continue;
        }
        task.report.queue_ns += task.ready_at.elapsed().as_nanos() as u64;
        if let Some(result) = attempts(shared, seat, worker, &mut task) {
            // Whoever hears of the end may send the next task: the device is free of this one by then.
            task.placed = None;
            shared.end(&task.context, PartitionOutcome { result, report: task.report });
        } else {
            shared.send_on(seat, task);
        }
    }
}

/// The outcome of a task that was given up; with its report if it had begun.
pub(super) fn end_given_up(shared: &Shared, mut task: ReadyTask) {
    task.placed = None;
    if task.report.attempts == 0 {
        end_cancelled(shared, &task.context, task.partition);
    } else {
        let outcome = PartitionOutcome { result: Err(TaskError::Cancelled), report: task.report };
        shared.end(&task.context, outcome);
    }
}

/// The outcome of a partition that was given up before it began.
pub(super) fn end_cancelled(shared: &Shared, context: &JobContext, partition: u32) {
    let report = PartitionReport { job: context.job, partition, ..Default::default() };
    shared.end(context, PartitionOutcome { result: Err(TaskError::Cancelled), report });
}

/// Tries a task at a seat; `None` when somebody else has to.
fn attempts(
    shared: &Shared,
    seat: usize,
    worker: u32,
    task: &mut ReadyTask,
) -> Option<Result<Proved, TaskError>> {
    let device = &shared.seats[seat];
    // A first failure is tried again inline; a second one goes to the core that is kept for it.
    let most = if seat < shared.main_seats { 2 } else { 1 };
    for _ in 0..most {
        if device.seat.is_lost() {
            return None;
        }
        task.report.attempts += 1;
        let error = match (Attempt { shared, device, worker, task }).run() {
            Ok(proved) => return Some(Ok(proved)),
            Err(Ended::Hopeless(error)) => return Some(Err(error)),
            Err(Ended::Evicted) => {
                task.causes.extend(device.seat.loss());
                return None;
            }
            Err(Ended::Failed(error)) => error,
        };
        tracing::warn!(job = task.context.job, partition = task.partition, %error, "attempt failed");
        if let Some(message) = error.loss() {
            task.losses += 1;
            shared.lose(seat, message);
        }
        let again = error.is_worth_a_retry();
        task.causes.push(error);
        if !again {
            return Some(Err(TaskError::Failed { causes: std::mem::take(&mut task.causes) }));
        }
    }
    None
}

/// One attempt at one task on one device.
struct Attempt<'a> {
    shared: &'a Shared,
    device: &'a SeatWithQueue,
    worker: u32,
    task: &'a mut ReadyTask,
}

impl Attempt<'_> {
    fn run(mut self) -> Result<Proved, Ended> {
        let id = TaskId(self.shared.next_task());
        let seat = &self.device.seat;
        self.task.report.core = seat.core.name();
        self.task.report.device = seat.device();
        self.task.report.worker = self.worker;
        let context = &self.task.context;
        let is_main = (seat.device() as usize) < self.shared.main_seats;
        let plan = if is_main { context.plan } else { seat.core.plan(&context.key) };
        if plan.peak_bytes() > seat.capacity_bytes() {
            let (core, device) = (seat.core.name(), seat.name().to_owned());
            let (needed, capacity) = (plan.peak_bytes(), seat.capacity_bytes());
            return Err(Ended::Failed(AttemptError::TooLarge { core, device, needed, capacity }));
        }
        let core_task = self.core_task()?;
        let spec = TaskSpec {
            task: id,
            job: self.task.context.job,
            partition: self.task.partition,
            priority: self.task.context.priority,
            staged_bytes: plan.staged_bytes,
            peak_bytes: plan.peak_bytes(),
            // Whoever lost its device through no fault of its own may be staged ahead on the next one.
            retry: self.task.causes.iter().any(|cause| cause.loss().is_none()),
        };
        match seat.arrive(spec, self.worker) {
            Ok(true) => {}
            Ok(false) => return Err(Ended::Evicted),
            Err(error) => {
                let core = seat.core.name();
                let (device, message) = (seat.device_in_core, error.to_string());
                return Err(Ended::Failed(CoreError::Device { core, device, message }.into()));
            }
        }
        let proof = self.drive(id, core_task)?;
        self.checked(proof)
    }

    /// A fresh task of the core, with fresh blinding factors.
    fn core_task(&self) -> Result<Box<dyn CoreTask>, Ended> {
        let seat = &self.device.seat;
        let (key, witness) = (self.task.context.key.clone(), self.task.witness.clone());
        let made = catch_unwind(AssertUnwindSafe(|| {
            seat.core.task(seat.device_in_core, key, witness, Blinding::random(OsRng))
        }));
        match made {
            Ok(made) => made.map_err(|error| Ended::Failed(error.into())),
            Err(payload) => Err(Ended::Failed(self.panicked("construction", &*payload))),
        }
    }

    /// Takes the task through its stages as the arbiter lets it.
    fn drive(&mut self, id: TaskId, core_task: Box<dyn CoreTask>) -> Result<Proof<Bls12>, Ended> {
        let mut held = Some(core_task);
        loop {
            let wait = self.span(None).entered();
            let turn = match self.device.seat.wait_turn(id, &self.task.context.cancelled) {
                Ok(turn) => turn,
                Err(gone) => {
                    // What it holds is free before the ledger says so.
                    drop(held);
                    self.device.seat.leave(id);
                    return Err(match gone {
                        Gone::Cancelled => Ended::Hopeless(TaskError::Cancelled),
                        Gone::Lost => Ended::Evicted,
                    });
                }
            };
            drop(wait);
            let begun = Instant::now();
            let result = self.span(Some(&turn)).in_scope(|| self.run_stage(turn.stage, &mut held));
            let ran_ns = begun.elapsed().as_nanos() as u64;
            self.note(&turn, ran_ns);
            if let Some(message) = result.as_ref().err().and_then(AttemptError::loss) {
                // Before the gates hear of the failure, so that nobody is let in meanwhile.
                self.shared.lose(self.device.seat.device() as usize, message);
            }
            let failure = result.as_ref().err().map(|error| (outcome_of(error), error.to_string()));
            // A failed stage has dropped the task already: what it held is free before the ledger says so.
            self.device.seat.end_stage(id, turn.stage, ran_ns, failure);
            if let Some(proof) = result.map_err(Ended::Failed)? {
                return Ok(proof);
            }
        }
    }

    /// The span of a turn, or of the wait for one. Names of spans must be literals.
    fn span(&self, turn: Option<&Turn>) -> tracing::Span {
        let (job, partition) = (self.task.context.job, self.task.partition);
        let (worker, device) = (self.worker, self.device.seat.device());
        let Some(turn) = turn else {
            return tracing::info_span!("gate", job, partition, worker, device);
        };
        let locks = turn.locks.join("+");
        match turn.stage {
            Stage::PREPARE => tracing::info_span!("Prepare", job, partition, worker, device, locks),
            Stage::STAGE => tracing::info_span!("Stage", job, partition, worker, device, locks),
            Stage::COMPUTE => {
                tracing::info_span!("Compute", job, partition, worker, device, locks, inline = turn.inline)
            }
            _ => tracing::info_span!("Finish", job, partition, worker, device, locks),
        }
    }

    /// Runs one stage; the last one gives the proof.
    fn run_stage(
        &self,
        stage: Stage,
        held: &mut Option<Box<dyn CoreTask>>,
    ) -> Result<Option<Proof<Bls12>>, AttemptError> {
        let name = stage.name().unwrap_or("unknown");
        let out_of_order = CoreError::OutOfOrder { stage: name, missing: "the task's construction" };
        let mut task = held.take().ok_or(out_of_order)?;
        let ran = catch_unwind(AssertUnwindSafe(|| match stage {
            Stage::PREPARE => task.prepare().map(|()| (Some(task), None)),
            Stage::STAGE => task.stage().map(|()| (Some(task), None)),
            Stage::COMPUTE => task.compute().map(|()| (Some(task), None)),
            _ => task.finish().map(|proof| (None, Some(proof))),
        }));
        let (task, proof) = ran.map_err(|payload| self.panicked(name, &*payload))??;
        *held = task;
        Ok(proof)
    }

    fn note(&mut self, turn: &Turn, run_ns: u64) {
        let report = &mut self.task.report;
        let stage = StageReport { wait_ns: turn.waited_ns, run_ns };
        match turn.stage {
            Stage::PREPARE => {
                report.prepare = stage;
                report.stage = StageReport::default();
                report.lock_wait_ns.clear();
            }
            Stage::STAGE => report.stage = stage,
            Stage::COMPUTE => {
                report.compute = stage;
                report.staged_inline = turn.inline;
            }
            _ => report.finish = stage,
        }
        for lock in &turn.locks {
            *report.lock_wait_ns.entry(lock.clone()).or_default() += turn.waited_ns;
        }
    }

    /// Verifies the proof, unless the engine was told not to.
    fn checked(&mut self, proof: Proof<Bls12>) -> Result<Proved, Ended> {
        let context = &self.task.context;
        let public_inputs = self.task.witness.public_inputs(&context.key.circuit).to_vec();
        if !self.shared.verify_proofs {
            return Ok(Proved { proof, public_inputs });
        }
        let begun = Instant::now();
        let holds = context.verifier.verify(&proof, &public_inputs);
        self.task.report.verify_ns = begun.elapsed().as_nanos() as u64;
        self.record_verified();
        if matches!(holds, Ok(true)) {
            return Ok(Proved { proof, public_inputs });
        }
        let circuit = &self.task.context.key.circuit;
        // Looked at only now: checking every witness beforehand would cost each good proof its time.
        match self.task.witness.check(circuit) {
            Err(error) => Err(Ended::Hopeless(error.into())),
            Ok(()) => Err(Ended::Failed(AttemptError::WrongProof { core: self.device.seat.core.name() })),
        }
    }

    fn record_verified(&self) {
        self.shared.recorder.record(&TimelineEvent {
            core: self.device.seat.core.name().into(),
            device: Some(self.device.seat.device()),
            worker: Some(self.worker),
            job: Some(self.task.context.job),
            partition: Some(self.task.partition),
            duration_ns: Some(self.task.report.verify_ns),
            ..TimelineEvent::new(self.shared.clock.now_ns(), TimelineKind::Verified)
        });
    }

    fn panicked(&self, stage: &'static str, payload: &(dyn Any + Send)) -> AttemptError {
        let core = self.device.seat.core.name();
        AttemptError::Panicked { core, stage, message: panic_message(payload) }
    }
}

/// How the arbiter is told of a failure.
fn outcome_of(error: &AttemptError) -> Outcome {
    match error {
        AttemptError::Core(CoreError::OutOfMemory { .. }) => Outcome::AllocationFailed,
        _ => Outcome::Failed,
    }
}

/// What a panic said, as far as it is text.
pub(super) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
