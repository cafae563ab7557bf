//! Scenarios: a machine, what runs on it, what arrives and what goes wrong.

use interlock_settings::ByteSize;
use serde::{Deserialize, Serialize};

use crate::Distribution;

mod check;
mod error;
mod read;
mod time;

pub use check::{MAX_DEVICES, MAX_PARTITIONS, MAX_WORKERS};
pub use error::{MOST_SCENARIO_BYTES, ScenarioError, ScenarioFault};
pub use time::{Time, TimeError};

/// Everything a simulation is made from. [`Scenario::parse`] reads one, and `README.md` of this crate describes each field for people
/// who write them; one that a program puts together is checked by [`Scenario::check`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What all random numbers come from.
    #[serde(default)]
    pub seed: u64,
    /// The processor that CPU stages share.
    #[serde(default)]
    pub host: Host,
    /// The devices: at least one.
    pub devices: Vec<Device>,
    /// Device workers of each device: tasks that may be between its gates at once.
    #[serde(default = "two")]
    pub workers: u32,
    /// Who makes witnesses.
    #[serde(default)]
    pub synthesis: Synthesis,
    /// The kinds of task: at least one.
    pub classes: Vec<TaskClass>,
    /// What arrives.
    pub arrivals: Vec<Arrivals>,
    /// What goes wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// When a policy is taken out of its seat.
    #[serde(default)]
    pub limits: Limits,
}

fn two() -> u32 {
    2
}

fn one() -> u32 {
    1
}

/// The processor that CPU stages share. Where more is asked for than there is, all who share slow down by the same factor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Cores. Left out: as many as are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// Bytes of memory that can be moved in a second. Left out: as many as are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<ByteSize>,
}

/// A device, or several of one make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// How many there are.
    #[serde(default = "one")]
    pub count: u32,
    /// Its memory.
    pub vram: ByteSize,
    /// Uploads that may run at once; others wait for their turn.
    #[serde(default = "one")]
    pub copy_engines: u32,
    /// Tasks whose kernels may run at once without slowing each other.
    #[serde(default = "one")]
    pub compute_engines: u32,
    /// What becomes of more.
    #[serde(default)]
    pub kernels: Kernels,
    /// The device is the host itself, as that of the CPU core is: uploads and kernels are work of its processor, each for so many
    /// cores. Left out: it has engines of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_cores: Option<f64>,
}

/// What becomes of the kernels of more tasks than a device has compute engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Kernels {
    /// They wait for an engine, first come first served.
    #[default]
    Alone,
    /// They run at once and share the engines.
    Shared {
        /// The work they get done together, in that of engines with a task each. 1.0: sharing costs nothing and gains nothing;
        /// less: they hinder each other; more: they fill each other's gaps.
        throughput: f64,
    },
}

/// Who makes witnesses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Synthesis {
    /// How many are made at once.
    pub workers: u32,
    /// Witnesses that may be made or wait, in all, before a device worker takes one. Left out: as many as the engine has, all device
    /// workers and synthesis workers together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u32>,
}

impl Default for Synthesis {
    fn default() -> Self {
        Self { workers: 1, ahead: None }
    }
}

/// A kind of task: a job is one or several of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskClass {
    /// What it is called.
    pub name: String,
    /// Tasks of a job.
    #[serde(default = "one")]
    pub partitions: u32,
    /// Priority of the job: higher goes first.
    #[serde(default)]
    pub priority: i32,
    /// Device bytes that a task plans from Stage to Compute.
    pub staged: ByteSize,
    /// Device bytes that its Compute plans on top.
    #[serde(default = "no_bytes")]
    pub extra: ByteSize,
    /// What it takes in truth, where that is not what it plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<Bytes>,
    /// Making the witness, before it is ready for a device. Left out: none is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthesis: Option<CpuWork>,
    /// The stage Prepare.
    pub prepare: CpuWork,
    /// The upload of Stage.
    pub stage: Distribution,
    /// The upload inside Compute, of a task that was not staged. Left out: as in Stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<Distribution>,
    /// The kernels of Compute.
    pub compute: Distribution,
    /// The stage Finish.
    pub finish: CpuWork,
    /// Verifying the proof, by the device worker. Left out: it is not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<CpuWork>,
    /// All of it on the CPU core, by one worker, after it failed twice. Left out: it fails for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<CpuWork>,
    /// Calls that act on the whole device. Left out: none is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_wide: Option<DeviceWide>,
}

fn no_bytes() -> ByteSize {
    ByteSize(0)
}

/// Device bytes of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bytes {
    /// From Stage to Compute.
    pub staged: ByteSize,
    /// On top, in Compute.
    pub extra: ByteSize,
}

/// Work of the host's processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuWork {
    /// How long it takes with all it asks for.
    pub time: Distribution,
    /// Cores it uses then.
    #[serde(default = "one_core", skip_serializing_if = "is_one_core")]
    pub cores: f64,
    /// Bytes of memory it moves in a second then.
    #[serde(default = "no_bytes", skip_serializing_if = "is_no_bytes")]
    pub bandwidth: ByteSize,
}

fn one_core() -> f64 {
    1.0
}

fn is_one_core(cores: &f64) -> bool {
    *cores == 1.0
}

fn is_no_bytes(bytes: &ByteSize) -> bool {
    bytes.0 == 0
}

impl CpuWork {
    /// Work that takes always the same time, on one core.
    pub fn constant(time: Time) -> CpuWork {
        CpuWork { time: Distribution::Constant(time), cores: 1.0, bandwidth: ByteSize(0) }
    }
}

/// Calls that end only when all uploads and kernels have ended that the device has at that moment, and that hold back new ones until
/// then: `cudaDeviceSynchronize`, `cudaMalloc`, `cudaFree`, trims of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceWide {
    /// Where a task makes one.
    pub at: Vec<CallSite>,
    /// How long the call takes once the device is still.
    #[serde(default)]
    pub time: Time,
}

/// Where a task makes a device-wide call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallSite {
    /// Inside Stage, before the upload.
    Stage,
    /// Inside Compute, before the upload of a task that was not staged.
    Inline,
    /// Inside Compute, after the kernels.
    Free,
}

/// Where jobs come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Arrivals {
    /// So many are in flight at any time, until all have arrived: the next one comes when one has ended.
    Closed {
        /// Name of the class.
        class: String,
        /// How many in all.
        jobs: u64,
        /// How many at once.
        in_flight: u64,
    },
    /// They come at random, independent of each other.
    Poisson {
        /// Name of the class.
        class: String,
        /// How many in all.
        jobs: u64,
        /// The mean time from one to the next.
        every: Time,
    },
    /// They come as listed.
    Trace {
        /// In the order of their times.
        jobs: Vec<TraceJob>,
    },
}

/// One job of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceJob {
    /// When it comes.
    pub at: Time,
    /// Name of the class.
    pub class: String,
    /// What others of the trace call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Those that it waits for, if they have not ended by then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Fault {
    /// The memory of a task cannot be had, although it was reserved.
    AllocationFailure {
        /// Name of the class.
        class: String,
        /// Of each try, from 0 to 1.
        probability: f64,
    },
    /// A task takes longer in all its stages.
    SlowTask {
        /// Name of the class.
        class: String,
        /// Of each task, from 0 to 1.
        probability: f64,
        /// How many times as long.
        factor: f64,
    },
    /// A device is lost: its uploads and kernels fail, and no task may use it any more.
    DeviceLoss {
        /// Index of the device, all devices counted.
        device: u32,
        /// When.
        at: Time,
    },
}

/// When a policy is taken out of its seat: as `limits` of `plugins.ron`. No call of a policy is ever slow here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Refused verdicts in a row about one task.
    pub refusals: u32,
    /// How long the device may stand idle while tasks wait, or a task may wait that could be let in.
    pub stall: Time,
    /// How long a task may wait before later ones may not pass it any more.
    pub starve: Time,
}

impl Default for Limits {
    fn default() -> Self {
        let interlock_arbiter::Limits { refusals, stall_ns, starve_ns, .. } =
            interlock_arbiter::Limits::DEFAULT;
        Self { refusals, stall: Time(stall_ns), starve: Time(starve_ns) }
    }
}

impl From<Limits> for interlock_arbiter::Limits {
    fn from(limits: Limits) -> Self {
        Self {
            refusals: limits.refusals,
            stall_ns: limits.stall.0,
            starve_ns: limits.starve.0,
            ..Self::DEFAULT
        }
    }
}

impl TaskClass {
    /// What a task takes in truth.
    pub fn actual(&self) -> Bytes {
        self.actual.unwrap_or(Bytes { staged: self.staged, extra: self.extra })
    }

    /// The most bytes a task plans; [`Scenario::check`] refuses what does not fit into a `u64`.
    pub fn peak_bytes(&self) -> u64 {
        self.staged.0.saturating_add(self.extra.0)
    }

    /// All work of the host's processor that a task may need, by the name of its field.
    pub fn cpu_work(&self) -> impl Iterator<Item = (&'static str, &CpuWork)> {
        [
            self.synthesis.as_ref().map(|work| ("synthesis", work)),
            Some(("prepare", &self.prepare)),
            Some(("finish", &self.finish)),
            self.verify.as_ref().map(|work| ("verify", work)),
            self.fallback.as_ref().map(|work| ("fallback", work)),
        ]
        .into_iter()
        .flatten()
    }
}

impl Arrivals {
    /// How many jobs.
    pub fn jobs(&self) -> u64 {
        match self {
            Self::Closed { jobs, .. } | Self::Poisson { jobs, .. } => *jobs,
            Self::Trace { jobs } => jobs.len() as u64,
        }
    }
}
