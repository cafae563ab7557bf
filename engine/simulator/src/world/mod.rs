//! The simulated world: one clock, everything that happens on it, and the arbiter of production in the middle.
//!
//! ```text
//! arrivals -> [orders] -> synthesis -> [a queue for each device] -> device workers -> ends
//!                                                                     |        ^
//!                                                       event: arrived, ended  | command: run
//!                                                                     v        |
//!                                                               seat (arbiter + policy)
//! ```
//!
//! It is the engine's pipeline with the threads taken out: the same queues, the same retries, the same ways when a device is lost. The next
//! thing to happen is the earliest of: what is in the heap of timers, the CPU work that ends next, the kernels that end next on each
//! device, and the deadlines of the arbiters. At equal times that is also the order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use interlock_arbiter::{Command, Event, Outcome, PolicySource, Recorder};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::figures::Tally;
use crate::scenario::Scenario;
use crate::{PolicyFigures, SimulateError};

mod arrivals;
mod device;
mod figures;
mod host;
mod record;
mod routing;
mod seat;
mod sharing;
mod stages;
mod task;
mod worker;

use arrivals::Sources;
use device::{Kind, Operation};
use host::Processor;
use seat::{AtWork, Seat};
use task::{Attempt, Doing, Line, Task, TimesOf};

/// No run goes on for longer, in nanoseconds: half of what a clock can show.
const LONGEST_NS: u64 = u64::MAX / 2;

/// Events from one word about the progress of a run to the next: also with a thousand devices, less than a second.
const WATCHED_EVENTS: u64 = 1 << 12;

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The figures.
    pub figures: PolicyFigures,
    /// Things that happened: each end of something, each arrival, each time an arbiter was woken.
    pub events: u64,
}

/// Runs a scenario under a policy.
///
/// `fallback` takes the seat of a policy that is quarantined; `recorder` is told everything that happens, as an engine's is, with virtual
/// times. The same arguments give the same figures and the same timeline.
///
/// # Errors
/// The scenario does not pass [`Scenario::check`], a policy makes no instance, or the run gets too long for a clock.
pub fn simulate(
    scenario: &Scenario,
    policy: &dyn PolicySource,
    fallback: &dyn PolicySource,
    recorder: Option<&dyn Recorder>,
) -> Result<Simulated, SimulateError> {
    simulate_watched(scenario, policy, fallback, recorder, &mut |_| {})
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Things that happened.
    pub events: u64,
    /// Virtual time, in nanoseconds.
    pub now_ns: u64,
    /// Partitions that have come and have not ended.
    pub partitions_left: u64,
}

/// As [`simulate`], and tells `watch` every few thousand events how far it has come: for runs that take long. What it is told changes nothing.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_watched(
    scenario: &Scenario,
    policy: &dyn PolicySource,
    fallback: &dyn PolicySource,
    recorder: Option<&dyn Recorder>,
    watch: &mut dyn FnMut(Progress),
) -> Result<Simulated, SimulateError> {
    scenario.check()?;
    let mut world = World::new(scenario, policy, fallback, recorder)?;
    world.run(watch)?;
    Ok(Simulated { events: world.events, figures: world.figures(policy.name()) })
}

/// Something that ends at a time that is known when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The next job of a source comes.
    Arrival { source: u32 },
    /// A job of a trace comes.
    Traced { source: u32, job: u32 },
    /// An upload or a device-wide call ends.
    Operation { device: u32, upload: bool, slot: u32, attempt: u32 },
    /// A device is lost.
    DeviceLost { device: u32 },
}

/// CPU work that goes on.
#[derive(Clone, Copy, Debug)]
enum CpuTask {
    Synthesis {
        slot: u32,
        worker: u32,
    },
    Stage(Attempt),
    /// An upload or kernels, on a device that is the host itself.
    OnHost {
        device: u32,
        kind: Kind,
        attempt: Attempt,
    },
    Fallback {
        slot: u32,
    },
    FallbackVerify {
        slot: u32,
    },
}

/// What is still to be done at this moment.
#[derive(Debug)]
enum Next {
    /// The arbiter of a device hears of something.
    Feed { device: u32, event: Event },
    /// A task comes to the device of its worker, as a new attempt.
    Arrive { slot: u32 },
}

struct World<'a> {
    scenario: &'a Scenario,
    fallback: &'a dyn PolicySource,
    recorder: Option<&'a dyn Recorder>,
    times: Vec<TimesOf<'a>>,
    random: ChaCha8Rng,
    /// For what goes wrong, apart from the times.
    chance: ChaCha8Rng,
    now_ns: u64,
    timers: BinaryHeap<Reverse<(u64, u64, Timer)>>,
    timers_set: u64,
    events: u64,
    processor: Processor<CpuTask>,
    seats: Vec<Seat>,
    sources: Sources,
    tasks: Vec<Task>,
    free_slots: Vec<u32>,
    tasks_made: u64,
    ids: u64,
    /// Tasks that have not ended.
    alive: u64,
    /// Tasks whose witness is to be made.
    orders: Line,
    idle_synthesis: Vec<u32>,
    /// Orders are being handed out: whoever frees a place meanwhile need not do it too.
    synthesizing: bool,
    places: u32,
    fallback_queue: Line,
    fallback_busy: bool,
    next: VecDeque<Next>,
    begun: Vec<Operation>,
    tally: Tally,
}

impl<'a> World<'a> {
    fn new(
        scenario: &'a Scenario,
        policy: &dyn PolicySource,
        fallback: &'a dyn PolicySource,
        recorder: Option<&'a dyn Recorder>,
    ) -> Result<Self, SimulateError> {
        let mut seats = Vec::new();
        for device in &scenario.devices {
            for _ in 0..device.count {
                let index = seats.len() as u32;
                seats.push(Seat::new(index, device, scenario.workers, scenario.limits, policy)?);
            }
        }
        let synthesis = &scenario.synthesis;
        let places = synthesis.ahead.unwrap_or(seats.len() as u32 * scenario.workers + synthesis.workers);
        Ok(Self {
            scenario,
            fallback,
            recorder,
            times: scenario.classes.iter().map(|class| TimesOf::new(class, scenario)).collect(),
            random: ChaCha8Rng::seed_from_u64(scenario.seed),
            chance: ChaCha8Rng::seed_from_u64(!scenario.seed),
            now_ns: 0,
            timers: BinaryHeap::new(),
            timers_set: 0,
            events: 0,
            processor: Processor::new(&scenario.host),
            seats,
            sources: Sources::new(scenario),
            tasks: Vec::new(),
            free_slots: Vec::new(),
            tasks_made: 0,
            ids: 0,
            alive: 0,
            orders: Line::default(),
            idle_synthesis: (0..synthesis.workers).rev().collect(),
            synthesizing: false,
            places,
            fallback_queue: Line::default(),
            fallback_busy: false,
            next: VecDeque::new(),
            begun: Vec::new(),
            tally: Tally::default(),
        })
    }

    fn run(&mut self, watch: &mut dyn FnMut(Progress)) -> Result<(), SimulateError> {
        self.set_out();
        self.settle()?;
        while self.alive > 0 || !self.sources.are_dry() {
            let Some((at_ns, what)) = self.earliest() else {
                return Err(SimulateError::Stuck { tasks: self.alive });
            };
            if at_ns > LONGEST_NS {
                return Err(SimulateError::TooLong);
            }
            self.now_ns = self.now_ns.max(at_ns);
            self.events += 1;
            if self.events.is_multiple_of(WATCHED_EVENTS) {
                watch(Progress { events: self.events, now_ns: self.now_ns, partitions_left: self.alive });
            }
            self.happen(what);
            self.settle()?;
        }
        Ok(())
    }

    /// What happens next, and when.
    fn earliest(&self) -> Option<(u64, What)> {
        let mut best = self.timers.peek().map(|Reverse((at_ns, ..))| (*at_ns, What::Timer));
        let mut offer = |at_ns: Option<u64>, what: What| {
            if let Some(at_ns) = at_ns
                && best.is_none_or(|(best_ns, _)| at_ns < best_ns)
            {
                best = Some((at_ns, what));
            }
        };
        offer(self.processor.next_ns(), What::Processor);
        for (index, seat) in self.seats.iter().enumerate() {
            offer(seat.engines.next_ns(), What::Kernels(index));
        }
        for (index, seat) in self.seats.iter().enumerate() {
            offer(seat.deadline_ns, What::Deadline(index));
        }
        best
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Timer => {
                if let Some(Reverse((_, _, timer))) = self.timers.pop() {
                    self.ring(timer);
                }
            }
            What::Processor => {
                if let Some(done) = self.processor.take(self.now_ns) {
                    self.cpu_done(done);
                }
            }
            What::Kernels(index) => {
                let seat = &mut self.seats[index];
                let ended = seat.engines.kernels_ended(self.now_ns, &mut self.begun);
                self.operations_begun(index as u32);
                ended.into_iter().for_each(|attempt| self.kernels_ended(attempt));
            }
            What::Deadline(index) => self.feed(index as u32, Event::Tick),
        }
    }

    fn ring(&mut self, timer: Timer) {
        match timer {
            Timer::Arrival { source } => self.next_arrival(source),
            Timer::Traced { source, job } => self.traced_arrival(source, job),
            Timer::Operation { device, upload, slot, attempt } => {
                let seat = &mut self.seats[device as usize];
                if seat.lost {
                    // It was given up when the device was lost.
                    return;
                }
                if upload {
                    seat.engines.upload_ended(self.now_ns, &mut self.begun);
                } else {
                    seat.engines.call_ended(self.now_ns, &mut self.begun);
                }
                self.operations_begun(device);
                self.operation_ended(Attempt { slot, number: attempt });
            }
            Timer::DeviceLost { device } => self.lose(device),
        }
    }

    fn cpu_done(&mut self, done: CpuTask) {
        match done {
            CpuTask::Synthesis { slot, worker } => self.synthesized(slot, worker),
            CpuTask::Stage(attempt) => self.cpu_stage_ended(attempt),
            CpuTask::OnHost { device, kind, attempt } => self.on_host_ended(device, kind, attempt),
            CpuTask::Fallback { slot } => self.fallback_ended(slot),
            CpuTask::FallbackVerify { slot } => self.fallback_verified(slot),
        }
    }

    /// Does everything that is to be done at this moment.
    fn settle(&mut self) -> Result<(), SimulateError> {
        while let Some(next) = self.next.pop_front() {
            match next {
                Next::Feed { device, event } => self.step(device, event)?,
                Next::Arrive { slot } => {
                    let (device, event) = self.arrival(slot);
                    self.step(device, event)?;
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, device: u32, event: Event) -> Result<(), SimulateError> {
        let commands = self.seats[device as usize].step(self.now_ns, event, self.fallback)?;
        for command in commands {
            self.carry_out(device, command);
        }
        if self.seats[device as usize].lost {
            self.leave_gates(device);
        }
        Ok(())
    }

    fn carry_out(&mut self, device: u32, command: Command) {
        self.record_command(device, &command);
        match command {
            Command::Run { task, stage, inline, locks, waited_ns, .. } => {
                let seat = &mut self.seats[device as usize];
                self.tally.waited(stage, waited_ns, !locks.is_empty());
                for lock in locks {
                    *seat.lock_wait_ns.entry(lock).or_default() += waited_ns;
                }
                if let Some((AtWork { id, slot, .. }, _)) = seat.task(task.0) {
                    if self.tasks[slot as usize].id == id && self.tasks[slot as usize].doing == Doing::AtGate
                    {
                        self.enter(slot, stage, inline);
                    } else {
                        // It left a lost device before the arbiter heard of it.
                        self.feed(device, Event::StageEnded { task, outcome: Outcome::Failed });
                    }
                }
            }
            Command::Left { task } => {
                let seat = &mut self.seats[device as usize];
                if let Some((_, worker)) = seat.task(task.0) {
                    seat.at_work[worker as usize] = None;
                }
            }
            // Counted by the arbiter and the seat, or only to be written down. After a drain the seat has another policy by now.
            Command::Skipped { .. }
            | Command::Freed { .. }
            | Command::Refused { .. }
            | Command::Slow { .. }
            | Command::Quarantined(_)
            | Command::Drained => {}
        }
    }

    fn feed(&mut self, device: u32, event: Event) {
        self.next.push_back(Next::Feed { device, event });
    }

    fn set_timer(&mut self, after_ns: u64, timer: Timer) {
        self.set_timer_at(self.now_ns.saturating_add(after_ns), timer);
    }

    fn set_timer_at(&mut self, at_ns: u64, timer: Timer) {
        self.timers.push(Reverse((at_ns, self.timers_set, timer)));
        self.timers_set += 1;
    }

    fn task(&mut self, slot: u32) -> &mut Task {
        &mut self.tasks[slot as usize]
    }

    fn priority(&self, slot: u32) -> i32 {
        self.scenario.classes[self.tasks[slot as usize].class].priority
    }

    /// The task of an attempt, unless that attempt is over.
    fn current(&self, attempt: Attempt) -> Option<&Task> {
        let task = &self.tasks[attempt.slot as usize];
        (task.attempt == attempt.number && task.doing != Doing::Nothing).then_some(task)
    }
}

/// Where the next thing that happens comes from.
#[derive(Clone, Copy, Debug)]
enum What {
    Timer,
    Processor,
    Kernels(usize),
    Deadline(usize),
}
