//! Tasks on their way: what each takes, where it is.

use interlock_policy_api::Stage;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Distribution;
use crate::scenario::{CpuWork, Fault, Scenario, TaskClass};

/// A task on a device: its place among all tasks, and which of its attempts it is. What was begun for an earlier attempt means
/// nothing to a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub slot: u32,
    pub number: u32,
}

/// A partition from its job's arrival to its end.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub job: u64,
    pub partition: u32,
    pub class: usize,
    pub times: Times,
    /// When its synthesis began.
    pub begun_ns: u64,
    /// It waits in the line of new witnesses.
    pub has_place: bool,
    /// Which attempt this is, over all devices.
    pub attempt: u32,
    /// Attempts that failed and not because a device was lost.
    pub failed: u32,
    /// Attempts that failed because a device was lost.
    pub losses: u32,
    /// Attempts since a worker took it.
    pub tries: u32,
    /// The id of the attempt for arbiter and policy.
    pub id: u64,
    pub device: u32,
    /// The device that it was sent to, until it ends or goes elsewhere.
    pub placed_on: Option<u32>,
    pub worker: u32,
    pub doing: Doing,
    /// When the stage it is in began.
    pub since_ns: u64,
    /// Its Compute uploads first.
    pub inline: bool,
    /// Its Compute is over.
    pub computed: bool,
    /// Device bytes that it takes in truth.
    pub taken_bytes: u64,
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Not on a device.
    Nothing,
    /// It stands at a gate.
    AtGate,
    Prepare,
    /// The device-wide call inside Stage.
    StageCall,
    StageUpload,
    /// The device-wide call before an upload inside Compute.
    InlineCall,
    InlineUpload,
    Kernels,
    /// The device-wide call after the kernels.
    FreeCall,
    Finish,
    Verify,
}

impl Doing {
    /// The stage it is in.
    pub fn stage(self) -> Option<Stage> {
        match self {
            Self::Nothing | Self::AtGate | Self::Verify => None,
            Self::Prepare => Some(Stage::PREPARE),
            Self::StageCall | Self::StageUpload => Some(Stage::STAGE),
            Self::InlineCall | Self::InlineUpload | Self::Kernels | Self::FreeCall => Some(Stage::COMPUTE),
            Self::Finish => Some(Stage::FINISH),
        }
    }

    /// Whether the device does something for it, or is asked to.
    pub fn needs_device(self) -> bool {
        matches!(self.stage(), Some(Stage::STAGE | Stage::COMPUTE))
    }
}

/// How long everything takes that a task does, in nanoseconds. Drawn when its job arrives, so that it is the same under every policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub synthesis: u64,
    pub prepare: u64,
    pub stage: u64,
    pub inline: u64,
    pub compute: u64,
    pub finish: u64,
    pub verify: u64,
    pub fallback: u64,
}

/// Draws the times of the tasks of one class.
#[derive(Clone, Debug)]
pub(super) struct TimesOf<'a> {
    class: &'a TaskClass,
    /// Where nothing is left to chance.
    constant: Option<Times>,
    /// Probability and factor.
    slow: Vec<(f64, f64)>,
}

impl<'a> TimesOf<'a> {
    pub fn new(class: &'a TaskClass, scenario: &'a Scenario) -> Self {
        let slow_of = |fault: &Fault| match fault {
            Fault::SlowTask { class: of, probability, factor } if *of == class.name => {
                Some((*probability, *factor))
            }
            _ => None,
        };
        let slow: Vec<_> = scenario.faults.iter().filter_map(slow_of).collect();
        let mut times = Self { class, constant: None, slow };
        let cpu = class.cpu_work().all(|(_, work)| work.time.is_constant());
        let device = [Some(&class.stage), class.inline.as_ref(), Some(&class.compute)];
        if times.slow.is_empty() && cpu && device.into_iter().flatten().all(Distribution::is_constant) {
            times.constant = Some(times.drawn(&mut ChaCha8Rng::seed_from_u64(0)));
        }
        times
    }

    /// The times of the task with this number among all tasks.
    pub fn draw(&self, random: &ChaCha8Rng, number: u64) -> Times {
        if let Some(times) = self.constant {
            return times;
        }
        let mut random = random.clone();
        random.set_stream(number);
        self.drawn(&mut random)
    }

    fn drawn(&self, random: &mut ChaCha8Rng) -> Times {
        let class = self.class;
        let factor: f64 = self
            .slow
            .iter()
            .map(|(probability, factor)| if random.gen_bool(*probability) { *factor } else { 1.0 })
            .product();
        let mut draw = |from: &Distribution| {
            let drawn = from.draw(random);
            if factor == 1.0 { drawn } else { (drawn as f64 * factor).round() as u64 }
        };
        let mut cpu = |work: Option<&CpuWork>| work.map_or(0, |work| draw(&work.time));
        let (synthesis, prepare, finish) =
            (cpu(class.synthesis.as_ref()), cpu(Some(&class.prepare)), cpu(Some(&class.finish)));
        let (verify, fallback) = (cpu(class.verify.as_ref()), cpu(class.fallback.as_ref()));
        let stage = draw(&class.stage);
        let inline = class.inline.as_ref().map_or(stage, &mut draw);
        Times { synthesis, prepare, stage, inline, compute: draw(&class.compute), finish, verify, fallback }
    }
}

/// A queue in which higher priority goes first, and arrival decides among equals.
#[derive(Debug, Default)]
pub(super) struct Line {
    tasks: std::collections::BinaryHeap<(i32, std::cmp::Reverse<u64>, u32)>,
    added: u64,
}

impl Line {
    pub fn push(&mut self, priority: i32, slot: u32) {
        self.tasks.push((priority, std::cmp::Reverse(self.added), slot));
        self.added += 1;
    }

    pub fn pop(&mut self) -> Option<u32> {
        self.tasks.pop().map(|(_, _, slot)| slot)
    }

    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}
