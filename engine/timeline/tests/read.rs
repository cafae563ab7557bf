//! Streams of events that a model makes, written as the engine writes them, are read back as the model's spans.

use std::path::Path;

use interlock_arbiter::{TimelineEvent, TimelineKind};
use interlock_policy_api::Stage;
use interlock_timeline::{Activity, Actor, Ending, Problem, Span, Timeline};
use proptest::prelude::*;

const FILE: &str = "run.csv";
const LOCKS: [&str; 4] = ["", "mem", "compute", "mem+compute"];

/// One partition's way: synthesis, then the stages with the wait at each gate, then verification.
#[derive(Clone, Debug)]
struct Way {
    gap_ns: u64,
    synthesis_ns: u64,
    /// Wait, run and the locks that are taken, for each stage; no Stage when it is skipped.
    stages: [(u64, u64, usize); 4],
    skips: bool,
    /// The stage that fails, if any; past the last one none does.
    fails_at: usize,
}

fn ways() -> impl Strategy<Value = Vec<Way>> {
    let time = || prop_oneof![Just(0), 1..1_000_u64, 1..10_000_000_000_u64];
    let stage = (time(), time(), 0..LOCKS.len());
    let way =
        (time(), time(), [stage.clone(), stage.clone(), stage.clone(), stage], any::<bool>(), 0..12_usize);
    let way = way.prop_map(|(gap_ns, synthesis_ns, stages, skips, fails_at)| Way {
        gap_ns,
        synthesis_ns,
        stages,
        skips,
        fails_at,
    });
    prop::collection::vec(way, 1..20)
}

/// A span in short: begin, end, the activity's name, and whether it did not end as it should.
type Told = (u64, u64, String, bool);

/// The events of one way, and the spans that they stand for.
fn play(way: &Way, index: u32) -> (Vec<TimelineEvent>, Vec<Told>) {
    let (mut events, mut spans) = (Vec::new(), Vec::new());
    let of_partition = |at_ns, kind| TimelineEvent {
        job: Some(u64::from(index / 3)),
        partition: Some(index % 3),
        worker: Some(index % 2),
        ..TimelineEvent::new(at_ns, kind)
    };
    let of_task = |at_ns, kind| TimelineEvent {
        core: "cpu".into(),
        device: Some(0),
        task: Some(u64::from(index) + 100),
        ..of_partition(at_ns, kind)
    };
    let mut now = way.gap_ns + way.synthesis_ns;
    spans.push((way.gap_ns, now, "Synthesis".to_owned(), false));
    let duration_ns = Some(way.synthesis_ns);
    events.push(TimelineEvent { duration_ns, ..of_partition(now, TimelineKind::Synthesized) });
    events.push(of_task(now, TimelineKind::Arrived));
    let mut held: Option<(u64, usize)> = None;
    for (stage, (wait, run, locks)) in Stage::ALL.into_iter().zip(way.stages) {
        if wait > 0 {
            spans.push((now, now + wait, format!("Wait for {stage}"), false));
        }
        now += wait;
        if stage == Stage::STAGE && way.skips {
            events.push(TimelineEvent { duration_ns: Some(wait), ..of_task(now, TimelineKind::Skipped) });
            continue;
        }
        let taken = if held.is_none() { LOCKS[locks] } else { "" };
        events.push(TimelineEvent {
            stage: Some(stage),
            duration_ns: Some(wait),
            locks: taken.to_owned(),
            ..of_task(now, TimelineKind::Entered)
        });
        if !taken.is_empty() {
            held = Some((now, locks));
        }
        let begun = now;
        now += run;
        let fails = stage.index() == way.fails_at;
        spans.push((begun, now, stage.to_string(), fails));
        events.push(TimelineEvent {
            stage: Some(stage),
            duration_ns: Some(run),
            detail: if fails { "a, \"quoted\"\nreason".to_owned() } else { String::new() },
            ..of_task(now, if fails { TimelineKind::Failed } else { TimelineKind::Ended })
        });
        if let Some((since, locks)) = held.filter(|_| fails || stage >= Stage::COMPUTE) {
            spans.extend(LOCKS[locks].split('+').map(|lock| (since, now, format!("lock {lock}"), false)));
            events
                .push(TimelineEvent { locks: LOCKS[locks].to_owned(), ..of_task(now, TimelineKind::Freed) });
            held = None;
        }
        if fails {
            break;
        }
    }
    // Whoever takes a lock for the last stage only keeps it until it leaves.
    events.push(of_task(now, TimelineKind::Left));
    spans.extend(held.into_iter().flat_map(|(since, locks)| {
        LOCKS[locks].split('+').map(move |lock| (since, now, format!("lock {lock}"), true))
    }));
    if way.fails_at >= Stage::ALL.len() {
        let verified = of_task(now + way.gap_ns, TimelineKind::Verified);
        events.push(TimelineEvent { task: None, duration_ns: Some(way.gap_ns), ..verified });
        spans.push((now, now + way.gap_ns, "Verify".to_owned(), false));
    }
    (events, spans)
}

fn written(events: &[TimelineEvent]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    events.iter().for_each(|event| writer.serialize(event).expect("written"));
    writer.into_inner().expect("all of it")
}

fn read(bytes: &[u8]) -> Result<Timeline, interlock_timeline::ReadError> {
    Timeline::read(Path::new(FILE), bytes)
}

fn told(timeline: &Timeline, span: &Span) -> Told {
    (span.begin_ns, span.end_ns, timeline.activity_name(span.activity), span.ending != Ending::Done)
}

proptest! {
    #[test]
    fn well_formed_streams_are_read_back(ways in ways()) {
        let mut events = Vec::new();
        let mut expected = Vec::new();
        for (index, way) in ways.iter().enumerate() {
            let (more, spans) = play(way, index as u32);
            events.extend(more);
            expected.extend(spans);
        }
        // Events of different tasks interleave; those of one keep their order.
        events.sort_by_key(|event| event.at_ns);
        let timeline = read(&written(&events)).expect("well formed");
        let mut found: Vec<_> = timeline.spans.iter().map(|span| told(&timeline, span)).collect();
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(timeline.partitions.len(), ways.len());
        prop_assert_eq!(timeline.unfinished(), 0);
        let skipped = timeline.marks.iter().filter(|mark| mark.kind == TimelineKind::Skipped).count();
        let skips = ways.iter().filter(|way| way.skips && way.fails_at > 0).count();
        prop_assert_eq!(skipped, skips);
    }
}

fn small() -> Vec<u8> {
    std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/small.csv")).expect("it is there")
}

#[test]
fn a_real_timeline_is_read() {
    let timeline = read(&small()).expect("it is one");
    assert_eq!(timeline.devices.len(), 1);
    assert_eq!(timeline.devices[0].policy.as_deref(), Some("two-lock"));
    assert_eq!((timeline.partitions.len(), timeline.tasks.len()), (6, 6));
    assert_eq!(timeline.locks, ["mem", "compute"]);
    let runs = timeline.spans.iter().filter(|span| matches!(span.activity, Activity::Run(_)));
    assert_eq!(runs.clone().count(), 24);
    assert!(runs.clone().all(|span| matches!(span.actor, Actor::Device { device: 0, worker: 0 | 1 })));
}

#[test]
fn a_timeline_that_is_cut_off_is_an_error_or_what_is_left() {
    let whole = small();
    let all = read(&whole).expect("it is one").spans.len();
    for length in 0..whole.len() {
        let at_line_end = length > 0 && whole[length - 1] == b'\n';
        match read(&whole[..length]) {
            Ok(timeline) => assert!(at_line_end && timeline.spans.len() <= all, "{length} bytes"),
            Err(error) => {
                let header_only = whole[..length].iter().filter(|byte| **byte == b'\n').count() <= 1;
                assert!(
                    !at_line_end || header_only || matches!(error.problem, Problem::Empty),
                    "{length}: {error}"
                );
                assert!(error.to_string().starts_with(FILE) && !error.help().is_empty());
            }
        }
    }
}

#[test]
fn flipped_bits_give_a_reading_or_an_error() {
    let whole = small();
    let (mut tried, mut refused) = (0, 0);
    for bit in 0..8 * whole.len() {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        tried += 1;
        if let Err(error) = read(&damaged) {
            assert!(error.to_string().starts_with(FILE) && !error.help().is_empty());
            refused += 1;
        }
    }
    // Unseen are other digits of times and sizes, and letters of names.
    assert!(refused * 3 > tried, "{refused} of {tried} refused");
}

/// A file of some lines, by (time, event, task, stage, duration, locks), and what its error says.
fn refusal(lines: &[(u64, &str, &str, &str, &str, &str)]) -> String {
    let mut text =
        "at_ns,event,core,device,worker,job,partition,task,stage,duration_ns,bytes,locks,detail\n".to_owned();
    for (at, event, task, stage, duration, locks) in lines {
        text += &format!("{at},{event},cpu,0,0,1,0,{task},{stage},{duration},,{locks},\n");
    }
    read(text.as_bytes()).expect_err("it is wrong").to_string()
}

#[test]
fn what_does_not_follow_is_refused_with_its_place() {
    let arrived = (10, "arrived", "7", "", "", "");
    let entered = (20, "entered", "7", "Prepare", "5", "mem");
    let cases = [
        (
            vec![(5, "entered", "7", "Prepare", "1", "")],
            "run.csv:2, column \"task\": task 7 is not on a device",
        ),
        (vec![arrived, arrived], "run.csv:3, column \"task\": task 7 has arrived before"),
        (vec![arrived, (9, "left", "7", "", "", "")], "run.csv:3, column \"at_ns\": at 9 ns, after"),
        (
            vec![arrived, (30, "ended", "7", "Stage", "1", "")],
            "run.csv:3, column \"stage\": task 7 ends Stage, and it is in no",
        ),
        (
            vec![arrived, entered, (30, "ended", "7", "Stage", "1", "")],
            "run.csv:4, column \"stage\": task 7 ends Stage, and it is in Prepare",
        ),
        (
            vec![arrived, entered, (30, "entered", "7", "Stage", "1", "")],
            "run.csv:4, column \"stage\": task 7 enters Stage",
        ),
        (
            vec![arrived, entered, (30, "ended", "7", "Prepare", "11", "")],
            "run.csv:4, column \"duration_ns\": took 11 ns",
        ),
        (
            vec![arrived, entered, (30, "freed", "7", "", "", "gpu")],
            "run.csv:4, column \"locks\": task 7 gives back",
        ),
        (
            vec![arrived, (20, "entered", "7", "", "5", "")],
            "run.csv:3, column \"stage\": empty, and entered needs it",
        ),
        (
            vec![arrived, (20, "flew", "7", "", "", "")],
            "run.csv:3, column \"event\": there is no event \"flew\"",
        ),
        (
            vec![arrived, (20, "entered", "7", "Upload", "", "")],
            "run.csv:3, column \"stage\": \"Upload\" is no value",
        ),
        (
            vec![arrived, (20, "left", "7", "", "", ""), (30, "left", "7", "", "", "")],
            "run.csv:4, column \"task\": task 7 is not",
        ),
        (vec![(20, "verified", "", "", "21", "")], "run.csv:2, column \"duration_ns\": took 21 ns"),
    ];
    for (lines, expected) in cases {
        let found = refusal(&lines);
        assert!(found.starts_with(expected), "{found}\nexpected {expected}");
    }
}

#[test]
fn other_files_are_not_taken_for_timelines() {
    for (bytes, expected) in [
        (&b""[..], "not a timeline"),
        (b"[{\"ph\": \"B\"}]\n", "not a timeline"),
        (b"\x7fELF\x02\x01\xff\xfe\n\n", "not a timeline"),
        (b"at_ns,event,core,device,worker,job,partition,task,stage,duration_ns,bytes,locks,detail\n", "not one event"),
        (b"at_ns,event,core,device,worker,job,partition,task,stage,duration_ns,bytes,locks,detail\n1,left\n", "2 columns"),
    ] {
        let error = read(bytes).expect_err("it is none").to_string();
        assert!(error.contains(expected), "{error}");
    }
}
