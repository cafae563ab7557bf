//! The seat of a device: its arbiter, the policy in it, and the threads that wait for a turn.
//!
//! All that decides is in the arbiter, which knows no threads. A seat turns its commands into turns for
//! waiting workers, gives it the time, and puts another policy in when the arbiter has drained.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use interlock_policy_api::{DeviceView, Request, Stage, Strided, least_loaded};
use parking_lot::{Condvar, Mutex};

use super::dump::{self, DeviceFacts, Dump, Dumper, EngineFacts};
use super::journal::Journal;
use super::metered::Metered;
use super::policy_stats::{PolicyStats, QuarantineReport, Quarantined, Tally};
use super::switch::Board;
use crate::core::Core;
use crate::host::{LoadError, LoadedPolicy, PolicyLibrary};
use crate::interlock::{
    Arbiter, ArbiterConfig, Command, Counters, Event, EventError, Limits, Outcome, Quarantine, Recorder,
    Snapshot, TaskId, TaskSpec, TimelineEvent, TimelineKind,
};

mod switch;

use switch::Seating;
pub(super) use switch::Spare;

/// Of how many policies that left the seat it is remembered what they did.
const MOST_TALLIES: usize = 32;

/// The engine's clock: nanoseconds since it started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn now_ns(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn instant(self, ns: u64) -> Instant {
        self.0 + Duration::from_nanos(ns)
    }
}

/// Permission to run a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub stage: Stage,
    pub inline: bool,
    pub waited_ns: u64,
    pub locks: Vec<String>,
}

/// Why a task has to leave a device although its stages went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// Its job was cancelled.
    Cancelled,
    /// The device was lost.
    Lost,
}

/// Whose task it is, for the timeline.
#[derive(Clone, Copy, Debug)]
struct Owner {
    job: u64,
    partition: u32,
    worker: u32,
    /// Its Compute is over: it needs the device no more.
    computed: bool,
}

/// One device with its arbiter and its policy.
pub(super) struct Seat {
    pub core: Arc<dyn Core>,
    /// Index of the device in its core.
    pub device_in_core: usize,
    /// Index of the seat in the engine.
    device: u32,
    workers: u32,
    clock: Clock,
    recorder: Arc<dyn Recorder>,
    fallback: PolicyLibrary,
    limits: Limits,
    dumper: Arc<Dumper>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    arbiter: Arbiter,
    policy: Metered,
    /// Of the policies that sat here before, one each, the oldest first.
    tallies: Vec<Tally>,
    seating: Seating,
    turns: HashMap<TaskId, Turn>,
    owners: HashMap<TaskId, Owner>,
    /// Of the last policy that was.
    quarantine: Option<Quarantined>,
    journal: Journal,
    /// Why no task may use the device any more.
    lost: Option<String>,
}

/// What a seat has to say for a report.
#[derive(Clone, Debug)]
pub(super) struct SeatReport {
    pub policy: String,
    pub counters: Counters,
    pub quarantine: Option<QuarantineReport>,
    pub lost: Option<String>,
    pub policy_stats: Vec<(String, u64)>,
}

pub(super) struct SeatConfig {
    pub core: Arc<dyn Core>,
    pub device_in_core: usize,
    pub device: u32,
    pub workers: u32,
    pub limits: Limits,
    pub dumper: Arc<Dumper>,
    pub clock: Clock,
    pub recorder: Arc<dyn Recorder>,
    pub board: Arc<Board>,
}

impl Seat {
    pub fn new(
        config: SeatConfig,
        library: &PolicyLibrary,
        fallback: PolicyLibrary,
    ) -> Result<Self, LoadError> {
        let SeatConfig { core, device_in_core, device, workers, limits, dumper, clock, recorder, board } =
            config;
        let capacity_bytes = core.devices()[device_in_core].capacity_bytes;
        let arbiter_config = ArbiterConfig { device, capacity_bytes, workers, limits };
        let state = State {
            arbiter: Arbiter::new(arbiter_config, library.locks().clone()),
            policy: Metered::new(library.instantiate()?, clock.now_ns()),
            tallies: Vec::new(),
            seating: Seating::new(board),
            turns: HashMap::new(),
            owners: HashMap::new(),
            quarantine: None,
            journal: Journal::default(),
            lost: None,
        };
        Ok(Self {
            core,
            device_in_core,
            device,
            workers,
            clock,
            recorder,
            fallback,
            limits,
            dumper,
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    pub fn device(&self) -> u32 {
        self.device
    }

    pub fn workers(&self) -> u32 {
        self.workers
    }

    /// Who writes the dumps, of all seats of the engine.
    pub fn dumper(&self) -> &Dumper {
        &self.dumper
    }

    /// What the core calls the device.
    pub fn name(&self) -> &str {
        &self.core.devices()[self.device_in_core].name
    }

    /// Bytes that tasks may hold at once.
    pub fn capacity_bytes(&self) -> u64 {
        self.core.devices()[self.device_in_core].capacity_bytes
    }

    pub fn device_view(&self) -> DeviceView {
        self.state.lock().arbiter.device_view()
    }

    /// Asks the policy in this seat where a task should go. A choice that cannot be followed is written
    /// down and replaced by the least loaded device.
    pub fn place(&self, request: &Request, devices: &[DeviceView]) -> usize {
        let choice = self.state.lock().policy.policy_mut().place(request, devices);
        let choice = choice.unwrap_or_else(|error| {
            tracing::warn!(job = request.job, partition = request.partition, %error, "placement refused");
            least_loaded(Strided::new(devices))
        });
        choice as usize
    }

    pub fn report(&self) -> SeatReport {
        let mut state = self.state.lock();
        SeatReport {
            policy: state.policy.policy().library().name().to_owned(),
            counters: state.arbiter.counters().clone(),
            quarantine: state.quarantine.as_ref().map(Quarantined::report),
            lost: state.lost.clone(),
            policy_stats: state.policy.policy_mut().stats().unwrap_or_default(),
        }
    }

    /// What each policy did that sat here, the one in the seat last.
    pub fn policy_stats(&self) -> Vec<PolicyStats> {
        let mut state = self.state.lock();
        let own = state.policy.policy_mut().stats().unwrap_or_default();
        let mut seated = state.policy.stats(self.clock.now_ns());
        seated.counters = own.into_iter().collect();
        state.tallies.iter().map(|tally| tally.stats(None)).chain([seated]).collect()
    }

    pub fn snapshot(&self) -> Snapshot {
        self.state.lock().arbiter.snapshot()
    }

    /// Writes down what the device is: before any other event of it.
    pub fn introduce(&self) {
        let policy = self.state.lock().policy.policy().library().name().to_owned();
        self.record(TimelineEvent {
            bytes: Some(self.capacity_bytes()),
            count: Some(u64::from(self.workers)),
            policy,
            detail: self.name().to_owned(),
            ..self.event(TimelineKind::Device, None)
        });
    }

    /// Brings a task to the device. False when the device is lost.
    pub fn arrive(&self, spec: TaskSpec, worker: u32) -> Result<bool, EventError> {
        let owner = Owner { job: spec.job, partition: spec.partition, worker, computed: false };
        let task = spec.task;
        let mut state = self.state.lock();
        if state.lost.is_some() {
            return Ok(false);
        }
        state.owners.insert(task, owner);
        self.record(self.event(TimelineKind::Arrived, Some((task, owner))));
        let result = self.step(&mut state, Event::Arrived(spec));
        if result.is_err() {
            state.owners.remove(&task);
        }
        self.changed.notify_all();
        result.map(|()| true)
    }

    /// Waits until the task may run a stage. When it has to leave instead, drop what it holds on the device and then say
    /// so with [`Seat::leave`].
    pub fn wait_turn(&self, task: TaskId, cancelled: &AtomicBool) -> Result<Turn, Gone> {
        let mut state = self.state.lock();
        loop {
            if cancelled.load(Ordering::SeqCst) {
                return Err(Gone::Cancelled);
            }
            if state.lost.is_some() && !state.owners.get(&task).is_some_and(|owner| owner.computed) {
                return Err(Gone::Lost);
            }
            if let Some(turn) = state.turns.remove(&task) {
                return Ok(turn);
            }
            let Some(deadline) = state.arbiter.next_deadline() else {
                self.changed.wait(&mut state);
                continue;
            };
            if self.changed.wait_until(&mut state, self.clock.instant(deadline)).timed_out()
                && state.arbiter.next_deadline().is_some_and(|due| due <= self.clock.now_ns())
            {
                self.step_known(&mut state, Event::Tick);
                self.changed.notify_all();
            }
        }
    }

    /// Takes a task out that stands at a gate, or that was let in and has not begun the stage.
    pub fn leave(&self, task: TaskId) {
        let mut state = self.state.lock();
        let event = match state.turns.remove(&task) {
            Some(_) => Event::StageEnded { task, outcome: Outcome::Failed },
            None => Event::Cancelled { task },
        };
        self.step_known(&mut state, event);
        self.changed.notify_all();
    }

    /// Says how the stage that the task ran has ended.
    pub fn end_stage(&self, task: TaskId, stage: Stage, ran_ns: u64, failure: Option<(Outcome, String)>) {
        let mut state = self.state.lock();
        if let Some(owner) = state.owners.get_mut(&task) {
            owner.computed |= stage == Stage::COMPUTE;
        }
        let owner = state.owners.get(&task).map(|owner| (task, *owner));
        let (outcome, kind, detail) = match failure {
            None => (Outcome::Done, TimelineKind::Ended, String::new()),
            Some((outcome, detail)) => (outcome, TimelineKind::Failed, detail),
        };
        let event = self.event(kind, owner);
        self.record(TimelineEvent { stage: Some(stage), duration_ns: Some(ran_ns), detail, ..event });
        self.step_known(&mut state, Event::StageEnded { task, outcome });
        self.changed.notify_all();
    }

    /// Has every task that waits look again whether it has to leave.
    pub fn wake(&self) {
        // Whoever is about to wait has looked before this lock is had, or looks after it.
        drop(self.state.lock());
        self.changed.notify_all();
    }

    /// Marks the device as lost: tasks leave it at their next gate. False when it was lost already.
    pub fn lose(&self, message: &str) -> bool {
        let mut state = self.state.lock();
        if state.lost.is_some() {
            return false;
        }
        state.lost = Some(message.to_owned());
        let event = self.event(TimelineKind::DeviceLost, None);
        self.record(TimelineEvent { detail: message.to_owned(), ..event });
        self.changed.notify_all();
        true
    }

    pub fn is_lost(&self) -> bool {
        self.state.lock().lost.is_some()
    }

    /// Why the device was lost, if it was.
    pub fn lost(&self) -> Option<String> {
        self.state.lock().lost.clone()
    }

    /// An event the driver makes itself: the arbiter refusing it would be a fault of this module.
    fn step_known(&self, state: &mut State, event: Event) {
        if let Err(error) = self.step(state, event) {
            tracing::error!(device = self.device, %error, "the arbiter refused an event of its driver");
        }
    }

    /// Feeds the arbiter and carries out what it answers.
    fn step(&self, state: &mut State, event: Event) -> Result<(), EventError> {
        let mut commands = self.feed(state, event)?;
        loop {
            let drained = commands.contains(&Command::Drained);
            for command in commands {
                state.journal.came_out(self.clock.now_ns(), &command);
                self.carry_out(state, command);
            }
            let event = if drained { Some(self.seat_next(state)) } else { self.look_at_trial(state) };
            let Some(event) = event else { return Ok(()) };
            commands = self.feed(state, event)?;
        }
    }

    fn feed(&self, state: &mut State, event: Event) -> Result<Vec<Command>, EventError> {
        let now_ns = self.clock.now_ns();
        state.journal.went_in(now_ns, event.clone());
        state.arbiter.step(now_ns, event, &mut state.policy)
    }

    /// Puts a policy in the place of another, of which the tally stays. Returns the other.
    fn seat(&self, state: &mut State, policy: LoadedPolicy) -> LoadedPolicy {
        let now_ns = self.clock.now_ns();
        let old = std::mem::replace(&mut state.policy, Metered::new(policy, now_ns));
        // One that was quarantined has been asked for its counters, and is not asked anything any more.
        let ask = !old.is_quarantined();
        let (mut old, mut tally) = old.unseat(now_ns);
        if ask {
            tally.counters = old.stats().unwrap_or_default().into_iter().collect();
        }
        state.tallies.push(tally);
        let identity = state.policy.identity();
        if let Some(before) = state.tallies.iter().position(|tally| tally.identity == *identity) {
            let tally = state.tallies.remove(before);
            state.policy.go_on_with(tally);
        }
        let surplus = state.tallies.len().saturating_sub(MOST_TALLIES);
        state.tallies.drain(..surplus);
        old
    }

    fn fallback_policy(&self) -> LoadedPolicy {
        self.fallback.instantiate().expect("the linked fallback takes no options")
    }

    fn carry_out(&self, state: &mut State, command: Command) {
        let owner = |task: TaskId| state.owners.get(&task).map(|owner| (task, *owner));
        match command {
            Command::Run { task, stage, inline, held_bytes, locks, waited_ns } => {
                state.policy.tally_mut().waited(stage, waited_ns);
                state.seating.note_grant(self.device, self.clock.now_ns());
                self.record(TimelineEvent {
                    stage: Some(stage),
                    duration_ns: Some(waited_ns),
                    bytes: Some(held_bytes),
                    locks: locks.join("+"),
                    detail: if inline { "inline staging".into() } else { String::new() },
                    ..self.event(TimelineKind::Entered, owner(task))
                });
                state.turns.insert(task, Turn { stage, inline, waited_ns, locks });
            }
            Command::Skipped { task, waited_ns } => {
                state.policy.tally_mut().waited(Stage::STAGE, waited_ns);
                let event = self.event(TimelineKind::Skipped, owner(task));
                self.record(TimelineEvent { duration_ns: Some(waited_ns), ..event });
            }
            Command::Freed { task, locks, bytes } => self.record(TimelineEvent {
                bytes: Some(bytes),
                locks: locks.join("+"),
                ..self.event(TimelineKind::Freed, owner(task))
            }),
            Command::Refused { task, gate, refusal } => {
                state.policy.tally_mut().count_refusal(refusal);
                tracing::warn!(device = self.device, task = task.0, %gate, %refusal, "verdict refused");
                state
                    .seating
                    .note_refused(|| format!("a verdict at the gate of {gate} was refused: {refusal}"));
                self.record(TimelineEvent {
                    stage: Some(gate),
                    detail: refusal.to_string(),
                    ..self.event(TimelineKind::Refused, owner(task))
                });
            }
            Command::Slow { task, took_ns } => {
                state.policy.tally_mut().slow += 1;
                let policy = state.policy.policy().library().name();
                tracing::warn!(device = self.device, task = task.0, policy, took_ns, "slow answer");
                self.record(TimelineEvent {
                    duration_ns: Some(took_ns),
                    ..self.event(TimelineKind::Slow, owner(task))
                });
            }
            Command::Left { task } => {
                self.record(self.event(TimelineKind::Left, owner(task)));
                state.owners.remove(&task);
            }
            Command::Quarantined(reason) => self.quarantined(state, reason),
            // The loop in `step` seats the next policy.
            Command::Drained => {}
        }
    }

    fn quarantined(&self, state: &mut State, reason: Quarantine) {
        let policy = state.policy.policy().library().name().to_owned();
        let report = QuarantineReport::new(&policy, reason, self.clock.now_ns());
        tracing::error!(
            device = self.device,
            policy,
            code = report.code,
            sentence = report.sentence,
            "policy quarantined"
        );
        self.record(TimelineEvent {
            detail: format!("{}: {}", report.code, report.sentence),
            ..self.event(TimelineKind::Quarantined, None)
        });
        let dump = self.dump(state, report.clone());
        let quarantined = Quarantined::new(report, self.dumper.write(dump));
        state.policy.tally_mut().quarantine = Some(quarantined.clone());
        state.quarantine = Some(quarantined);
        let successor = self.successor_of_quarantined(state, reason);
        state.seating.next = Some(successor);
    }

    /// What led to a quarantine. Asks the policy for its counters: that is the last it is asked.
    fn dump(&self, state: &mut State, quarantine: QuarantineReport) -> Dump {
        let counters = state.policy.policy_mut().stats();
        let counters_error = counters.as_ref().err().map(|fault| fault.to_string());
        state.policy.tally_mut().counters = counters.unwrap_or_default().into_iter().collect();
        Dump {
            schema: Dump::SCHEMA,
            time: dump::now(),
            engine: EngineFacts { version: env!("CARGO_PKG_VERSION"), process_id: std::process::id() },
            device: DeviceFacts {
                index: self.device,
                core: self.core.name(),
                name: self.name().to_owned(),
                capacity_bytes: self.capacity_bytes(),
                workers: self.workers,
            },
            limits: self.limits,
            quarantine,
            policy: state.policy.stats(self.clock.now_ns()),
            counters_error,
            snapshot: state.arbiter.take_evidence(),
            events: state.journal.entries(),
        }
    }

    /// Under the seat's lock, so that the events of a task are written in their order.
    fn record(&self, event: TimelineEvent) {
        self.recorder.record(&event);
    }

    fn event(&self, event: TimelineKind, owner: Option<(TaskId, Owner)>) -> TimelineEvent {
        TimelineEvent {
            core: self.core.name().into(),
            device: Some(self.device),
            worker: owner.map(|(_, owner)| owner.worker),
            job: owner.map(|(_, owner)| owner.job),
            partition: owner.map(|(_, owner)| owner.partition),
            task: owner.map(|(task, _)| task.0),
            ..TimelineEvent::new(self.clock.now_ns(), event)
        }
    }
}
