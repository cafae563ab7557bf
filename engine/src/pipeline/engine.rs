//! The engine: takes jobs, makes witnesses, drives tasks through the gates, hands out proofs.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use interlock_settings::units::exact_bytes;

use super::dump::Dumper;
use super::job::{Job, JobHandle};
use super::policy_stats::{DevicePolicyStats, QuarantineReport};
use super::seat::{Clock, Seat, SeatConfig, Spare};
use super::shared::{JobContext, Order, SeatWithQueue, Shared};
use super::switch::{Board, RestoreError, Switch, SwitchReport, TRIAL_DECISIONS, Task};
use super::worker::panic_message;
use super::{introduction, synthesis, worker};
use crate::core::{Core, CoreError, Plan, ProvingKey};
use crate::host::{LoadError, LoadedPolicy, PolicyLibrary};
use crate::interlock::{Counters, Limits, NoRecorder, Recorder, Snapshot};
use crate::proof::{Verifier, VerifyError};

/// How long an engine that stops waits for dumps.
const LONGEST_WAIT_FOR_DUMPS: Duration = Duration::from_secs(5);
/// And for policies that left their seats to end themselves.
const LONGEST_WAIT_FOR_DROPS: Duration = Duration::from_secs(2);

/// How an engine is put together. Make one with [`Engine::builder`].
pub struct EngineBuilder {
    core: Arc<dyn Core>,
    fallback_core: Option<Arc<dyn Core>>,
    policy: PolicyLibrary,
    workers_per_device: u32,
    synthesis_workers: u32,
    verify_proofs: bool,
    limits: Limits,
    dumps: Option<PathBuf>,
    trial_decisions: u64,
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
    /// A task of the job needs more memory than any device of the main core has for tasks.
    #[error(
        "a task needs {} of device memory ({} staged and {} more to compute), and {device}, the largest device of \
         the {core} core, has {} for tasks: raise its limit in plugins.ron (vram_limit of the CUDA core, \
         memory of the CPU core), or use another core",
        exact_bytes(.plan.peak_bytes()), exact_bytes(.plan.staged_bytes), exact_bytes(.plan.compute_extra),
        exact_bytes(*.capacity_bytes)
    )]
    TooLarge {
        /// The main core.
        core: &'static str,
        /// What a task needs.
        plan: Plan,
        /// The device with the most room.
        device: String,
        /// What that device has for tasks.
        capacity_bytes: u64,
    },
    /// The main core cannot take the circuit, however much memory there is.
    #[error("the circuit is not one for this core: {0}; use another core")]
    Unsuitable(#[source] CoreError),
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

    /// The folder for dumps, a file for each quarantine, of which the latest 32 stay. Unless said it is `interlock` in
    /// `$XDG_STATE_HOME`, else in `~/.local/state`; where that cannot be written, `interlock-UID` in the folder for temporary files.
    #[must_use]
    pub fn dumps(self, folder: impl Into<PathBuf>) -> Self {
        Self { dumps: Some(folder.into()), ..self }
    }

    /// Verdicts for which a policy is on trial after a switch; [`TRIAL_DECISIONS`] unless said, and with 0 there are
    /// no trials.
    #[must_use]
    pub fn trial_decisions(self, trial_decisions: u64) -> Self {
        Self { trial_decisions, ..self }
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
        introduction::introduce(&shared, self.synthesis_workers);
        let mut engine = Engine { shared: shared.clone(), threads: Vec::new(), supervisor: None };
        let board = shared.clone();
        engine.supervisor = Some(thread("policy-supervisor".into(), move || supervise(&board))?);
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
        let dumper = Arc::new(Dumper::new(self.dumps.clone()));
        let board = Arc::new(Board::new(clock, self.trial_decisions, self.policy.clone()));
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
                    dumper: dumper.clone(),
                    clock,
                    recorder: self.recorder.clone(),
                    board: board.clone(),
                };
                let seat = Seat::new(config, policy, linked.clone())?;
                seats.push(SeatWithQueue::new(seat));
            }
            Ok(seats.len())
        };
        let main_seats = add(&self.core, &self.policy, self.workers_per_device)?;
        if let Some(core) = &self.fallback_core {
            add(core, &linked, 1)?;
        }
        let places = main_seats * self.workers_per_device as usize + self.synthesis_workers as usize;
        Ok(Shared::new(clock, seats, main_seats, places, self.recorder.clone(), self.verify_proofs, board))
    }
}

/// A running engine. Dropping it stops it: what runs is finished, what has not begun is cancelled.
pub struct Engine {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Ends after the others.
    supervisor: Option<JoinHandle<()>>,
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
    /// Why the device takes no more tasks, if it was lost.
    pub lost: Option<String>,
    /// The policy in the seat.
    pub policy: String,
    /// Why the policy before it was quarantined, if one was.
    pub quarantine: Option<QuarantineReport>,
    /// What the arbiter counted.
    pub counters: Counters,
    /// The policy's own counters.
    pub policy_stats: std::collections::BTreeMap<String, u64>,
}

impl Engine {
    /// Nanoseconds since the engine started: the clock of its events.
    pub fn now_ns(&self) -> u64 {
        self.shared.clock.now_ns()
    }

    /// An engine around a core, with defaults for everything else.
    pub fn builder(core: Arc<dyn Core>) -> EngineBuilder {
        EngineBuilder {
            core,
            fallback_core: None,
            policy: PolicyLibrary::fallback(),
            workers_per_device: 2,
            synthesis_workers: 1,
            verify_proofs: true,
            limits: Limits::DEFAULT,
            dumps: None,
            trial_decisions: TRIAL_DECISIONS,
            recorder: Arc::new(NoRecorder),
        }
    }

    /// Takes a job. Its partitions begin as workers come free.
    ///
    /// The job's key is made ready on the devices first, so that no task has to do it: this may take seconds, in the
    /// calling thread, while other jobs go on. When that fails the log says so, and each task tries for itself.
    ///
    /// # Errors
    /// [`EngineError::EmptyJob`], [`EngineError::Stopped`]; [`EngineError::TooLarge`] or [`EngineError::Unsuitable`]
    /// when the main core could run no task of it.
    pub fn submit(&self, job: Job) -> Result<JobHandle, EngineError> {
        let shared = &self.shared;
        if job.is_empty() {
            return Err(EngineError::EmptyJob);
        }
        if shared.is_stopping() {
            return Err(EngineError::Stopped);
        }
        let verifier = Verifier::new(&job.key.srs.vk)?;
        let plan = self.plan_that_fits(&job.key)?;
        let id = shared.next_job();
        self.make_ready(id, &job.key);
        let (sender, outcomes) = mpsc::channel();
        let context = Arc::new(JobContext {
            job: id,
            priority: job.priority,
            plan,
            verifier,
            key: job.key,
            outcomes: sender,
            cancelled: AtomicBool::new(false),
        });
        let partitions = job.partitions.len();
        introduction::submitted(shared, &context, partitions);
        for (partition, source) in job.partitions.into_iter().enumerate() {
            let order = Order { context: context.clone(), partition: partition as u32, source };
            shared.take_order(order);
        }
        if shared.is_stopping() {
            return Err(EngineError::Stopped);
        }
        Ok(JobHandle { context, partitions, outcomes })
    }

    /// The main core's plan for a key, when at least one of its devices has that much room.
    fn plan_that_fits(&self, key: &ProvingKey) -> Result<Plan, EngineError> {
        let seats = self.shared.main();
        let core = &seats[0].seat.core;
        let plan = core.plan(key);
        let largest = core.devices().iter().max_by_key(|device| device.capacity_bytes);
        let Some(device) = largest.filter(|device| device.capacity_bytes < plan.peak_bytes()) else {
            return Ok(plan);
        };
        core.accepts(key).map_err(EngineError::Unsuitable)?;
        let (core, device, capacity_bytes) = (core.name(), device.name.clone(), device.capacity_bytes);
        Err(EngineError::TooLarge { core, plan, device, capacity_bytes })
    }

    /// Has the main core make a key ready. No lock is held, so that nothing else waits for it.
    fn make_ready(&self, job: u64, key: &Arc<ProvingKey>) {
        let seats = self.shared.main();
        if seats.iter().all(|device| device.seat.is_lost()) {
            return;
        }
        let core = &seats[0].seat.core;
        match catch_unwind(AssertUnwindSafe(|| core.load(key))) {
            Ok(Ok(())) => {}
            Ok(Err(CoreError::DeviceLost { device, message, .. })) if device < seats.len() => {
                self.shared.lose(device, &message);
            }
            Ok(Err(error)) => tracing::warn!(
                job,
                core = core.name(),
                %error,
                "the key could not be made ready ahead; each task tries for itself"
            ),
            Err(payload) => {
                let message = panic_message(&*payload);
                tracing::warn!(
                    job,
                    core = core.name(),
                    message,
                    "the core panicked while it made a key ready"
                );
            }
        }
    }

    /// Gives up a job: partitions that have not begun, or that wait at a gate, end as
    /// [`TaskError::Cancelled`](super::TaskError::Cancelled); a stage that runs is finished first.
    pub fn cancel(&self, handle: &JobHandle) {
        self.shared.cancel(&handle.context);
    }

    /// Replaces the policy on every device of the main core. Each device drains (tasks that hold device
    /// memory go on, others stand at their gates), seats the new policy and goes on: no task is lost
    /// or restarted. Returns once all devices were told; the [`Switch`] tells how far it has come.
    ///
    /// The new policy is on trial for its first [`trial_decisions`](EngineBuilder::trial_decisions) verdicts. If one of
    /// them is refused, or it is quarantined, all devices go back to the policies that sat before. A later switch takes
    /// the place of one that drains or is on trial; what it would go back to is then the last policy that was on none.
    ///
    /// # Errors
    /// The policy refuses its options or panics when it is made: the old one stays, on all devices.
    pub fn switch_policy(&self, policy: &PolicyLibrary) -> Result<Switch, LoadError> {
        let board = &self.shared.board;
        let _order = board.in_order();
        let seats = self.shared.main();
        let instances = seats.iter().map(|_| policy.instantiate()).collect::<Result<Vec<_>, _>>()?;
        let spares: Vec<_> = seats.iter().map(|device| spare(&device.seat)).collect();
        let row = |seat: &Seat| {
            (seat.device(), seat.name().to_owned(), seat.library().name().to_owned(), seat.is_lost())
        };
        let number = board.begin(policy, seats.iter().map(|device| row(&device.seat)).collect());
        for ((device, instance), spare) in seats.iter().zip(instances).zip(spares) {
            device.seat.switch(number, instance, spare);
        }
        Ok(Switch::new(board.clone(), number))
    }

    /// Goes back to the last good policy: of those that passed their trial (or sat when the engine started) and were
    /// not quarantined since, the last one that is not in all seats now. It is a switch like any other.
    ///
    /// # Errors
    /// There is none, or it sits there already because a switch was rolled back, or it cannot be made any more: all stays
    /// as it is.
    pub fn restore_policy(&self) -> Result<Switch, RestoreError> {
        let seats = self.shared.main();
        let seated: Vec<_> = seats.iter().map(|device| device.seat.library()).collect();
        let sits = |policy: &PolicyLibrary| seated.iter().all(|library| library.is_same(policy));
        let target = self.shared.board.last_good(sits);
        let target = target.map_err(|policy| RestoreError::RolledBack { policy })?;
        Ok(self.switch_policy(&target.ok_or(RestoreError::NoOther)?)?)
    }

    /// The latest switch, if there was one.
    pub fn last_switch(&self) -> Option<SwitchReport> {
        self.shared.board.last_switch()
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
                lost: seat.lost,
                policy: seat.policy,
                quarantine: seat.quarantine,
                counters: seat.counters,
                policy_stats: seat.policy_stats.into_iter().collect(),
            }
        };
        self.shared.seats.iter().map(report).collect()
    }

    /// Waits until the dumps of all quarantines so far are written or given up, so that reports name them. False when
    /// that took longer than `at_most`.
    pub fn wait_for_dumps(&self, at_most: Duration) -> bool {
        self.shared.main()[0].seat.dumper().wait(at_most)
    }

    /// What each policy did that sat on a device since the engine started: decisions and how long they took, verdicts, refusals,
    /// waits, quarantine, its own counters.
    pub fn policy_stats(&self) -> Vec<DevicePolicyStats> {
        let stats = |device: &SeatWithQueue| DevicePolicyStats {
            device: device.seat.device(),
            core: device.seat.core.name().to_owned(),
            name: device.seat.name().to_owned(),
            policies: device.seat.policy_stats(),
        };
        self.shared.seats.iter().map(stats).collect()
    }

    /// The arbiter of each device as it stands: locks, ledger, waiters.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.shared.seats.iter().map(|device| device.seat.snapshot()).collect()
    }

    fn spawn(&mut self, name: String, body: impl FnOnce() + Send + 'static) -> Result<(), EngineError> {
        self.threads.push(thread(name, body)?);
        Ok(())
    }
}

fn thread(name: String, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, EngineError> {
    Ok(std::thread::Builder::new().name(name).spawn(body)?)
}

/// An instance to go back to; the fallback takes its place where it cannot be made.
fn spare(seat: &Seat) -> Option<Spare> {
    match seat.spare()? {
        Ok(spare) => Some(spare),
        Err(error) => {
            tracing::warn!(
                device = seat.device(),
                %error,
                "the policy in the seat cannot be made again: if the new one fails its trial, the fallback takes the seat"
            );
            None
        }
    }
}

/// Carries out on all devices what happened on one, and drops instances that nobody asks any more.
fn supervise(shared: &Shared) {
    // Every thread that drops instances has a sender, and nobody sends.
    let (dropping, dropped) = mpsc::channel::<Infallible>();
    while let Some(task) = shared.board.next_task() {
        let seats = shared.main().iter().map(|device| &device.seat);
        match task {
            Task::RollBack(number) => seats.for_each(|seat| seat.roll_back(number)),
            Task::EndTrial(number) => seats.for_each(|seat| seat.end_trial(number)),
            Task::Drop(policies) => retire(policies, dropping.clone()),
        }
    }
    drop(dropping);
    if let Err(mpsc::RecvTimeoutError::Timeout) = dropped.recv_timeout(LONGEST_WAIT_FOR_DROPS) {
        tracing::warn!("a policy that left its seat is still busy with its own end: it is not waited for");
    }
}

/// Drops instances in a thread of their own: each runs its code once more, which may never return.
fn retire(policies: Vec<LoadedPolicy>, dropping: mpsc::Sender<Infallible>) {
    let body = move || {
        let _dropping = dropping;
        drop(policies);
    };
    if let Err(error) = std::thread::Builder::new().name("policy-drop".to_owned()).spawn(body) {
        tracing::warn!(%error, "no thread could be made to drop a policy in: it was dropped where switches are made");
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.stop();
        let mut join = |thread: JoinHandle<()>| {
            if thread.join().is_err() {
                tracing::error!("a thread of the engine panicked");
            }
        };
        self.threads.drain(..).for_each(&mut join);
        self.shared.board.close();
        self.supervisor.take().into_iter().for_each(&mut join);
        if !self.wait_for_dumps(LONGEST_WAIT_FOR_DUMPS) {
            tracing::warn!("a dump takes too long to be written: it is not waited for");
        }
    }
}
