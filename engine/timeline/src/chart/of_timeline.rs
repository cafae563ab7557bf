//! The chart of one run: synthesis, then a group for each device with its workers and its locks.

use std::collections::BTreeMap;

use interlock_arbiter::TimelineKind;
use interlock_policy_api::Stage;

use super::lanes::{MOST_BARS, lanes};
use super::{Bar, Chart, Flag, Group, Kind, Lane};
use crate::timeline::{Activity, Actor, Device, Ending, Mark, Span, Timeline};

/// Lanes that a group shows.
const MOST_LANES: usize = 64;
/// Flags that a group shows; there may be one for each task.
const MOST_FLAGS: usize = 2_000;

/// The kinds of bar, in the order of the legend. Waits at all gates look the same, and so do all locks.
const KINDS: [(&str, &str); 11] = [
    ("Synthesis", "synthesis"),
    ("Prepare", "prepare"),
    ("Stage", "stage"),
    ("Compute", "compute"),
    ("Finish", "finish"),
    ("Verify", "verify"),
    ("waits for Prepare", "wait"),
    ("waits for Stage", "wait"),
    ("waits for Compute", "wait"),
    ("waits for Finish", "wait"),
    ("holds a lock", "lock"),
];

fn kind_of(activity: Activity) -> usize {
    match activity {
        Activity::Synthesis => 0,
        Activity::Run(stage) => 1 + stage.index(),
        Activity::Verify => 5,
        Activity::Wait(stage) => 6 + stage.index(),
        Activity::Hold(_) => 10,
    }
}

impl Chart {
    /// The chart of a run.
    pub fn of(timeline: &Timeline) -> Self {
        let mut synthesis: BTreeMap<u32, Vec<Bar>> = BTreeMap::new();
        let mut workers: BTreeMap<(u32, u32), Vec<Bar>> = BTreeMap::new();
        let mut holds: BTreeMap<(u32, u32), Vec<Bar>> = BTreeMap::new();
        for span in &timeline.spans {
            let lane = match (span.actor, span.activity) {
                (Actor::Synthesis(worker), _) => synthesis.entry(worker).or_default(),
                (Actor::Device { device, .. }, Activity::Hold(lock)) => {
                    holds.entry((device, lock)).or_default()
                }
                (Actor::Device { device, worker }, _) => workers.entry((device, worker)).or_default(),
            };
            lane.push(bar(timeline, span));
        }
        let named = synthesis.into_iter().map(|(worker, bars)| (format!("worker {worker}"), bars));
        let mut groups = vec![group("Synthesis", String::new(), named)];
        for device in &timeline.devices {
            let index = device.index;
            let here = workers.range((index, 0)..=(index, u32::MAX));
            let here = here.map(|((_, worker), bars)| (format!("worker {worker}"), bars.clone()));
            let locks = holds.range((index, 0)..=(index, u32::MAX));
            let locks =
                locks.map(|((_, lock), bars)| (timeline.activity_name(Activity::Hold(*lock)), bars.clone()));
            let mut group = group(&heading(device), note(device), here.chain(locks));
            group.flags = flags(timeline, index);
            groups.push(group);
        }
        groups.retain(|group| !group.lanes.is_empty() || !group.flags.is_empty());
        let mut chart = Self {
            begin_ns: timeline.begin_ns,
            length_ns: timeline.wall_ns(),
            kinds: KINDS.map(|(name, look)| Kind { name: name.to_owned(), look }).to_vec(),
            groups,
            subjects: timeline
                .partitions
                .iter()
                .map(|of| format!("job {}, partition {}", of.job, of.partition))
                .collect(),
        };
        chart.condense(MOST_BARS);
        chart
    }
}

fn group(name: &str, note: String, named: impl Iterator<Item = (String, Vec<Bar>)>) -> Group {
    let mut all: Vec<Lane> = named.flat_map(|(name, bars)| lanes(&name, bars)).collect();
    let lanes_left_out = all.len().saturating_sub(MOST_LANES);
    all.truncate(MOST_LANES);
    Group { name: name.to_owned(), note, lanes: all, lanes_left_out, flags: Vec::new() }
}

fn bar(timeline: &Timeline, span: &Span) -> Bar {
    let ending = match span.ending {
        Ending::Done => 0,
        Ending::Failed => 1,
        Ending::GivenUp => 2,
        Ending::Open => 3,
    };
    let held = matches!(span.activity, Activity::Hold(_));
    Bar {
        begin_ns: span.begin_ns.saturating_sub(timeline.begin_ns),
        length_ns: span.length_ns(),
        kind: kind_of(span.activity),
        subject: span.partition as usize,
        waited_ns: if matches!(span.activity, Activity::Wait(_)) { 0 } else { span.waited_ns },
        bytes: span.bytes,
        // A lock is given back when its holder leaves: that is no failure.
        ending: if held && ending == 2 { 0 } else { ending },
        inline: span.inline,
        count: 1,
    }
}

fn heading(device: &Device) -> String {
    let name = [&device.core, &device.name].map(String::as_str);
    let name = name.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ");
    if name.is_empty() {
        format!("Device {}", device.index)
    } else {
        format!("Device {}: {name}", device.index)
    }
}

fn note(device: &Device) -> String {
    device.policy.as_ref().map_or(String::new(), |policy| format!("policy {policy}"))
}

/// The letter of a flag, and what it means. Slow answers and skips are counted, not shown.
pub(crate) fn letter(kind: TimelineKind) -> Option<(char, &'static str)> {
    match kind {
        TimelineKind::Refused => Some(('R', "verdict refused")),
        TimelineKind::Failed => Some(('F', "stage failed")),
        TimelineKind::DeviceLost => Some(('L', "device lost")),
        TimelineKind::Quarantined => Some(('Q', "policy quarantined")),
        TimelineKind::RolledBack => Some(('B', "policy failed its trial")),
        TimelineKind::Seated => Some(('S', "policy seated")),
        _ => None,
    }
}

/// What a mark says, in a sentence.
pub(crate) fn sentence(timeline: &Timeline, mark: &Mark, what: &str) -> String {
    let whose = mark.task.and_then(|task| timeline.tasks.get(task as usize)).map(|task| {
        let of = timeline.partitions[task.partition as usize];
        format!(" (job {}, partition {})", of.job, of.partition)
    });
    let stage = mark.stage.map_or(String::new(), |stage: Stage| format!(" at {stage}"));
    format!("{what}{stage}{}: {}", whose.unwrap_or_default(), mark.text)
}

fn flags(timeline: &Timeline, device: u32) -> Vec<Flag> {
    let here = timeline.marks.iter().filter(|mark| mark.device == Some(device));
    let flag = |mark: &Mark| {
        let (letter, what) = letter(mark.kind)?;
        let text = sentence(timeline, mark, what);
        Some(Flag { at_ns: mark.at_ns.saturating_sub(timeline.begin_ns), letter, text })
    };
    here.filter_map(flag).take(MOST_FLAGS).collect()
}
