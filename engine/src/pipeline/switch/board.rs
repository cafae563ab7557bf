//! The book of switches. Devices write to it under their own lock; it never asks a device for anything, so that the
//! order of the locks is always device, then board.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::report::{DeviceSwitch, Rate, SwapTimes, SwitchPhase, SwitchReport};
use crate::host::{LoadedPolicy, PolicyLibrary};
use crate::pipeline::seat::Clock;

/// Switches that can still be asked about.
const KEPT_SWITCHES: usize = 16;
/// Policies that served well and can be gone back to.
const KEPT_POLICIES: usize = 16;
/// Proofs whose times are kept.
const KEPT_PROOFS: usize = 4_096;
/// How far back the rate before a switch looks.
const BEFORE_NS: u64 = 10_000_000_000;

/// What no clock overflows with.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400 * 365);

/// See the module's text.
pub(in crate::pipeline) struct Board {
    clock: Clock,
    trial_decisions: u64,
    /// Held while a switch is begun on all devices: all of them get switches in one order.
    order: Mutex<()>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    switches: VecDeque<Record>,
    begun: u64,
    /// Policies that passed their trial and were not quarantined since; the latest last.
    good: Vec<PolicyLibrary>,
    /// When proofs were made.
    proofs: VecDeque<u64>,
    /// Instances that nobody asks any more.
    retired: Vec<LoadedPolicy>,
    /// What is to be done on all devices.
    tasks: VecDeque<Task>,
    closed: bool,
}

/// What the engine's supervisor has to do on all devices.
pub(in crate::pipeline) enum Task {
    /// A trial failed on one device: roll back on the others.
    RollBack(u64),
    /// A trial was passed: the way back is not needed any more.
    EndTrial(u64),
    /// Instances to drop.
    Drop(Vec<LoadedPolicy>),
}

struct Record {
    number: u64,
    library: PolicyLibrary,
    phase: SwitchPhase,
    began_ns: u64,
    /// When the last device had gone on.
    resumed_ns: Option<u64>,
    decided_ns: Option<u64>,
    devices: Vec<Device>,
}

struct Device {
    report: DeviceSwitch,
    decisions: u64,
}

/// One change of the policy in a seat.
pub(in crate::pipeline) struct Swap {
    /// The switch it belongs to.
    pub number: u64,
    /// Whether it goes back from that switch.
    pub back: bool,
    /// The policy that has the seat now.
    pub seated: String,
    pub times: SwapTimes,
}

impl Board {
    pub fn new(clock: Clock, trial_decisions: u64, policy: PolicyLibrary) -> Self {
        let state = State {
            switches: VecDeque::new(),
            begun: 0,
            good: vec![policy],
            proofs: VecDeque::new(),
            retired: Vec::new(),
            tasks: VecDeque::new(),
            closed: false,
        };
        let (order, state, changed) = (Mutex::new(()), Mutex::new(state), Condvar::new());
        Self { clock, trial_decisions, order, state, changed }
    }

    /// To be held while a switch is begun.
    pub fn in_order(&self) -> MutexGuard<'_, ()> {
        self.order.lock()
    }

    /// Opens the record of a switch; `devices` are index, name, and policy of each.
    pub fn begin(&self, library: &PolicyLibrary, devices: Vec<(u32, String, String, bool)>) -> u64 {
        let mut state = self.state.lock();
        let now_ns = self.clock.now_ns();
        if let Some(last) = state.switches.back_mut() {
            last.supersede(library.name(), now_ns);
        }
        state.begun += 1;
        let device = |(device, name, from, lost): (u32, String, String, bool)| Device {
            report: DeviceSwitch { device, name, seated: from.clone(), from, swap: None, back: None, lost },
            decisions: 0,
        };
        let record = Record {
            number: state.begun,
            library: library.clone(),
            phase: SwitchPhase::Draining,
            began_ns: now_ns,
            resumed_ns: None,
            decided_ns: None,
            devices: devices.into_iter().map(device).collect(),
        };
        if state.switches.len() == KEPT_SWITCHES {
            state.switches.pop_front();
        }
        state.switches.push_back(record);
        self.go_on(&mut state);
        self.changed.notify_all();
        self.number_of_last(&state)
    }

    fn number_of_last(&self, state: &State) -> u64 {
        state.switches.back().map_or(0, |record| record.number)
    }

    /// A policy took the seat of a device.
    pub fn seated(&self, device: u32, swap: Swap) {
        self.update(swap.number, device, |found| {
            found.report.seated = swap.seated;
            let slot = if swap.back { &mut found.report.back } else { &mut found.report.swap };
            *slot = Some(swap.times);
        });
        self.changed.notify_all();
    }

    /// The first grant since a swap that tasks waited for.
    pub fn granted(&self, device: u32, number: u64, back: bool, pause_ns: u64) {
        self.update(number, device, |found| {
            let slot = if back { &mut found.report.back } else { &mut found.report.swap };
            if let Some(times) = slot {
                times.pause_ns = Some(pause_ns);
            }
        });
        self.changed.notify_all();
    }

    /// How many verdicts the policy on trial has given on a device.
    pub fn decided(&self, device: u32, number: u64, decisions: u64) {
        self.update(number, device, |found| found.decisions = decisions);
    }

    /// The policy failed its trial on a device. False when the trial is over: then it is an ordinary quarantine.
    pub fn failed(&self, device: u32, number: u64, reason: &str) -> bool {
        let mut state = self.state.lock();
        let Some(record) = state.switches.iter_mut().find(|record| record.number == number) else {
            return true;
        };
        match record.phase {
            SwitchPhase::Draining | SwitchPhase::OnTrial => {
                record.phase = SwitchPhase::RollingBack { device, reason: reason.to_owned() };
                let library = record.library.clone();
                state.good.retain(|good| !good.is_same(&library));
                state.tasks.push_back(Task::RollBack(number));
                self.changed.notify_all();
                true
            }
            SwitchPhase::Passed => false,
            // Another device was faster, or a later switch is about to come.
            _ => true,
        }
    }

    /// A policy was quarantined: it is none to go back to.
    pub fn quarantined(&self, library: &PolicyLibrary) {
        self.state.lock().good.retain(|good| !good.is_same(library));
    }

    /// No task uses the device any more: nobody waits for it.
    pub fn lost(&self, device: u32) {
        let mut state = self.state.lock();
        let records = state.switches.iter_mut().flat_map(|record| &mut record.devices);
        records.filter(|found| found.report.device == device).for_each(|found| found.report.lost = true);
        self.go_on(&mut state);
        self.changed.notify_all();
    }

    /// A proof was made.
    pub fn proved(&self) {
        let mut state = self.state.lock();
        if state.proofs.len() == KEPT_PROOFS {
            state.proofs.pop_front();
        }
        let now_ns = self.clock.now_ns();
        state.proofs.push_back(now_ns);
    }

    /// Takes an instance that is to be dropped. Its code runs once more then, and its process is reaped: nothing that
    /// a device should wait for.
    pub fn retire(&self, policy: LoadedPolicy) {
        self.state.lock().retired.push(policy);
        self.changed.notify_all();
    }

    /// The policy to go back to, where `sits` says whether a policy has all seats now; `Err` is the name of the one that the last
    /// switch went back to by itself.
    pub fn last_good(&self, sits: impl Fn(&PolicyLibrary) -> bool) -> Result<Option<PolicyLibrary>, String> {
        let state = self.state.lock();
        let rolled_back =
            state.switches.back().is_some_and(|last| matches!(last.phase, SwitchPhase::RolledBack { .. }));
        match state.good.last() {
            Some(last) if rolled_back && sits(last) => Err(last.name().to_owned()),
            _ => Ok(state.good.iter().rev().find(|good| !sits(good)).cloned()),
        }
    }

    /// The latest switch.
    pub fn last_switch(&self) -> Option<SwitchReport> {
        let state = self.state.lock();
        state.switches.back().map(|record| self.report_of(&state, record))
    }

    /// How far a switch has come.
    ///
    /// # Panics
    /// When `number` is of no switch, or of one that is forgotten; see [`Board::wait`].
    pub fn report(&self, number: u64) -> SwitchReport {
        self.wait(number, Duration::ZERO, |_| true)
    }

    /// See [`Switch::wait`](super::Switch::wait). A switch that is forgotten was superseded long ago: the oldest one
    /// known stands in for what came after it.
    pub fn wait(
        &self,
        number: u64,
        timeout: Duration,
        enough: impl Fn(&SwitchReport) -> bool,
    ) -> SwitchReport {
        let until = Instant::now() + timeout.min(LONGEST_WAIT);
        let mut state = self.state.lock();
        loop {
            let found = state.switches.iter().find(|record| record.number >= number);
            let report = found.map(|record| self.report_of(&state, record));
            let report = report.expect("a handle is made after the record of its switch, and one is kept");
            if state.closed || report.phase.is_final() || enough(&report) {
                return report;
            }
            if self.changed.wait_until(&mut state, until).timed_out() {
                return report;
            }
        }
    }

    /// Waits for something to do on all devices; `None` once the engine has ended and nothing is left.
    pub fn next_task(&self) -> Option<Task> {
        let mut state = self.state.lock();
        loop {
            if let Some(task) = state.tasks.pop_front() {
                return Some(task);
            }
            if !state.retired.is_empty() {
                return Some(Task::Drop(std::mem::take(&mut state.retired)));
            }
            if state.closed {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    /// The engine has ended.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    fn update(&self, number: u64, device: u32, change: impl FnOnce(&mut Device)) {
        let mut state = self.state.lock();
        let record = state.switches.iter_mut().find(|record| record.number == number);
        let mut devices = record.into_iter().flat_map(|record| &mut record.devices);
        if let Some(found) = devices.find(|found| found.report.device == device) {
            change(found);
        }
        if self.go_on(&mut state) {
            self.changed.notify_all();
        }
    }

    /// Takes the latest switch to its next phase where all is there for it.
    fn go_on(&self, state: &mut State) -> bool {
        let now_ns = self.clock.now_ns();
        let Some(record) = state.switches.back_mut() else { return false };
        let before = record.phase.clone();
        let all = |done: fn(&DeviceSwitch) -> bool| {
            record.devices.iter().all(|device| device.report.lost || done(&device.report))
        };
        if record.resumed_ns.is_none() && all(|device| device.swap.is_some_and(has_gone_on)) {
            record.resumed_ns = Some(now_ns);
        }
        if record.phase == SwitchPhase::Draining && all(|device| device.swap.is_some()) {
            record.phase = SwitchPhase::OnTrial;
        }
        if record.phase == SwitchPhase::OnTrial && record.decisions() >= self.trial_decisions {
            record.phase = SwitchPhase::Passed;
            record.decided_ns = Some(now_ns);
            state.tasks.push_back(Task::EndTrial(record.number));
            let library = record.library.clone();
            state.good.retain(|good| !good.is_same(&library));
            state.good.push(library);
            if state.good.len() > KEPT_POLICIES {
                state.good.remove(0);
            }
        }
        let Some(record) = state.switches.back_mut() else { return false };
        if let SwitchPhase::RollingBack { device, reason } = &record.phase
            && record.devices.iter().all(|device| device.report.lost || device.report.back.is_some())
        {
            record.phase = SwitchPhase::RolledBack { device: *device, reason: reason.clone() };
            record.decided_ns = Some(now_ns);
        }
        record.phase != before
    }

    fn report_of(&self, state: &State, record: &Record) -> SwitchReport {
        let proofs = |from: u64, to: u64| {
            let count = state.proofs.iter().filter(|at| (from + 1..=to).contains(at)).count();
            Rate { proofs: count as u64, seconds: to.saturating_sub(from) as f64 / 1e9 }
        };
        let earliest = record.began_ns.saturating_sub(BEFORE_NS);
        let first = state.proofs.iter().copied().find(|at| *at >= earliest).unwrap_or(u64::MAX);
        let before = (first < record.began_ns).then(|| proofs(first, record.began_ns));
        let end_ns = record.decided_ns.unwrap_or_else(|| self.clock.now_ns());
        SwitchReport {
            number: record.number,
            policy: record.library.name().to_owned(),
            phase: record.phase.clone(),
            decisions: record.decisions(),
            trial_decisions: self.trial_decisions,
            devices: record.devices.iter().map(|device| device.report.clone()).collect(),
            before: before.filter(|rate| rate.proofs > 0),
            during: record.resumed_ns.map(|resumed_ns| proofs(record.began_ns, resumed_ns)),
            after: record.resumed_ns.map(|resumed_ns| proofs(resumed_ns, end_ns.max(resumed_ns))),
        }
    }
}

/// Whether tasks are let in again, where any waited.
fn has_gone_on(times: SwapTimes) -> bool {
    times.waited == 0 || times.pause_ns.is_some()
}

impl Record {
    fn decisions(&self) -> u64 {
        self.devices.iter().map(|device| device.decisions).sum()
    }

    /// A later switch has begun.
    fn supersede(&mut self, by: &str, now_ns: u64) {
        if self.phase.is_final() {
            return;
        }
        self.phase = match std::mem::replace(&mut self.phase, SwitchPhase::Passed) {
            SwitchPhase::RollingBack { device, reason } => SwitchPhase::RolledBack { device, reason },
            _ => SwitchPhase::Superseded { by: by.to_owned() },
        };
        self.decided_ns = Some(now_ns);
    }
}
