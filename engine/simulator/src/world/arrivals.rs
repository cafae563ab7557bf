//! Jobs come: a source each for what is listed under `arrivals`.

use std::collections::HashMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::Exp1;

use super::task::{Doing, Task, Times};
use super::{Timer, World};
use crate::scenario::{Arrivals, Fault, Scenario, TraceJob};

/// All jobs that have come or will.
#[derive(Debug)]
pub(super) struct Sources {
    sources: Vec<Source>,
    /// Jobs that have come, by number, as long as a task of them is left.
    pub jobs: HashMap<u64, Job>,
    made: u64,
}

#[derive(Debug)]
enum Source {
    Closed { class: usize, left: u64, in_flight: u64 },
    Poisson { class: usize, left: u64, every_ns: u64, random: Box<ChaCha8Rng> },
    Trace(Trace),
}

#[derive(Debug)]
struct Trace {
    jobs: Vec<Waiting>,
    left: usize,
}

/// A job of a trace.
#[derive(Debug)]
struct Waiting {
    class: usize,
    at_ns: u64,
    /// Jobs it waits for.
    open: usize,
    /// Jobs that wait for it.
    before: Vec<u32>,
}

/// A job, as long as a task of it is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub came_ns: u64,
    pub tasks_left: u32,
    pub failed: bool,
    /// Its source, and its place there in a trace.
    origin: (u32, Option<u32>),
}

impl Sources {
    pub fn new(scenario: &Scenario) -> Self {
        let class_of = |name: &str| scenario.classes.iter().position(|class| class.name == name).unwrap_or(0);
        let source = |(index, arrivals): (usize, &Arrivals)| match arrivals {
            Arrivals::Closed { class, jobs, in_flight } => {
                Source::Closed { class: class_of(class), left: *jobs, in_flight: *in_flight }
            }
            Arrivals::Poisson { class, jobs, every } => {
                let mut random = Box::new(ChaCha8Rng::seed_from_u64(scenario.seed));
                // Tasks are numbered from zero: no stream is used twice.
                random.set_stream(u64::MAX - index as u64);
                Source::Poisson { class: class_of(class), left: *jobs, every_ns: every.0, random }
            }
            Arrivals::Trace { jobs } => Source::Trace(Trace::new(jobs, class_of)),
        };
        let sources = scenario.arrivals.iter().enumerate().map(source).collect();
        Self { sources, jobs: HashMap::new(), made: 0 }
    }

    /// Whether no job will come any more.
    pub fn are_dry(&self) -> bool {
        self.sources.iter().all(|source| match source {
            Source::Closed { left, .. } | Source::Poisson { left, .. } => *left == 0,
            Source::Trace(trace) => trace.left == 0,
        })
    }
}

impl Trace {
    fn new(jobs: &[TraceJob], class_of: impl Fn(&str) -> usize) -> Self {
        let named: HashMap<&str, usize> =
            jobs.iter().enumerate().filter_map(|(index, job)| Some((job.name.as_deref()?, index))).collect();
        let waiting = |job: &TraceJob| Waiting {
            class: class_of(&job.class),
            at_ns: job.at.0,
            open: job.after.len(),
            before: Vec::new(),
        };
        let mut trace = Self { jobs: jobs.iter().map(waiting).collect(), left: jobs.len() };
        for (index, job) in jobs.iter().enumerate() {
            for first in job.after.iter().filter_map(|name| named.get(name.as_str())) {
                trace.jobs[*first].before.push(index as u32);
            }
        }
        trace
    }
}

impl World<'_> {
    /// Everything that is known of the future when the world begins.
    pub(super) fn set_out(&mut self) {
        self.record_introduction();
        for fault in &self.scenario.faults {
            if let Fault::DeviceLoss { device, at } = fault {
                self.set_timer_at(at.0, Timer::DeviceLost { device: *device });
            }
        }
        for index in 0..self.sources.sources.len() {
            let source = index as u32;
            match &self.sources.sources[index] {
                Source::Closed { left, in_flight, .. } => {
                    for _ in 0..*(left.min(in_flight)) {
                        self.next_arrival(source);
                    }
                }
                Source::Poisson { .. } => self.next_gap(source),
                Source::Trace(trace) => {
                    let free = |(job, waiting): (usize, &Waiting)| {
                        (waiting.open == 0).then_some((job, waiting.at_ns))
                    };
                    let free: Vec<_> = trace.jobs.iter().enumerate().filter_map(free).collect();
                    for (job, at_ns) in free {
                        self.set_timer_at(at_ns, Timer::Traced { source, job: job as u32 });
                    }
                }
            }
        }
    }

    /// The next job of a source without a list comes.
    pub(super) fn next_arrival(&mut self, source: u32) {
        let class = match &mut self.sources.sources[source as usize] {
            Source::Closed { class, left, .. } | Source::Poisson { class, left, .. } => {
                *left -= 1;
                *class
            }
            Source::Trace(_) => return,
        };
        self.next_gap(source);
        self.job_comes(class, (source, None));
    }

    /// A job of a trace comes.
    pub(super) fn traced_arrival(&mut self, source: u32, job: u32) {
        let Source::Trace(trace) = &mut self.sources.sources[source as usize] else { return };
        trace.left -= 1;
        let class = trace.jobs[job as usize].class;
        self.job_comes(class, (source, Some(job)));
    }

    fn next_gap(&mut self, source: u32) {
        let Source::Poisson { left, every_ns, random, .. } = &mut self.sources.sources[source as usize]
        else {
            return;
        };
        if *left > 0 {
            let unit: f64 = random.sample(Exp1);
            let gap_ns = (unit * *every_ns as f64).round() as u64;
            self.set_timer(gap_ns, Timer::Arrival { source });
        }
    }

    fn job_comes(&mut self, class: usize, origin: (u32, Option<u32>)) {
        // Numbered from 1, as the engine does.
        self.sources.made += 1;
        let number = self.sources.made;
        let partitions = self.scenario.classes[class].partitions;
        let job = Job { came_ns: self.now_ns, tasks_left: partitions, failed: false, origin };
        self.sources.jobs.insert(number, job);
        self.record_submitted(number, class);
        self.alive += u64::from(partitions);
        for partition in 0..partitions {
            let times = self.times[class].draw(&self.random, self.tasks_made);
            self.tasks_made += 1;
            let slot = self.keep(fresh(number, partition, class, times));
            self.orders.push(self.scenario.classes[class].priority, slot);
        }
        self.synthesize();
    }

    fn keep(&mut self, mut task: Task) -> u32 {
        match self.free_slots.pop() {
            Some(slot) => {
                // What was begun for whoever had the place before means nothing to this one.
                task.attempt = self.tasks[slot as usize].attempt;
                self.tasks[slot as usize] = task;
                slot
            }
            None => {
                self.tasks.push(task);
                (self.tasks.len() - 1) as u32
            }
        }
    }

    /// A task has ended, well or not.
    pub(super) fn end(&mut self, slot: u32, proved: bool) {
        self.leave_device(slot);
        let task = &mut self.tasks[slot as usize];
        task.doing = Doing::Nothing;
        task.attempt += 1;
        let (number, begun_ns) = (task.job, task.begun_ns);
        self.free_slots.push(slot);
        self.alive -= 1;
        self.tally.task_ended(self.now_ns - begun_ns, proved);
        let Some(job) = self.sources.jobs.get_mut(&number) else { return };
        job.tasks_left -= 1;
        job.failed |= !proved;
        if job.tasks_left == 0 {
            let job = *job;
            self.sources.jobs.remove(&number);
            self.tally.job_ended(self.now_ns, self.now_ns - job.came_ns, !job.failed);
            self.after_job(job.origin);
        }
    }

    /// What comes because a job has ended.
    fn after_job(&mut self, (source, place): (u32, Option<u32>)) {
        match (&mut self.sources.sources[source as usize], place) {
            (Source::Closed { left, .. }, _) if *left > 0 => self.next_arrival(source),
            (Source::Trace(trace), Some(place)) => {
                let mut free = Vec::new();
                for next in std::mem::take(&mut trace.jobs[place as usize].before) {
                    let waiting = &mut trace.jobs[next as usize];
                    waiting.open -= 1;
                    if waiting.open == 0 {
                        free.push((next, waiting.at_ns));
                    }
                }
                for (job, at_ns) in free {
                    self.set_timer_at(at_ns.max(self.now_ns), Timer::Traced { source, job });
                }
            }
            _ => {}
        }
    }
}

fn fresh(job: u64, partition: u32, class: usize, times: Times) -> Task {
    Task {
        job,
        partition,
        class,
        times,
        begun_ns: 0,
        has_place: false,
        attempt: 0,
        failed: 0,
        losses: 0,
        tries: 0,
        id: 0,
        device: 0,
        placed_on: None,
        worker: 0,
        doing: Doing::Nothing,
        since_ns: 0,
        inline: false,
        computed: false,
        taken_bytes: 0,
    }
}
