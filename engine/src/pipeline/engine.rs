//! The engine: takes jobs, makes witnesses, drives tasks through the gates, hands out proofs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use interlock_policy_api::DeviceView;

use super::job::{Job, JobHandle, PartitionOutcome, WitnessSource};
use super::queue::{Places, PriorityQueue};
use super::seat::{Clock, Seat, SeatConfig};
use super::timeline::{NoRecorder, Recorder};
use super::{synthesis, worker};
use crate::core::{Core, ProvingKey};
use crate::host::{LoadError, PolicyLibrary};
use crate::interlock::{Counters, Limits, Quarantine, Snapshot};
use crate::proof::{Verifier, VerifyError};

/// How an engine is put together. Make one with [`Engine::builder`].
pub struct EngineBuilder {
    core: Arc<dyn Core>,
    fallback_core: Option<Arc<dyn Core>>,
    policy: PolicyLibrary,
    workers_per_device: u32,
    synthesis_workers: u32,
    verify_proofs: bool,
    limits: Limits,
    recorder: Arc<dyn Recorder>,
}

/// Why an engine could not start or take a job.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A number of workers is zero.
    #[error("{0} is 0: an engine needs at least one")]
    NoWorkers(&'static str),
    /// The core has no devices.
    #[error("the {0} core has no devices")]
    NoDevices(&'static str),
    /// A policy could not be put in its seat.
    #[error(transparent)]
    Policy(#[from] LoadError),
    /// A job without partitions.
    #[error("a job needs at least one partition, this one has none")]
    EmptyJob,
    /// The verifying key of the SRS is malformed.
    #[error("the SRS cannot be used: {0}")]
    VerifyingKey(#[from] VerifyError),
    /// The engine has been stopped.
    #[error("the engine has been stopped and takes no more jobs")]
    Stopped,
    /// A thread could not be made.
    #[error("could not start a worker thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl EngineBuilder {
    /// The policy on every device; `serialized-fallback` unless said.
    #[must_use]
    pub fn policy(self, policy: PolicyLibrary) -> Self {
        Self { policy, ..self }
    }

    /// The core that takes over tasks which the main core failed twice.
    #[must_use]
    pub fn fallback_core(self, core: Arc<dyn Core>) -> Self {
        Self { fallback_core: Some(core), ..self }
    }

    /// Tasks of one device that may be between their first gate and their end at once; 2 unless said.
    #[must_use]
    pub fn workers_per_device(self, workers_per_device: u32) -> Self {
        Self { workers_per_device, ..self }
    }

    /// Threads that make witnesses; 1 unless said.
    #[must_use]
    pub fn synthesis_workers(self, synthesis_workers: u32) -> Self {
        Self { synthesis_workers, ..self }
    }

    /// Whether each proof is verified before it is handed out; true unless said.
    #[must_use]
    pub fn verify_proofs(self, verify_proofs: bool) -> Self {
        Self { verify_proofs, ..self }
    }

    /// When a policy is quarantined.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Who is told what happens.
    #[must_use]
    pub fn recorder(self, recorder: Arc<dyn Recorder>) -> Self {
        Self { recorder, ..self }
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// [`EngineError`] when there are no workers or devices, when the policy refuses its options,
    /// or when a thread cannot be made.
    pub fn start(self) -> Result<Engine, EngineError> {
        for (count, name) in
            [(self.workers_per_device, "workers_per_device"), (self.synthesis_workers, "synthesis_workers")]
        {
            if count == 0 {
                return Err(EngineError::NoWorkers(name));
            }
        }
        let shared = Arc::new(self.shared()?);
        let mut engine = Engine { shared: shared.clone(), threads: Vec::new() };
        for index in 0..self.synthesis_workers {
            let shared = shared.clone();
            engine.spawn(format!("synthesis-{index}"), move || synthesis::run(&shared, index))?;
        }
        for (seat, device) in shared.seats.iter().enumerate() {
            for index in 0..device.seat.workers() {
                let shared = shared.clone();
                engine.spawn(format!("device-{seat}-worker-{index}"), move || {
                    worker::run(&shared, seat, index);
                })?;
            }
        }
        Ok(engine)
    }

    fn shared(&self) -> Result<Shared, EngineError> {
        let clock = Clock::start();
        let linked = PolicyLibrary::fallback();
        let mut seats = Vec::new();
        let mut add = |core: &Arc<dyn Core>, policy: &PolicyLibrary, workers| {
            if core.devices().is_empty() {
                return Err(EngineError::NoDevices(core.name()));
            }
            for device_in_core in 0..core.devices().len() {
                let config = SeatConfig {
                    core: core.clone(),
                    device_in_core,
                    device: seats.len() as u32,
                    workers,
                    limits: self.limits,
                    clock,
                    recorder: self.recorder.clone(),
                };
                let seat = Seat::new(config, policy, linked.clone())?;
                seats.push(SeatWithQueue { seat, queue: PriorityQueue::new() });
            }
            Ok(seats.len())
        };
        let main_seats = add(&self.core, &self.policy, self.workers_per_device)?;
        if let Some(core) = &self.fallback_core {
            add(core, &linked, 1)?;
        }
        let places = main_seats * self.workers_per_device as usize + self.synthesis_workers as usize;
        Ok(Shared {
            clock,
            seats,
            main_seats,
            synthesis: PriorityQueue::new(),
            places: Places::new(places),
            recorder: self.recorder.clone(),
            verify_proofs: self.verify_proofs,
            next_job: AtomicU64::new(1),
            next_task: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            open_tasks: AtomicU64::new(0),
        })
    }
}

/// A running engine. Dropping it stops it: what runs is finished, what has not begun is cancelled.
pub struct Engine {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Stops an engine from elsewhere, such as a signal handler's thread.
#[derive(Clone)]
pub struct StopHandle(Arc<Shared>);

impl StopHandle {
    /// Stops taking work: what runs is finished, what has not begun ends as
    /// [`TaskError::Cancelled`](super::TaskError::Cancelled).
    pub fn stop(&self) {
        self.0.stop();
    }
}

/// What one device did since the engine started.
#[derive(Clone, Debug, serde::Serialize)]
pub struct DeviceReport {
    /// The core the device belongs to.
    pub core: &'static str,
    /// What the core calls the device.
    pub name: String,
    /// Bytes that tasks may hold at once.
    pub capacity_bytes: u64,
    /// The policy in the seat.
    pub policy: String,
    /// Why the policy before it was quarantined, if one was.
    pub quarantine: Option<Quarantine>,
    /// What the arbiter counted.
    pub counters: Counters,
    /// The policy's own counters.
    pub policy_stats: std::collections::BTreeMap<String, u64>,
}

impl Engine {
    /// An engine around a core, with defaults for everything else.
    pub fn builder(core: Arc<dyn Core>) -> EngineBuilder {
        EngineBuilder {
            core,
            fallback_core: None,
            policy: PolicyLibrary::fallback(),
            workers_per_device: 2,
            synthesis_workers: 1,
            verify_proofs: true,
            limits: crate::host::Limits::default().into(),
            recorder: Arc::new(NoRecorder),
        }
    }

    /// Takes a job. Its partitions begin as workers come free.
    ///
    /// # Errors
    /// [`EngineError::EmptyJob`] or [`EngineError::Stopped`].
    pub fn submit(&self, job: Job) -> Result<JobHandle, EngineError> {
        if job.is_empty() {
            return Err(EngineError::EmptyJob);
        }
        let (sender, outcomes) = mpsc::channel();
        let id = self.shared.next_job.fetch_add(1, Ordering::Relaxed);
        let context = Arc::new(JobContext {
            job: id,
            priority: job.priority,
            verifier: Verifier::new(&job.key.srs.vk)?,
            key: job.key,
            outcomes: sender,
            cancelled: AtomicBool::new(false),
        });
        let partitions = job.partitions.len();
        for (partition, source) in job.partitions.into_iter().enumerate() {
            let order = Order { context: context.clone(), partition: partition as u32, source };
            self.shared.open_tasks.fetch_add(1, Ordering::SeqCst);
            if let Err(order) = self.shared.synthesis.push(job.priority, order) {
                self.shared.cancel_order(order);
            }
        }
        if self.shared.stopping.load(Ordering::SeqCst) {
            return Err(EngineError::Stopped);
        }
        Ok(JobHandle { context, partitions, outcomes })
    }

    /// Gives up a job: partitions that have not begun, or that wait at a gate, end as
    /// [`TaskError::Cancelled`](super::TaskError::Cancelled); a stage that runs is finished first.
    pub fn cancel(&self, handle: &JobHandle) {
        self.shared.cancel(&handle.context);
    }

    /// Replaces the policy on every device of the main core. Each device drains (tasks that hold device
    /// memory go on, others stand at their gates), seats the new policy and goes on: no task is lost
    /// or restarted. Returns at once; [`Engine::devices`] tells who is seated.
    ///
    /// # Errors
    /// The policy refuses its options or panics when it is made: the old one stays, on all devices.
    pub fn switch_policy(&self, policy: &PolicyLibrary) -> Result<(), LoadError> {
        let seats = &self.shared.seats[..self.shared.main_seats];
        let instances = seats.iter().map(|_| policy.instantiate()).collect::<Result<Vec<_>, _>>()?;
        for (device, instance) in seats.iter().zip(instances) {
            device.seat.switch(instance);
        }
        Ok(())
    }

    /// A handle that stops the engine from elsewhere.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.shared.clone())
    }

    /// What each device did so far.
    pub fn devices(&self) -> Vec<DeviceReport> {
        let report = |device: &SeatWithQueue| {
            let seat = device.seat.report();
            let described = &device.seat.core.devices()[device.seat.device_in_core];
            DeviceReport {
                core: device.seat.core.name(),
                name: described.name.clone(),
                capacity_bytes: described.capacity_bytes,
                policy: seat.policy,
                quarantine: seat.quarantine,
                counters: seat.counters,
                policy_stats: seat.policy_stats.into_iter().collect(),
            }
        };
        self.shared.seats.iter().map(report).collect()
    }

    /// The arbiter of each device as it stands: locks, ledger, waiters.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.shared.seats.iter().map(|device| device.seat.snapshot()).collect()
    }

    fn spawn(&mut self, name: String, body: impl FnOnce() + Send + 'static) -> Result<(), EngineError> {
        self.threads.push(std::thread::Builder::new().name(name).spawn(body)?);
        Ok(())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a worker thread panicked");
            }
        }
    }
}

/// What the tasks of a job share.
pub(super) struct JobContext {
    pub job: u64,
    pub priority: i32,
    pub key: Arc<ProvingKey>,
    pub verifier: Verifier,
    pub outcomes: mpsc::Sender<PartitionOutcome>,
    pub cancelled: AtomicBool,
}

/// A partition whose witness is still to be made.
pub(super) struct Order {
    pub context: Arc<JobContext>,
    pub partition: u32,
    pub source: WitnessSource,
}

/// A device and the tasks that wait for one of its workers.
pub(super) struct SeatWithQueue {
    pub seat: Seat,
    pub queue: PriorityQueue<worker::ReadyTask>,
}

/// What all threads of an engine share.
pub(super) struct Shared {
    pub clock: Clock,
    /// The main core's devices, then those of the fallback core.
    pub seats: Vec<SeatWithQueue>,
    pub main_seats: usize,
    pub synthesis: PriorityQueue<Order>,
    pub places: Places,
    pub recorder: Arc<dyn Recorder>,
    pub verify_proofs: bool,
    next_job: AtomicU64,
    next_task: AtomicU64,
    stopping: AtomicBool,
    /// Partitions submitted and not yet ended: device queues close when a stopping engine has none.
    open_tasks: AtomicU64,
}

impl Shared {
    pub fn next_task(&self) -> u64 {
        self.next_task.fetch_add(1, Ordering::Relaxed)
    }

    pub fn is_given_up(&self, context: &JobContext) -> bool {
        self.stopping.load(Ordering::SeqCst) || context.cancelled.load(Ordering::SeqCst)
    }

    /// Hands an outcome to whoever waits for the job.
    pub fn end(&self, context: &JobContext, outcome: PartitionOutcome) {
        // The receiver may be gone: then nobody wants to know.
        let _ = context.outcomes.send(outcome);
        if self.open_tasks.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.close_if_done();
        }
    }

    fn cancel_order(&self, order: Order) {
        worker::end_cancelled(self, &order.context, order.partition);
    }

    fn cancel(&self, context: &JobContext) {
        context.cancelled.store(true, Ordering::SeqCst);
        for order in self.synthesis.remove(|order| order.context.job == context.job) {
            self.cancel_order(order);
        }
        for (index, device) in self.seats.iter().enumerate() {
            for task in device.queue.remove(|task| task.context.job == context.job) {
                if index < self.main_seats {
                    self.places.give_back();
                }
                worker::end_cancelled(self, &task.context, task.partition);
            }
            device.seat.cancel(context.job);
        }
    }

    fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        for order in self.synthesis.remove(|_| true) {
            self.cancel_order(order);
        }
        self.synthesis.close();
        self.close_if_done();
    }

    fn close_if_done(&self) {
        if self.stopping.load(Ordering::SeqCst) && self.open_tasks.load(Ordering::SeqCst) == 0 {
            for device in &self.seats {
                device.queue.close();
            }
        }
    }

    /// The devices as a policy sees them when it places a task on the main core.
    pub fn main_device_views(&self) -> Vec<DeviceView> {
        self.seats[..self.main_seats].iter().map(|device| device.seat.device_view()).collect()
    }
}
