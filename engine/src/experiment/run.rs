//! One run of one arm: an engine from its start to its end.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use interlock_timeline::Timeline;
use interlock_timeline::figures::{DeviceFigures, Figures, LockFigures};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::arm::{Arm, Common};
use super::energy::{Energy, Meter};
use super::load::{Jobs, Load, LoadError, Until, drive};
use super::machine::ResidentPeak;
use crate::interlock::{Recorder, TimelineEvent};
use crate::pipeline::{DeviceReport, Engine, EngineError};

/// What one run came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunFigures {
    /// Seconds that were measured.
    pub seconds: f64,
    /// Proofs that came in them.
    pub proofs: u64,
    /// Proofs per second.
    pub proofs_per_s: f64,
    /// Seconds from when a job came to its last proof, of each job that was measured, shortest first.
    pub latencies_s: Vec<f64>,
    /// Share of the window in which some task was in Compute, on average over the devices of the arm's core.
    pub device_busy: f64,
    /// Share of the time of Stage in which another task computed; `None` when nothing was staged ahead.
    pub overlap: Option<f64>,
    /// What the arm's devices used in the window; `None` where no driver tells, or when it is not known.
    pub energy: Option<Energy>,
    /// Why it is not known, where a driver tells.
    pub energy_unknown: Option<String>,
    /// The policy's locks, by name, on all devices together.
    pub locks: BTreeMap<String, LockSeconds>,
    /// Tasks that the policy let skip Stage. This and what follows is of the whole run, its warm-up included.
    pub skips: u64,
    /// `Wait` verdicts.
    pub waits: u64,
    /// Refused verdicts.
    pub refused: u64,
    /// The most device bytes that tasks held at once, of the device where that was most.
    pub peak_reserved_bytes: u64,
    /// Peak of resident memory of the whole process, where the system tells.
    pub peak_rss_bytes: Option<u64>,
}

/// What tasks did with one lock inside the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockSeconds {
    /// Seconds for which it was held, by whichever task.
    pub held_s: f64,
    /// Seconds that tasks waited at the gate at which they took it, all together.
    pub waited_s: f64,
}

/// A run with its timeline.
pub struct Run {
    /// What it came to.
    pub figures: RunFigures,
    /// The part that was measured, on the clock of the timeline.
    pub window_ns: (u64, u64),
    /// What happened.
    pub timeline: Timeline,
}

/// Why a run says nothing about its arm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The engine did not start.
    #[error("the engine did not start: {0}")]
    Start(String),
    /// Its jobs were not all proved.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The policy did not stay in its seat, so that the figures are not its own.
    #[error("the policy was quarantined on device {device} ({code}): {sentence}")]
    Quarantined {
        /// Which device.
        device: usize,
        /// The reason's code.
        code: String,
        /// The reason.
        sentence: String,
    },
    /// A device was lost, so that other devices did its work.
    #[error("device {device} was lost: {reason}")]
    Lost {
        /// Which device.
        device: usize,
        /// Why.
        reason: String,
    },
    /// What happened makes no sense: a fault of the engine.
    #[error("the engine's own record of the run makes no sense: {0}")]
    Record(String),
    /// Tasks were done by the fallback core.
    #[error("{tasks} tasks were done by the fallback core, {core}")]
    Elsewhere {
        /// How many.
        tasks: u64,
        /// Which core.
        core: &'static str,
    },
}

/// Keeps events in memory.
#[derive(Default)]
struct Kept(Mutex<Vec<TimelineEvent>>);

impl Recorder for Kept {
    fn record(&self, event: &TimelineEvent) {
        self.0.lock().push(event.clone());
    }
}

/// Runs an arm once. Its energy is told where there is a meter that knows its devices.
///
/// # Errors
/// [`RunError`]: the run tells nothing about the arm.
pub fn run(
    arm: &Arm,
    common: &Common,
    load: &Load,
    seed: u64,
    until: Until<'_>,
    jobs: Jobs<'_>,
    meter: Option<&Meter>,
) -> Result<Run, RunError> {
    let peak = ResidentPeak::begin();
    let events = Arc::new(Kept::default());
    let engine = start(arm, common, events.clone()).map_err(|error| RunError::Start(error.to_string()))?;
    let counters = meter.and_then(|meter| meter.counters(arm.core.devices()));
    let (before, before_ns) = (Instant::now(), engine.now_ns());
    let drive = || drive(&engine, load, seed, until, jobs);
    let (answered, watched) = match &counters {
        Some(counters) => {
            let (answered, watched) = counters.watch(before, drive);
            (answered?, Some(watched))
        }
        None => (drive()?, None),
    };
    let devices = engine.devices();
    check(arm, &devices)?;
    drop(engine);
    let (from_ns, to_ns) = answered.window_ns;
    let window_ns = (before_ns + from_ns, before_ns + to_ns);
    let timeline = Timeline::of_events(mem::take(&mut *events.0.lock()))
        .map_err(|problem| RunError::Record(problem.to_string()))?;
    let observed = Figures::of(&timeline.within(window_ns.0, window_ns.1));
    let seconds = (to_ns - from_ns) as f64 / 1e9;
    let mut latencies_s: Vec<f64> = answered.latencies_ns.iter().map(|ns| *ns as f64 / 1e9).collect();
    latencies_s.sort_by(f64::total_cmp);
    let energy = watched.map(|watched| watched.within(answered.window_ns, answered.proofs)).transpose();
    let sum = |of: fn(&DeviceReport) -> u64| devices.iter().map(of).sum();
    let figures = RunFigures {
        seconds,
        proofs: answered.proofs,
        proofs_per_s: answered.proofs as f64 / seconds,
        latencies_s,
        device_busy: device_busy(&observed, arm.core.devices().len()),
        overlap: overlap(&observed),
        energy_unknown: energy.as_ref().err().map(ToString::to_string),
        energy: energy.ok().flatten(),
        locks: locks(&observed),
        skips: sum(|device| device.counters.skips),
        waits: sum(|device| device.counters.waits),
        refused: sum(|device| device.counters.refusals.values().sum()),
        peak_reserved_bytes: devices
            .iter()
            .map(|device| device.counters.peak_reserved_bytes)
            .max()
            .unwrap_or(0),
        peak_rss_bytes: peak.bytes(),
    };
    Ok(Run { figures, window_ns, timeline })
}

/// On average over the devices of the main core: they come before those of the fallback core.
fn device_busy(observed: &Figures, devices: usize) -> f64 {
    let main = observed.devices.iter().filter(|device| (device.device as usize) < devices);
    main.map(|device| device.busy_share).sum::<f64>() / devices.max(1) as f64
}

fn overlap(observed: &Figures) -> Option<f64> {
    let staging: u64 = observed.devices.iter().map(|device| device.staging_ns).sum();
    let overlapped = |device: &DeviceFigures| device.overlap_share.unwrap_or(0.0) * device.staging_ns as f64;
    (staging > 0).then(|| observed.devices.iter().map(overlapped).sum::<f64>() / staging as f64)
}

fn locks(observed: &Figures) -> BTreeMap<String, LockSeconds> {
    let seconds = |lock: &LockFigures| LockSeconds {
        held_s: lock.held_share * observed.wall_ns as f64 / 1e9,
        waited_s: lock.waits.total_ns as f64 / 1e9,
    };
    observed.locks.iter().map(|lock| (lock.name.clone(), seconds(lock))).collect()
}

fn start(arm: &Arm, common: &Common, events: Arc<Kept>) -> Result<Engine, EngineError> {
    let builder = Engine::builder(arm.core.clone());
    let builder = match &arm.fallback_core {
        Some(core) => builder.fallback_core(core.clone()),
        None => builder,
    };
    builder
        .policy(arm.policy.clone())
        .workers_per_device(arm.workers)
        .synthesis_workers(common.synthesis_workers)
        .verify_proofs(common.verify_proofs)
        .limits(common.limits)
        .recorder(events)
        .start()
}

/// Whether the arm's own policy and devices did the work.
fn check(arm: &Arm, devices: &[DeviceReport]) -> Result<(), RunError> {
    let mut elsewhere: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (index, device) in devices.iter().enumerate() {
        if let Some(quarantine) = &device.quarantine {
            let (code, sentence) = (quarantine.code.to_string(), quarantine.sentence.clone());
            return Err(RunError::Quarantined { device: index, code, sentence });
        }
        if let Some(reason) = &device.lost {
            return Err(RunError::Lost { device: index, reason: reason.clone() });
        }
        if device.core != arm.core.name() && device.counters.finished > 0 {
            *elsewhere.entry(device.core).or_default() += device.counters.finished;
        }
    }
    match elsewhere.into_iter().next() {
        Some((core, tasks)) => Err(RunError::Elsewhere { tasks, core }),
        None => Ok(()),
    }
}
