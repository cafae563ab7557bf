//! On what a run was made, and what came to it.

use interlock_timeline::Timeline;

use crate::CalibrateError;

/// The core whose devices are the host itself.
const CPU_CORE: &str = "cpu";

/// On what a run was made, and what came to it: all that a scenario has besides the costs of its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Processors of the machine; `None` where there are always enough, as a simulated machine may have.
    pub processors: Option<u64>,
    /// Bytes of each device of the main core.
    pub devices: Vec<u64>,
    /// Whether these devices are the host itself.
    pub on_host: bool,
    /// Device workers of each.
    pub workers: u32,
    /// Synthesis workers.
    pub synthesis_workers: u32,
    /// The policy that the devices began with.
    pub policy: Option<String>,
    /// The jobs, in the order in which they came.
    pub jobs: Vec<JobLoad>,
}

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLoad {
    /// Its number in the timeline.
    pub job: u64,
    /// When it came, after the first.
    pub at_ns: u64,
    /// Its tasks.
    pub partitions: u32,
    /// Bytes that each stages.
    pub staged: u64,
    /// The most bytes that each holds.
    pub peak: u64,
    /// Its priority.
    pub priority: i32,
}

impl Conditions {
    /// The conditions of a run.
    ///
    /// # Errors
    /// The timeline does not tell them.
    pub fn of(timeline: &Timeline) -> Result<Self, CalibrateError> {
        let told = |count: Option<u64>, what: &'static str| count.ok_or(CalibrateError::NotTold(what));
        let main: Vec<_> = main_devices(timeline).collect();
        let first = main.first().ok_or(CalibrateError::NotTold("the devices"))?;
        let bytes = main.iter().map(|device| told(device.capacity_bytes, "the memory of the devices"));
        let on_host = first.core == CPU_CORE;
        if on_host {
            told(timeline.processors, "how many processors the machine has")?;
        }
        let engine = timeline.engine.as_ref().map(|engine| engine.synthesis_workers);
        let conditions = Self {
            processors: timeline.processors,
            devices: bytes.collect::<Result<_, _>>()?,
            on_host,
            workers: number("device workers", told(first.workers, "how many device workers there were")?)?,
            synthesis_workers: number(
                "synthesis workers",
                told(engine, "how many synthesis workers there were")?,
            )?,
            policy: first.policy.clone(),
            jobs: jobs(timeline)?,
        };
        Ok(conditions)
    }
}

/// The devices of the main core: the core of the first one. Those of the core that stands by come after them.
fn main_devices(timeline: &Timeline) -> impl Iterator<Item = &interlock_timeline::Device> {
    let core = timeline.devices.first().map(|device| device.core.as_str());
    timeline.devices.iter().take_while(move |device| Some(device.core.as_str()) == core)
}

/// Whether a device belongs to the main core.
pub(crate) fn is_main(timeline: &Timeline, device: u32) -> bool {
    main_devices(timeline).any(|main| main.index == device)
}

fn jobs(timeline: &Timeline) -> Result<Vec<JobLoad>, CalibrateError> {
    let first_ns = timeline.jobs.iter().map(|job| job.submitted_ns).min();
    let first_ns = first_ns.ok_or(CalibrateError::NotTold("when jobs were submitted"))?;
    let load = |job: &interlock_timeline::Job| {
        let told = |bytes: Option<u64>| bytes.ok_or(CalibrateError::NotTold("the bytes that a task needs"));
        let staged = told(job.staged_bytes)?;
        Ok(JobLoad {
            job: job.job,
            at_ns: job.submitted_ns - first_ns,
            partitions: number("partitions", job.partitions)?,
            staged,
            peak: told(job.peak_bytes)?.max(staged),
            priority: job.priority,
        })
    };
    let mut jobs = timeline.jobs.iter().map(load).collect::<Result<Vec<_>, CalibrateError>>()?;
    jobs.sort_by_key(|job| job.at_ns);
    Ok(jobs)
}

fn number(what: &'static str, count: u64) -> Result<u32, CalibrateError> {
    u32::try_from(count).map_err(|_| CalibrateError::TooMany { what, count })
}
