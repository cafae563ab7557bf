//! The arbiter itself: its state, and what each event does to it.

use std::collections::BTreeMap;

use interlock_policy_api::{DeviceView, Observation, ObservationKind, Stage, WakeSet};

use super::holdings::Holdings;
use super::lock_table::LockSet;
use super::task::{Place, Task, Waiter};
use super::{
    Command, Counters, Event, EventError, LockTable, Outcome, PolicyFault, PolicyPort, Quarantine, Refusal,
    Snapshot, TaskId, TaskSpec,
};

/// When a policy is taken out of the seat. `README.md` beside the module says what each limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Limits {
    /// Verdicts refused in a row about one task at one gate, or failures in a row of one hook. Zero counts
    /// as one.
    pub refusals: u32,
    /// Nanoseconds for which tasks may wait while no stage runs and nothing moves, or for which one task may wait while it could
    /// be let in with nothing before it.
    pub stall_ns: u64,
    /// Nanoseconds after which a task that waits at one gate may not be passed by later ones any more.
    pub starve_ns: u64,
    /// Nanoseconds that one call of the policy may take.
    pub decision_ns: u64,
    /// Calls that took longer. Zero counts as one.
    pub slow: u32,
}

impl Limits {
    /// What holds unless something else is said.
    pub const DEFAULT: Limits = Limits {
        refusals: 16,
        stall_ns: 5_000_000_000,
        starve_ns: 300_000_000_000,
        decision_ns: 50_000_000,
        slow: 4,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What an arbiter is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArbiterConfig {
    /// Index of the device.
    pub device: u32,
    /// Device bytes that tasks may hold in all.
    pub capacity_bytes: u64,
    /// Device workers. Shown to the policy; the driver, which owns the threads, keeps to it.
    pub workers: u32,
    /// When a policy is taken out of the seat.
    pub limits: Limits,
}

/// Who decides at the gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The policy in the seat is asked.
    Serving,
    /// It is not asked any more; tasks with reservations are let through.
    Draining,
    /// Nothing is held; the seat is free.
    Drained,
}

/// The state machine of one device: lock table, ledger, waiting tasks.
///
/// Events in, commands out, time as a value. It has no threads and no clock, does no I/O, and the same events with
/// the same verdicts give the same commands. See the [module](super) for what it guarantees.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arbiter {
    pub(super) config: ArbiterConfig,
    pub(super) table: LockTable,
    pub(super) phase: Phase,
    pub(super) tasks: BTreeMap<TaskId, Task>,
    pub(super) arrivals: u64,
    pub(super) now_ns: u64,
    /// Since when tasks wait, no stage runs and nothing moves.
    pub(super) stalled_since_ns: Option<u64>,
    /// When the policy in the seat took it.
    pub(super) seated_ns: u64,
    /// How slow the policy was lately: see `judge_time`.
    pub(super) slowness: u32,
    /// The device as it was when a policy was quarantined, until somebody takes it.
    pub(super) evidence: Option<Box<Snapshot>>,
    pub(super) rank_faults_in_row: u32,
    pub(super) observe_faults_in_row: u32,
    pub(super) counters: Counters,
}

impl Arbiter {
    /// An arbiter with no tasks, with a policy of this lock table in the seat.
    pub fn new(config: ArbiterConfig, table: LockTable) -> Arbiter {
        Arbiter {
            config,
            table,
            phase: Phase::Serving,
            tasks: BTreeMap::new(),
            arrivals: 0,
            now_ns: 0,
            stalled_since_ns: None,
            seated_ns: 0,
            slowness: 0,
            evidence: None,
            rank_faults_in_row: 0,
            observe_faults_in_row: 0,
            counters: Counters::default(),
        }
    }

    /// Takes one event, asks `policy` what there is to ask, and returns what has to be done, in order.
    ///
    /// `now_ns` is nanoseconds since the engine started; a time before that of an earlier event counts as the earlier
    /// one. With [`Event::Installed`], `policy` is the new policy.
    ///
    /// # Errors
    /// [`EventError`] when the event makes no sense. Nothing was changed then, and nobody was asked.
    pub fn step(
        &mut self,
        now_ns: u64,
        event: Event,
        policy: &mut dyn PolicyPort,
    ) -> Result<Vec<Command>, EventError> {
        self.check(&event)?;
        self.now_ns = self.now_ns.max(now_ns);
        let mut turn =
            Turn { arbiter: self, policy, commands: Vec::new(), occurred: WakeSet::NONE, moved: false };
        turn.apply(event);
        turn.serve();
        turn.watch();
        turn.drain();
        Ok(turn.commands)
    }

    /// When to send [`Event::Tick`] if nothing else happens: the earliest deadline of a waiter, the next
    /// time to ask after a refused verdict, or the stall watchdog's limit.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.phase != Phase::Serving {
            return None;
        }
        let waiters = || self.tasks.values().filter_map(Task::waiter);
        let still =
            waiters().filter_map(|waiter| waiter.held_back_since_ns).chain(self.stalled_since_ns).min();
        let watchdog = still.map(|since| since.saturating_add(self.config.limits.stall_ns));
        waiters().filter_map(Waiter::ask_again_ns).chain(watchdog).min()
    }

    /// What has been counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the counters and starts them anew, for figures by interval.
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(&mut self.counters)
    }

    /// Returns the device as it was when a policy was quarantined: before anybody was let through or gave anything back.
    /// `None` when it was taken already, or none was.
    pub fn take_evidence(&mut self) -> Option<Box<Snapshot>> {
        self.evidence.take()
    }

    /// The device as [`place`](interlock_policy_api::Policy::place) is shown it.
    pub fn device_view(&self) -> DeviceView {
        let holdings = self.holdings();
        DeviceView {
            capacity_bytes: self.config.capacity_bytes,
            free_bytes: holdings.ledger.free(),
            tasks: u32::try_from(self.tasks.len()).unwrap_or(u32::MAX),
            computing: holdings.running[Stage::COMPUTE.index()],
        }
    }

    /// The tasks that are inside a stage.
    pub fn running(&self) -> impl Iterator<Item = TaskId> {
        self.tasks.values().filter(|task| task.is_running()).map(|task| task.spec.task)
    }

    /// The tasks that stand at a gate.
    pub fn waiting(&self) -> impl Iterator<Item = TaskId> {
        self.tasks.values().filter(|task| !task.is_running()).map(|task| task.spec.task)
    }

    /// Whether no task is here.
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Who decides at the gates now.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The lock table of the policy in the seat.
    pub fn lock_table(&self) -> &LockTable {
        &self.table
    }

    pub(super) fn holdings(&self) -> Holdings {
        Holdings::of(&self.config, &self.table, self.tasks.values())
    }

    fn check(&self, event: &Event) -> Result<(), EventError> {
        match event {
            Event::Arrived(spec) => self.check_arrival(spec),
            &Event::StageEnded { task, .. } => match self.tasks.get(&task) {
                None => Err(EventError::UnknownTask { task }),
                Some(found) if found.is_running() => Ok(()),
                Some(found) => Err(EventError::NotRunning { task, gate: found.stage() }),
            },
            Event::Installed(_) if self.phase != Phase::Drained => Err(EventError::NotDrained),
            Event::Installed(_) | Event::Cancelled { .. } | Event::Tick | Event::Drain => Ok(()),
        }
    }

    fn check_arrival(&self, spec: &TaskSpec) -> Result<(), EventError> {
        let &TaskSpec { task, staged_bytes, peak_bytes, .. } = spec;
        let capacity_bytes = self.config.capacity_bytes;
        if self.tasks.contains_key(&task) {
            Err(EventError::DuplicateTask { task })
        } else if staged_bytes > peak_bytes {
            Err(EventError::StagedAbovePeak { task, staged_bytes, peak_bytes })
        } else if peak_bytes > capacity_bytes {
            Err(EventError::LargerThanDevice { task, peak_bytes, capacity_bytes })
        } else {
            Ok(())
        }
    }
}

/// One step of an arbiter.
pub(super) struct Turn<'a> {
    pub arbiter: &'a mut Arbiter,
    pub policy: &'a mut dyn PolicyPort,
    pub commands: Vec<Command>,
    /// What happened that nobody has been woken for yet.
    pub occurred: WakeSet,
    /// Whether a task moved: the watchdog's clock starts again.
    pub moved: bool,
}

impl Turn<'_> {
    fn apply(&mut self, event: Event) {
        match event {
            Event::Arrived(spec) => self.arrive(spec),
            Event::StageEnded { task, outcome } => self.end_stage(task, outcome),
            Event::Cancelled { task } => self.cancel(task),
            Event::Tick => {}
            Event::Drain => self.start_drain(),
            Event::Installed(table) => self.install(table),
        }
    }

    fn arrive(&mut self, spec: TaskSpec) {
        let arbiter = &mut *self.arbiter;
        let task = Task {
            arrival: arbiter.arrivals,
            held_bytes: 0,
            locks: LockSet::EMPTY,
            staged: false,
            place: Place::Gate(Waiter::at(Stage::PREPARE, arbiter.now_ns)),
            spec,
        };
        arbiter.arrivals += 1;
        arbiter.tasks.insert(task.spec.task, task);
        self.happened(WakeSet::TASK_ARRIVED);
    }

    fn end_stage(&mut self, id: TaskId, outcome: Outcome) {
        let Some(task) = self.arbiter.tasks.get(&id) else { return };
        let Place::Inside { stage, since_ns } = task.place else { return };
        let next = task.gate_after(stage).filter(|_| outcome == Outcome::Done);
        let duration_ns = self.arbiter.now_ns - since_ns;
        self.moved = true;
        self.happened(WakeSet::STAGE_ENDED);
        let bytes = match next {
            Some(gate) => {
                let freed = self.release(id, self.arbiter.table.over_at(gate), stage >= Stage::COMPUTE);
                self.stand_at(id, gate);
                freed
            }
            None => self.release_all(id),
        };
        let kind = match outcome {
            Outcome::Done => ObservationKind::STAGE_ENDED,
            Outcome::Failed => ObservationKind::STAGE_FAILED,
            Outcome::AllocationFailed => ObservationKind::ALLOCATION_FAILED,
        };
        self.observe(kind, stage, id, duration_ns, bytes);
        if next.is_none() {
            let counters = &mut self.arbiter.counters;
            match outcome {
                Outcome::Done => counters.finished += 1,
                Outcome::Failed | Outcome::AllocationFailed => counters.failed += 1,
            }
            self.leave(id, stage, 0);
        }
    }

    fn cancel(&mut self, id: TaskId) {
        let Some(gate) = self.arbiter.tasks.get(&id).and_then(Task::waiter).map(|waiter| waiter.gate) else {
            return;
        };
        let freed = self.release_all(id);
        self.arbiter.counters.cancelled += 1;
        self.leave(id, gate, freed);
    }

    fn install(&mut self, table: LockTable) {
        let arbiter = &mut *self.arbiter;
        arbiter.table = table;
        arbiter.phase = Phase::Serving;
        arbiter.rank_faults_in_row = 0;
        arbiter.observe_faults_in_row = 0;
        arbiter.slowness = 0;
        arbiter.seated_ns = arbiter.now_ns;
        arbiter.tasks.values_mut().filter_map(Task::waiter_mut).for_each(Waiter::ask_afresh);
        self.moved = true;
    }

    /// What a fault counts as. A policy whose process is gone is out of the seat at once instead, whatever the limit of
    /// refusals.
    pub fn refusal_of(&mut self, fault: PolicyFault) -> Option<Refusal> {
        match fault {
            PolicyFault::Panicked => Some(Refusal::Panicked),
            PolicyFault::Unreachable => Some(Refusal::Unreachable),
            PolicyFault::Ended(end) => {
                self.quarantine(Quarantine::Ended(end));
                None
            }
        }
    }

    pub fn happened(&mut self, what: WakeSet) {
        self.occurred = self.occurred.with(what);
    }

    pub fn stand_at(&mut self, id: TaskId, gate: Stage) {
        let now_ns = self.arbiter.now_ns;
        if let Some(task) = self.arbiter.tasks.get_mut(&id) {
            task.place = Place::Gate(Waiter::at(gate, now_ns));
        }
    }

    /// Takes `locks` from a task, and its bytes if `bytes` says so. Returns how many bytes came free.
    pub fn release(&mut self, id: TaskId, locks: LockSet, bytes: bool) -> u64 {
        let Some(task) = self.arbiter.tasks.get_mut(&id) else { return 0 };
        let locks = task.locks.common(locks);
        task.locks = task.locks.without(locks);
        let mut freed = 0;
        if bytes {
            freed = std::mem::take(&mut task.held_bytes);
            task.staged = false;
        }
        if !locks.is_empty() {
            self.happened(WakeSet::LOCK_FREED);
        }
        if freed > 0 {
            self.happened(WakeSet::BYTES_FREED);
        }
        if !locks.is_empty() || freed > 0 {
            let locks = self.arbiter.table.names(locks);
            self.commands.push(Command::Freed { task: id, locks, bytes: freed });
        }
        freed
    }

    fn release_all(&mut self, id: TaskId) -> u64 {
        let locks = self.arbiter.tasks.get(&id).map_or(LockSet::EMPTY, |task| task.locks);
        self.release(id, locks, true)
    }

    fn leave(&mut self, id: TaskId, stage: Stage, freed: u64) {
        self.arbiter.tasks.remove(&id);
        self.commands.push(Command::Left { task: id });
        self.observe(ObservationKind::TASK_LEFT, stage, id, 0, freed);
    }

    /// Tells the policy in the seat what happened. One that is being drained is not told any more.
    pub fn observe(&mut self, kind: ObservationKind, stage: Stage, id: TaskId, duration_ns: u64, bytes: u64) {
        if self.arbiter.phase != Phase::Serving {
            return;
        }
        let now_ns = self.arbiter.now_ns;
        let observation = Observation { kind, stage, task: id.0, now_ns, duration_ns, bytes };
        let answer = self.policy.observe(&observation);
        self.judge_time(id);
        match answer {
            Ok(()) => self.arbiter.observe_faults_in_row = 0,
            Err(fault) => {
                if let Some(refusal) = self.refusal_of(fault) {
                    self.arbiter.observe_faults_in_row += 1;
                    self.count_refusal(id, stage, refusal, self.arbiter.observe_faults_in_row);
                }
            }
        }
    }

    /// Counts a refusal that is the `in_row`th of its kind of question, and acts on the limit.
    pub fn count_refusal(&mut self, task: TaskId, gate: Stage, refusal: Refusal, in_row: u32) {
        *self.arbiter.counters.refusals.entry(refusal).or_default() += 1;
        self.commands.push(Command::Refused { task, gate, refusal });
        let limit = self.arbiter.config.limits.refusals.max(1);
        if in_row >= limit {
            self.quarantine(Quarantine::TooManyRefusals { last: refusal, limit });
        }
    }
}
