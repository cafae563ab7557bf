//! A timeline in numbers.

use std::collections::BTreeSet;

use interlock_arbiter::TimelineKind;
use interlock_policy_api::Stage;
use serde::Serialize;

use crate::cover::{covered_ns, overlap_ns};
use crate::timeline::{Activity, Actor, Ending, Span, Timeline};

/// What a run comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Partitions that the file speaks of.
    pub partitions: usize,
    /// Partitions whose last stage was finished.
    pub proofs: usize,
    /// Tasks that had not left when the file ended.
    pub unfinished: usize,
    /// From the beginning to the last event.
    pub wall_ns: u64,
    /// Proofs in a second of it.
    pub proofs_per_s: f64,
    /// Of each proof: from the begin of its synthesis, or else from its arrival, until it was verified, or else finished.
    pub latency: Option<Times>,
    /// Synthesis, the stages and verification, those that there were; what did not end well is left out.
    pub activities: Vec<Named>,
    /// Waits at each gate, the short ones too.
    pub gates: Vec<Named>,
    /// Waits of those who took each lock, at the gate where they took it.
    pub locks: Vec<LockFigures>,
    /// The devices.
    pub devices: Vec<DeviceFigures>,
    /// How often what happened.
    pub counts: Counts,
}

/// Times of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Times {
    /// How many.
    pub count: usize,
    /// All of them.
    pub total_ns: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// Half of them take no longer.
    pub median_ns: u64,
    /// 95 of 100 take no longer: the nearest rank.
    pub p95_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Times with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    /// Of what.
    pub name: String,
    /// The times.
    #[serde(flatten)]
    pub times: Times,
}

/// One lock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LockFigures {
    /// Its name.
    pub name: String,
    /// Share of the run in which somebody held it, on any device.
    pub held_share: f64,
    /// Waits of those who took it.
    pub waits: Times,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceFigures {
    /// Its index.
    pub device: u32,
    /// Time in which some task was in Compute.
    pub busy_ns: u64,
    /// The same as a share of the run.
    pub busy_share: f64,
    /// Time in which some task was in Stage.
    pub staging_ns: u64,
    /// Share of the staging time in which another task was in Compute; `None` when nothing was staged.
    pub overlap_share: Option<f64>,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Stages that were skipped.
    pub skips: usize,
    /// Computes that uploaded first.
    pub inline: usize,
    /// Refused verdicts.
    pub refused: usize,
    /// Answers that took longer than their budget.
    pub slow: usize,
    /// Stages that failed.
    pub failed: usize,
    /// Tasks beyond the first of their partition.
    pub retries: usize,
    /// Policies that were quarantined.
    pub quarantines: usize,
    /// Policies that took a seat after the start.
    pub switches: usize,
    /// Policies that failed their trial.
    pub rollbacks: usize,
    /// Devices that were lost.
    pub lost: usize,
}

impl Times {
    /// Of these times; `None` if there are none.
    pub fn of(times: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut times: Vec<u64> = times.into_iter().collect();
        times.sort_unstable();
        let max_ns = *times.last()?;
        let rank = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
        let total: u128 = times.iter().map(|time| u128::from(*time)).sum();
        let saturated = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        Some(Self {
            count: times.len(),
            total_ns: saturated(total),
            mean_ns: saturated(total / times.len() as u128),
            median_ns: rank(50),
            p95_ns: rank(95),
            max_ns,
        })
    }
}

impl Figures {
    /// The figures of a timeline.
    pub fn of(timeline: &Timeline) -> Self {
        let wall_ns = timeline.wall_ns();
        let latencies: Vec<u64> = latencies(timeline).into_iter().flatten().collect();
        let proofs = latencies.len();
        Self {
            partitions: timeline.partitions.len(),
            proofs,
            unfinished: timeline.unfinished(),
            wall_ns,
            proofs_per_s: if wall_ns == 0 { 0.0 } else { proofs as f64 / (wall_ns as f64 / 1e9) },
            latency: Times::of(latencies),
            activities: activities(timeline),
            gates: gates(timeline),
            locks: locks(timeline),
            devices: timeline.devices.iter().map(|device| device_figures(timeline, device.index)).collect(),
            counts: counts(timeline),
        }
    }

    /// The times of a stage, synthesis or verification, by name.
    pub fn activity(&self, name: &str) -> Option<&Times> {
        self.activities.iter().find(|named| named.name == name).map(|named| &named.times)
    }
}

/// How long each partition took, as [`Figures::latency`] says; `None` for those without a proof.
pub fn latencies(timeline: &Timeline) -> Vec<Option<u64>> {
    let mut begun: Vec<Option<u64>> = vec![None; timeline.partitions.len()];
    let mut ended = begun.clone();
    for span in &timeline.spans {
        let partition = span.partition as usize;
        match span.activity {
            Activity::Synthesis => begun[partition] = Some(span.begin_ns),
            Activity::Run(Stage::FINISH) if span.ending == Ending::Done => {
                ended[partition] = Some(span.end_ns)
            }
            Activity::Verify => ended[partition] = ended[partition].max(Some(span.end_ns)),
            _ => {}
        }
    }
    for task in &timeline.tasks {
        begun[task.partition as usize].get_or_insert(task.arrived_ns);
    }
    begun.into_iter().zip(ended).map(|(begun, ended)| Some(ended?.saturating_sub(begun?))).collect()
}

fn share(part_ns: u64, of_ns: u64) -> f64 {
    if of_ns == 0 { 0.0 } else { part_ns as f64 / of_ns as f64 }
}

fn ended_well(timeline: &Timeline, activity: Activity) -> impl Iterator<Item = &Span> {
    timeline.spans.iter().filter(move |span| span.activity == activity && span.ending == Ending::Done)
}

fn activities(timeline: &Timeline) -> Vec<Named> {
    let stages = Stage::ALL.into_iter().map(Activity::Run);
    let all = [Activity::Synthesis].into_iter().chain(stages).chain([Activity::Verify]);
    all.filter_map(|activity| {
        let times = Times::of(ended_well(timeline, activity).map(Span::length_ns))?;
        Some(Named { name: timeline.activity_name(activity), times })
    })
    .collect()
}

fn gates(timeline: &Timeline) -> Vec<Named> {
    let of_gate = |gate: Stage| {
        let entered = timeline.spans.iter().filter(move |span| span.activity == Activity::Run(gate));
        let skipped = timeline.marks.iter();
        let skipped = skipped.filter(move |mark| gate == Stage::STAGE && mark.kind == TimelineKind::Skipped);
        let waits = entered.map(|span| span.waited_ns).chain(skipped.map(|mark| mark.took_ns));
        Some(Named { name: gate.to_string(), times: Times::of(waits)? })
    };
    Stage::ALL.into_iter().filter_map(of_gate).collect()
}

fn locks(timeline: &Timeline) -> Vec<LockFigures> {
    let of_lock = |(index, name): (usize, &String)| {
        let held: Vec<&Span> =
            timeline.spans.iter().filter(|span| span.activity == Activity::Hold(index as u32)).collect();
        Some(LockFigures {
            name: name.clone(),
            held_share: share(covered_ns(times_of(held.iter().copied())), timeline.wall_ns()),
            waits: Times::of(held.iter().map(|span| span.waited_ns))?,
        })
    };
    timeline.locks.iter().enumerate().filter_map(of_lock).collect()
}

fn times_of<'a>(spans: impl IntoIterator<Item = &'a Span>) -> Vec<(u64, u64)> {
    spans.into_iter().map(|span| (span.begin_ns, span.end_ns)).collect()
}

fn device_figures(timeline: &Timeline, index: u32) -> DeviceFigures {
    let runs = |stage| {
        let is_here = move |actor| matches!(actor, Actor::Device { device, .. } if device == index);
        times_of(
            timeline
                .spans
                .iter()
                .filter(move |span| span.activity == Activity::Run(stage) && is_here(span.actor)),
        )
    };
    let (staging, computing) = (runs(Stage::STAGE), runs(Stage::COMPUTE));
    let (busy_ns, staging_ns) = (covered_ns(computing.clone()), covered_ns(staging.clone()));
    // A task is in one stage at a time: whatever overlaps is of two tasks.
    let overlap = overlap_ns(staging, computing);
    DeviceFigures {
        device: index,
        busy_ns,
        busy_share: share(busy_ns, timeline.wall_ns()),
        staging_ns,
        overlap_share: (staging_ns > 0).then(|| share(overlap, staging_ns)),
    }
}

fn counts(timeline: &Timeline) -> Counts {
    let marks = |kind| timeline.marks.iter().filter(|mark| mark.kind == kind).count();
    let begun: BTreeSet<u32> = timeline.tasks.iter().map(|task| task.partition).collect();
    Counts {
        skips: marks(TimelineKind::Skipped),
        inline: timeline.spans.iter().filter(|span| span.inline).count(),
        refused: marks(TimelineKind::Refused),
        slow: marks(TimelineKind::Slow),
        failed: marks(TimelineKind::Failed),
        retries: timeline.tasks.len() - begun.len(),
        quarantines: marks(TimelineKind::Quarantined),
        switches: marks(TimelineKind::Seated),
        rollbacks: marks(TimelineKind::RolledBack),
        lost: marks(TimelineKind::DeviceLost),
    }
}
