//! One HTML file about one run: the figures, the chart, and the same as tables. It needs no network and no other file.

use std::path::Path;

use askama::Template;
use interlock_arbiter::TimelineKind;
use interlock_settings::units;
use serde::Serialize;

use crate::chart::{Chart, letter, sentence};
use crate::figures::{Figures, Named, Times};
use crate::timeline::Timeline;

/// The style sheet of pages, the chart's included.
pub const STYLE: &str =
    concat!(include_str!("../templates/page.css"), include_str!("../templates/chart.css"));

/// The script that draws each element with `data-chart="ID"`: the chart whose JSON the element with that id holds.
pub const SCRIPT: &str = include_str!("../templates/chart.js");

/// Rows of what happened that the page lists.
const MOST_HAPPENINGS: usize = 200;

/// The page of a run.
#[derive(Template)]
#[template(path = "run.html")]
pub struct RunPage {
    title: String,
    subtitle: String,
    style: &'static str,
    script: &'static str,
    cards: Vec<Card>,
    warnings: Vec<String>,
    chart: Chart,
    stages: Vec<TimesRow>,
    gates: Vec<TimesRow>,
    locks: Vec<LockRow>,
    devices: Vec<DeviceRow>,
    counts: Vec<CountRow>,
    happenings: Vec<Happening>,
    happenings_left_out: usize,
    lanes: Vec<LaneRow>,
    figures: Figures,
}

/// A figure that stands out.
struct Card {
    id: &'static str,
    name: &'static str,
    value: String,
    note: String,
}

struct TimesRow {
    name: String,
    count: usize,
    median: String,
    p95: String,
    max: String,
    total: String,
}

struct LockRow {
    held: String,
    waits: TimesRow,
}

struct DeviceRow {
    device: String,
    policy: String,
    capacity: String,
    workers: String,
    busy: String,
    overlap: String,
}

struct CountRow {
    name: &'static str,
    count: usize,
}

struct Happening {
    at: String,
    letter: char,
    text: String,
}

/// A lane of the chart in words: what took which part of it.
struct LaneRow {
    group: String,
    lane: String,
    shares: String,
}

impl RunPage {
    /// The page of a timeline that was read from `file`.
    pub fn new(file: &Path, timeline: &Timeline) -> Self {
        let figures = Figures::of(timeline);
        let chart = Chart::of(timeline);
        let (happenings, happenings_left_out) = happenings(timeline);
        Self {
            title: title(timeline),
            subtitle: subtitle(file, timeline),
            style: STYLE,
            script: SCRIPT,
            cards: cards(&figures),
            warnings: warnings(&figures, &chart),
            stages: rows(&figures.activities),
            gates: rows(&figures.gates),
            locks: locks(&figures),
            devices: devices(timeline, &figures),
            counts: counts(&figures),
            happenings,
            happenings_left_out,
            lanes: lane_rows(&chart),
            chart,
            figures,
        }
    }

    /// The HTML.
    ///
    /// # Errors
    /// `writer` fails.
    pub fn write(&self, writer: &mut impl std::io::Write) -> std::io::Result<()> {
        self.write_into(writer)
    }

    /// What is in the page as numbers.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }
}

/// JSON that may stand inside a script element: askama's own filter would escape it for an attribute too.
pub fn embedded(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value)
        .unwrap_or_else(|error| format!("{{\"error\": {:?}}}", error.to_string()));
    text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn title(timeline: &Timeline) -> String {
    let policy = timeline.devices.iter().find_map(|device| device.policy.as_deref());
    let switched = timeline.marks.iter().any(|mark| mark.kind == TimelineKind::Seated);
    let then = if switched { ", then others" } else { "" };
    match policy {
        Some(policy) => format!("{} proofs under {policy}{then}", proofs(timeline)),
        None => format!("{} proofs", proofs(timeline)),
    }
}

fn proofs(timeline: &Timeline) -> usize {
    crate::figures::latencies(timeline).iter().flatten().count()
}

fn subtitle(file: &Path, timeline: &Timeline) -> String {
    let engine = timeline.engine.as_ref().map(|engine| engine.name.clone());
    let processors = timeline.processors.map(|processors| format!("{processors} processors"));
    let file = file.file_name().map(|name| name.to_string_lossy().into_owned());
    [engine, processors, file].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn cards(figures: &Figures) -> Vec<Card> {
    let mut cards = vec![
        Card {
            id: "proofs",
            name: "Proofs",
            value: figures.proofs.to_string(),
            note: format!("of {} partitions, in {}", figures.partitions, units::time(figures.wall_ns)),
        },
        Card {
            id: "rate",
            name: "Proofs per second",
            value: units::three_digits(figures.proofs_per_s),
            note: "from first submission to last event".to_owned(),
        },
    ];
    if let Some(latency) = figures.latency {
        cards.push(Card {
            id: "latency",
            name: "Latency, p95",
            value: units::time(latency.p95_ns),
            note: format!("median {}; synthesis to verified", units::time(latency.median_ns)),
        });
    }
    // Of several devices the fallback's stands idle: the busiest says most.
    let busiest = figures.devices.iter().max_by_key(|device| device.busy_ns);
    if let Some(device) = busiest {
        cards.push(Card {
            id: "busy",
            name: "Device busy",
            value: units::share(device.busy_share),
            note: format!("device {}: some task in Compute", device.device),
        });
        cards.push(Card {
            id: "overlap",
            name: "Staging overlapped",
            value: device.overlap_share.map_or("none staged".to_owned(), units::share),
            note: "of Stage, while another computes".to_owned(),
        });
    }
    cards
}

fn warnings(figures: &Figures, chart: &Chart) -> Vec<String> {
    let mut warnings = Vec::new();
    if figures.unfinished > 0 {
        warnings.push(format!(
            "The file ends before {} tasks had left their device: they are drawn up to its end, and are in no figure.",
            figures.unfinished
        ));
    }
    let left_out: usize = chart.groups.iter().map(|group| group.lanes_left_out).sum();
    if left_out > 0 {
        warnings.push(format!("{left_out} lanes are not drawn. All are in the figures."));
    }
    let bars = chart.groups.iter().flat_map(|group| &group.lanes).flat_map(|lane| &lane.bars);
    let together = bars.filter(|bar| bar.count > 1).count();
    if together > 0 {
        warnings.push(format!(
            "{together} bars of the chart stand for several short spans each, which would be too many one by one."
        ));
    }
    warnings
}

fn row(name: String, times: &Times) -> TimesRow {
    TimesRow {
        name,
        count: times.count,
        median: units::time(times.median_ns),
        p95: units::time(times.p95_ns),
        max: units::time(times.max_ns),
        total: units::time(times.total_ns),
    }
}

fn rows(named: &[Named]) -> Vec<TimesRow> {
    named.iter().map(|named| row(named.name.clone(), &named.times)).collect()
}

fn locks(figures: &Figures) -> Vec<LockRow> {
    let row = |lock: &crate::figures::LockFigures| LockRow {
        held: units::share(lock.held_share),
        waits: row(lock.name.clone(), &lock.waits),
    };
    figures.locks.iter().map(row).collect()
}

fn devices(timeline: &Timeline, figures: &Figures) -> Vec<DeviceRow> {
    let unknown = || "not told".to_owned();
    let row = |device: &crate::figures::DeviceFigures| {
        let known = timeline.device(device.device);
        let name = known.map_or(String::new(), |known| format!("{} {}", known.core, known.name));
        DeviceRow {
            device: format!("{} {name}", device.device),
            policy: known.and_then(|known| known.policy.clone()).unwrap_or_else(unknown),
            capacity: known.and_then(|known| known.capacity_bytes).map_or_else(unknown, units::bytes),
            workers: known
                .and_then(|known| known.workers)
                .map_or_else(unknown, |workers| workers.to_string()),
            busy: units::share(device.busy_share),
            overlap: device.overlap_share.map_or("none staged".to_owned(), units::share),
        }
    };
    figures.devices.iter().map(row).collect()
}

fn counts(figures: &Figures) -> Vec<CountRow> {
    let counts = figures.counts;
    let row = |name, count| CountRow { name, count };
    vec![
        row("stages skipped", counts.skips),
        row("staged inline", counts.inline),
        row("verdicts refused", counts.refused),
        row("slow answers", counts.slow),
        row("stages failed", counts.failed),
        row("retries", counts.retries),
        row("quarantines", counts.quarantines),
        row("policy switches", counts.switches),
        row("trials failed", counts.rollbacks),
        row("devices lost", counts.lost),
    ]
}

fn happenings(timeline: &Timeline) -> (Vec<Happening>, usize) {
    let mut shown = timeline.marks.iter().filter_map(|mark| {
        let (letter, what) = letter(mark.kind)?;
        let at = units::time(mark.at_ns.saturating_sub(timeline.begin_ns));
        Some(Happening { at, letter, text: sentence(timeline, mark, what) })
    });
    let listed = shown.by_ref().take(MOST_HAPPENINGS).collect();
    (listed, shown.count())
}

fn lane_rows(chart: &Chart) -> Vec<LaneRow> {
    let mut rows = Vec::new();
    for group in &chart.groups {
        for lane in &group.lanes {
            let share = |kind: usize| {
                let bars = lane.bars.iter().filter(|bar| bar.kind == kind);
                let (count, total_ns) =
                    bars.fold((0, 0_u64), |(count, ns), bar| (count + bar.count, ns + bar.length_ns));
                let share = total_ns as f64 / chart.length_ns.max(1) as f64;
                (count > 0).then(|| format!("{} {} ({count})", chart.kinds[kind].name, units::share(share)))
            };
            let shares: Vec<String> = (0..chart.kinds.len()).filter_map(share).collect();
            rows.push(LaneRow {
                group: group.name.clone(),
                lane: lane.name.clone(),
                shares: shares.join(", "),
            });
        }
    }
    rows
}
