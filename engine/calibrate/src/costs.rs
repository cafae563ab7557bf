//! What tasks cost, and the scenario that they make under some conditions.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use interlock_policy_api::Stage;
use interlock_settings::ByteSize;
use interlock_simulator::{
    Arrivals, CpuWork, Device, Distribution, Host, Kernels, Scenario, Synthesis, TaskClass, Time, TraceJob,
};
use interlock_timeline::{Activity, Timeline};

use crate::conditions::is_main;
use crate::fit::{ASSUMED, Fit, Observed, device_of};
use crate::{CalibrateError, Conditions, JobLoad};

/// Samples that a distribution keeps; of more, as many quantiles.
const MOST_SAMPLES: usize = 100;

/// What tasks cost: a run, freed from the conditions that it was made under.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// By staged and peak bytes.
    classes: BTreeMap<(u64, u64), TaskClass>,
    stage_cores: f64,
    kernels: Kernels,
    notes: Vec<Note>,
}

/// Something that whoever uses a fit should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Note {
    /// No task was staged: what Stage takes is counted as part of Compute.
    NeverStaged,
    /// Tasks were staged and none uploaded inside Compute: that this takes what Stage does is assumed.
    NeverInline,
    /// There never were kernels of two tasks at once on a device: that they share it at no cost is assumed.
    NeverTogether,
    /// Stages failed. They are left out: the scenario has no faults.
    Failures(usize),
    /// Tasks had not ended when the file did. What they did until then is left out.
    Unfinished(usize),
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NeverStaged => {
                f.write_str("no task was staged: what an upload takes is part of Compute, also for policies that stage ahead")
            }
            Self::NeverInline => f.write_str(
                "no task uploaded inside Compute: for policies that skip Stage, it is assumed that this takes what Stage does",
            ),
            Self::NeverTogether => f.write_str(
                "no two tasks were in Compute at once: for policies that let them, it is assumed that they share the device at no cost",
            ),
            Self::Failures(count) => write!(f, "{count} stages failed: the scenario has no faults"),
            Self::Unfinished(count) => write!(f, "{count} tasks had not ended: what they did is left out"),
        }
    }
}

impl Costs {
    /// Fits a run.
    ///
    /// # Errors
    /// The timeline does not tell enough, or no task got through.
    pub fn fit(timeline: &Timeline) -> Result<Self, CalibrateError> {
        let conditions = Conditions::of(timeline)?;
        let fit = Fit::of(timeline, conditions.processors, conditions.on_host);
        let sizes: HashMap<u64, (u64, u64)> =
            conditions.jobs.iter().map(|job| (job.job, size(job))).collect();
        let mut by_size: BTreeMap<(u64, u64), Vec<Observed>> = BTreeMap::new();
        for one in &fit.observed {
            let job = timeline.partitions[one.span.partition as usize].job;
            if let Some(size) = sizes.get(&job) {
                by_size.entry(*size).or_default().push(*one);
            }
        }
        let mut classes = BTreeMap::new();
        for job in &conditions.jobs {
            if let Entry::Vacant(vacant) = classes.entry(size(job)) {
                let observed = by_size.remove(&size(job)).unwrap_or_default();
                vacant.insert(class(job, timeline, &observed, fit.stage_cores)?);
            }
        }
        let notes = notes(timeline, &fit, conditions.on_host);
        Ok(Self { classes, stage_cores: fit.stage_cores, kernels: fit.kernels.unwrap_or(ASSUMED), notes })
    }

    /// What to know about it.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The scenario of tasks with these costs under some conditions.
    ///
    /// # Errors
    /// The conditions are of tasks that were not fitted, or what comes out is no scenario.
    pub fn scenario(&self, conditions: &Conditions) -> Result<Scenario, CalibrateError> {
        let cores = conditions.processors.map(|processors| processors as f64);
        let device = |vram: &u64| Device {
            count: 1,
            vram: ByteSize(*vram),
            copy_engines: 1,
            compute_engines: 1,
            kernels: self.kernels,
            host_cores: conditions.on_host.then_some(self.stage_cores.min(cores.unwrap_or(f64::INFINITY))),
        };
        let (classes, jobs) = self.work(conditions)?;
        let arrivals = match jobs.as_slice() {
            [only] => Arrivals::Closed { class: only.class.clone(), jobs: 1, in_flight: 1 },
            _ => Arrivals::Trace { jobs },
        };
        let scenario = Scenario {
            seed: 0,
            host: Host { cores, bandwidth: None },
            devices: conditions.devices.iter().map(device).collect(),
            workers: conditions.workers,
            synthesis: Synthesis { workers: conditions.synthesis_workers, ahead: None },
            classes,
            arrivals: vec![arrivals],
            faults: Vec::new(),
            limits: Default::default(),
        };
        scenario.check()?;
        Ok(scenario)
    }

    /// A class for each kind of job, and the jobs.
    fn work(&self, conditions: &Conditions) -> Result<(Vec<TaskClass>, Vec<TraceJob>), CalibrateError> {
        let mut classes: Vec<TaskClass> = Vec::new();
        let mut jobs = Vec::new();
        for job in &conditions.jobs {
            let (staged, peak) = size(job);
            let fitted = self.classes.get(&size(job));
            let fitted = fitted.ok_or(CalibrateError::OtherWork { job: job.job, staged, peak })?;
            let is_same = |class: &&TaskClass| {
                (class.staged, class.extra) == (fitted.staged, fitted.extra)
                    && (class.partitions, class.priority) == (job.partitions, job.priority)
            };
            let known = classes.iter().find(is_same).map(|class| class.name.clone());
            let name = known.unwrap_or_else(|| {
                let name = format!("class-{}", classes.len() + 1);
                let (partitions, priority) = (job.partitions, job.priority);
                classes.push(TaskClass { name: name.clone(), partitions, priority, ..fitted.clone() });
                name
            });
            jobs.push(TraceJob { at: Time(job.at_ns), class: name, name: None, after: Vec::new() });
        }
        Ok((classes, jobs))
    }
}

fn size(job: &JobLoad) -> (u64, u64) {
    (job.staged, job.peak)
}

fn class(
    job: &JobLoad,
    timeline: &Timeline,
    observed: &[Observed],
    stage_cores: f64,
) -> Result<TaskClass, CalibrateError> {
    let main = |one: &&Observed| device_of(&one.span).is_none_or(|device| is_main(timeline, device));
    let times = |activity: Activity, inline: bool| {
        let is = |one: &&Observed| one.span.activity == activity && one.span.inline == inline;
        samples(observed.iter().filter(main).filter(is).map(|one| one.work_ns).collect())
    };
    let cpu = |activity: Activity, cores: f64| {
        Some(CpuWork { time: times(activity, false)?, cores, bandwidth: ByteSize(0) })
    };
    let seen = |work: Option<CpuWork>, what: &'static str| work.ok_or(CalibrateError::NotSeen(what));
    let staged_compute = times(Activity::Run(Stage::COMPUTE), false);
    let inline_compute = times(Activity::Run(Stage::COMPUTE), true);
    let stage = times(Activity::Run(Stage::STAGE), false);
    let inline = staged_compute.as_ref().zip(inline_compute.as_ref());
    let inline = inline.map(|(staged, inline)| {
        // What an upload adds to Compute, in the mean.
        Distribution::Constant(Time((mean_ns(inline) - mean_ns(staged)).max(0.0).round() as u64))
    });
    Ok(TaskClass {
        name: String::new(),
        partitions: job.partitions,
        priority: job.priority,
        staged: ByteSize(job.staged),
        extra: ByteSize(job.peak - job.staged),
        actual: None,
        synthesis: cpu(Activity::Synthesis, 1.0),
        prepare: seen(cpu(Activity::Run(Stage::PREPARE), stage_cores), "Prepare")?,
        stage: stage.unwrap_or(Distribution::Constant(Time(0))),
        inline,
        compute: staged_compute.or(inline_compute).ok_or(CalibrateError::NotSeen("Compute"))?,
        finish: seen(cpu(Activity::Run(Stage::FINISH), 1.0), "Finish")?,
        verify: cpu(Activity::Verify, 1.0),
        fallback: None,
        device_wide: None,
    })
}

/// The measured times, or quantiles of them with the same mean.
fn samples(mut works: Vec<f64>) -> Option<Distribution> {
    works.sort_by(f64::total_cmp);
    let total: f64 = works.iter().sum();
    let mean = if works.is_empty() { return None } else { total / works.len() as f64 };
    if works.len() > MOST_SAMPLES {
        let of = |part: usize| works[(2 * part + 1) * works.len() / (2 * MOST_SAMPLES)];
        let quantiles: Vec<f64> = (0..MOST_SAMPLES).map(of).collect();
        let factor = mean * MOST_SAMPLES as f64 / quantiles.iter().sum::<f64>();
        works =
            quantiles.into_iter().map(|work| if factor.is_finite() { work * factor } else { work }).collect();
    }
    let times: Vec<Time> = works.iter().map(|work| Time(work.max(0.0).round() as u64)).collect();
    Some(match times.as_slice() {
        [first, rest @ ..] if rest.iter().all(|time| time == first) => Distribution::Constant(*first),
        _ => Distribution::Samples(times),
    })
}

fn mean_ns(distribution: &Distribution) -> f64 {
    match distribution {
        Distribution::Constant(time) => time.0 as f64,
        Distribution::Samples(times) => {
            times.iter().map(|time| time.0 as f64).sum::<f64>() / times.len() as f64
        }
        // `samples` makes no others.
        _ => 0.0,
    }
}

fn notes(timeline: &Timeline, fit: &Fit, on_host: bool) -> Vec<Note> {
    let staged = fit.observed.iter().any(|one| one.span.activity == Activity::Run(Stage::STAGE));
    let inline =
        fit.observed.iter().any(|one| one.span.activity == Activity::Run(Stage::COMPUTE) && one.span.inline);
    let failed = timeline.marks.iter();
    let failed = failed.filter(|mark| mark.kind == interlock_arbiter::TimelineKind::Failed).count();
    let unfinished = timeline.unfinished();
    [
        (!staged).then_some(Note::NeverStaged),
        (staged && !inline).then_some(Note::NeverInline),
        (!on_host && fit.kernels.is_none()).then_some(Note::NeverTogether),
        (failed > 0).then_some(Note::Failures(failed)),
        (unfinished > 0).then_some(Note::Unfinished(unfinished)),
    ]
    .into_iter()
    .flatten()
    .collect()
}
