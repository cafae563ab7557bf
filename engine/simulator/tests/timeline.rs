//! Timelines and traces of simulations: read back by whoever reads those of an engine, they say the same as the figures.

mod support;

use std::path::Path;

use interlock_arbiter::{Recorder, TimelineEvent, TimelineKind};
use interlock_policy_api::Stage;
use interlock_simulator::{ChromeTrace, Scenario};
use interlock_timeline::{Activity, Timeline};
use support::{Events, POLICIES, assert_near, parse, simulated};

/// Everything that can go wrong, on two devices.
fn trouble() -> Scenario {
    parse(
        "(seed: 4, devices: [(vram: \"10GiB\", count: 2)], host: (cores: 6), workers: 2, synthesis: (workers: 2), \
         classes: [(name: \"task\", partitions: 2, staged: \"4GiB\", extra: \"2GiB\", synthesis: (time: Exponential(mean: \"1.5s\")), \
         prepare: (time: Constant(\"3s\")), stage: Constant(\"2s\"), compute: Normal(mean: \"5s\", sd: \"1s\"), \
         finish: (time: Constant(\"1s\")), verify: (time: Constant(\"500ms\")), fallback: (time: Constant(\"20s\"), cores: 4))], \
         arrivals: [Poisson(class: \"task\", jobs: 120, every: \"6s\")], \
         faults: [AllocationFailure(class: \"task\", probability: 0.2), DeviceLoss(device: 1, at: \"200s\")])",
    )
}

/// A recorder's events as the program writes them, read back.
fn read_back(events: Events) -> Timeline {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for event in events.0.into_inner().expect("nobody panics") {
        writer.serialize(event).expect("it is written");
    }
    let bytes = writer.into_inner().expect("all of it");
    Timeline::read(Path::new("simulated.csv"), bytes.as_slice()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_timeline_reads_back_and_says_what_the_figures_say() {
    for name in POLICIES {
        let events = Events::default();
        let figures = simulated(&trouble(), name, Some(&events)).figures;
        assert!(figures.fallbacks > 0 && figures.retries > 0, "{name}: nothing went wrong");
        let timeline = read_back(events);
        assert_eq!(timeline.jobs.len(), 120, "{name}");
        assert_eq!(timeline.devices[0].policy.as_deref(), Some(name));
        assert_eq!(timeline.devices[0].capacity_bytes, Some(10 << 30), "{name}");
        assert!(timeline.tasks.iter().all(|task| task.left_ns.is_some()), "{name}: somebody never left");
        let runs = |stage| timeline.spans.iter().filter(move |span| span.activity == Activity::Run(stage));
        let staged_inline = runs(Stage::COMPUTE).filter(|span| span.inline).count() as u64;
        // Those that failed are not counted as done; each task on the CPU looks like one that was not staged.
        assert!(staged_inline >= figures.inline + figures.fallbacks, "{name}: {staged_inline}");
        let waited: u64 = runs(Stage::COMPUTE).map(|span| span.waited_ns).sum();
        assert_near(waited as f64 / 1e9, figures.gate_wait_s["Compute"], 1e-9, name);
        let end = timeline.end_ns as f64 / 1e9;
        assert_near(end, figures.makespan_s, 1e-9, name);
    }
}

#[test]
fn a_trace_has_a_span_for_each_stage_and_each_wait() {
    let trace = ChromeTrace::new(Vec::new());
    let events = Events::default();
    simulated(&trouble(), "two-lock", Some(&Both(&trace, &events)));
    let bytes = trace.finish().expect("it is written");
    let entries: Vec<serde_json::Value> = serde_json::from_slice(&bytes).expect("JSON");
    let (spans, names): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry["ph"] == "X");
    let names: Vec<_> = names.iter().map(|entry| entry["args"]["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["synthesis", "simulated device 0", "simulated device 1"]);
    let events = events.0.into_inner().expect("nobody panics");
    let (mut at_gates, mut in_stages) = (0, 0);
    for span in &spans {
        let (begin, length) = (span["ts"].as_f64().expect("a time"), span["dur"].as_f64().expect("a time"));
        assert!(begin >= 0.0 && length >= 0.0, "{span}");
        at_gates += usize::from(span["name"] == "gate");
        in_stages += usize::from(Stage::ALL.iter().any(|stage| stage.name() == span["name"].as_str()));
    }
    let count = |kinds: &[TimelineKind]| events.iter().filter(|event| kinds.contains(&event.event)).count();
    assert_eq!(at_gates, count(&[TimelineKind::Entered]));
    assert_eq!(in_stages, count(&[TimelineKind::Ended, TimelineKind::Failed]));
    // The same again is the same file.
    let again = ChromeTrace::new(Vec::new());
    simulated(&trouble(), "two-lock", Some(&again));
    assert_eq!(again.finish().expect("it is written"), bytes);
}

#[test]
fn a_trace_of_nothing_is_json_too() {
    let bytes = ChromeTrace::new(Vec::new()).finish().expect("it is written");
    assert_eq!(serde_json::from_slice::<Vec<serde_json::Value>>(&bytes).expect("JSON").len(), 0);
}

#[test]
fn a_disk_that_is_full_is_an_error_of_the_trace() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _bytes: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("full"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let trace = ChromeTrace::new(Full);
    simulated(&trouble(), "two-lock", Some(&trace));
    assert!(trace.finish().is_err());
}

struct Both<'a>(&'a dyn Recorder, &'a dyn Recorder);

impl Recorder for Both<'_> {
    fn record(&self, event: &TimelineEvent) {
        self.0.record(event);
        self.1.record(event);
    }
}
