//! The four policies, from their libraries, in the real arbiter: whatever tasks come, every task
//! finishes, no verdict is refused, and nobody waits for ever.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use interlock_engine::host::{OptionsText, PolicyLibrary, Verified};
use interlock_engine::interlock::{
    Arbiter, ArbiterConfig, Command, Event, Limits, Outcome, TaskId, TaskSpec,
};
use interlock_policy_api::Stage;
use interlock_tests::libraries::library;
use proptest::prelude::*;

const CAPACITY: u64 = 1_000;

/// A task and how long each of its stages takes, in nanoseconds.
#[derive(Clone, Debug)]
struct Work {
    arrives_ns: u64,
    staged_bytes: u64,
    peak_bytes: u64,
    priority: i32,
    durations_ns: [u64; 4],
    outcome: Outcome,
}

/// What a run did.
#[derive(Default)]
struct Run {
    /// Tasks in the order in which they left.
    left: Vec<u64>,
    staged: Vec<u64>,
    refused: u64,
    most_computing: usize,
    overlapped: bool,
    end_ns: u64,
}

fn open(policy: &str, options: &str) -> PolicyLibrary {
    let verified = Verified::file(&library(policy), Some(policy), None, &OptionsText::new(options));
    PolicyLibrary::open(verified.expect("the library is good")).expect("the library is good")
}

/// Runs all of `work` on one device with `workers` workers: a worker takes the next task when it has none.
fn run(library: &PolicyLibrary, work: &[Work], workers: usize) -> Run {
    // No good policy holds anybody back, however little the watchdog's patience.
    let limits = Limits { stall_ns: 1, ..Limits::DEFAULT };
    let config = ArbiterConfig { device: 0, capacity_bytes: CAPACITY, workers: workers as u32, limits };
    let mut arbiter = Arbiter::new(config, library.locks().clone());
    let mut policy = library.instantiate().expect("the options are good");
    let mut ends: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    let mut inside: HashMap<u64, Stage> = HashMap::new();
    let mut run = Run::default();
    let (mut now_ns, mut next, mut active) = (0, 0, 0);
    loop {
        let event = if next < work.len() && active < workers && work[next].arrives_ns <= now_ns {
            let Work { staged_bytes, peak_bytes, priority, .. } = work[next];
            let spec = TaskSpec {
                task: TaskId(next as u64),
                job: 0,
                partition: next as u32,
                priority,
                staged_bytes,
                peak_bytes,
                retry: false,
            };
            (next, active) = (next + 1, active + 1);
            Event::Arrived(spec)
        } else {
            let arrival = (next < work.len() && active < workers).then(|| work[next].arrives_ns);
            let end = ends.peek().map(|Reverse((at, _))| *at);
            let times = [arrival, end, arbiter.next_deadline().filter(|at| *at != u64::MAX)];
            let Some(at) = times.into_iter().flatten().min() else { break };
            now_ns = at.max(now_ns);
            if arrival.is_some_and(|at| at <= now_ns) {
                continue;
            }
            match ends.peek() {
                Some(&Reverse((at, task))) if at <= now_ns => {
                    ends.pop();
                    let stage = inside.remove(&task).expect("it was inside a stage");
                    let outcome =
                        if stage == Stage::COMPUTE { work[task as usize].outcome } else { Outcome::Done };
                    Event::StageEnded { task: TaskId(task), outcome }
                }
                _ => Event::Tick,
            }
        };
        for command in arbiter.step(now_ns, event, &mut policy).expect("the events make sense") {
            match command {
                Command::Run { task, stage, .. } => {
                    inside.insert(task.0, stage);
                    let duration = work[task.0 as usize].durations_ns[stage.index()];
                    ends.push(Reverse((now_ns + duration, task.0)));
                    let computing = inside.values().filter(|stage| **stage == Stage::COMPUTE).count();
                    run.most_computing = run.most_computing.max(computing);
                    let staging = inside.values().any(|stage| *stage == Stage::STAGE);
                    run.overlapped |= staging && computing > 0;
                    if stage == Stage::STAGE {
                        run.staged.push(task.0);
                    }
                }
                Command::Left { task } => {
                    run.left.push(task.0);
                    active -= 1;
                }
                Command::Refused { .. } => run.refused += 1,
                Command::Quarantined(why) => panic!("quarantined: {why:?}\n{:?}", arbiter.snapshot()),
                Command::Slow { .. } => unreachable!("nobody measures"),
                Command::Skipped { .. } | Command::Freed { .. } | Command::Drained => {}
            }
        }
    }
    assert!(arbiter.is_idle(), "tasks wait for ever: {:?}", arbiter.snapshot());
    run.end_ns = now_ns;
    run
}

/// A task of the usual make: stages take 1, 10, 100 and 1 milliseconds.
fn usual(staged_bytes: u64, peak_bytes: u64) -> Work {
    Work {
        arrives_ns: 0,
        staged_bytes,
        peak_bytes,
        priority: 0,
        durations_ns: [1_000_000, 10_000_000, 100_000_000, 1_000_000],
        outcome: Outcome::Done,
    }
}

fn any_work() -> impl Strategy<Value = Work> {
    let outcome = prop_oneof![
        8 => Just(Outcome::Done),
        1 => Just(Outcome::Failed),
        1 => Just(Outcome::AllocationFailed),
    ];
    let bytes = (0..=CAPACITY).prop_flat_map(|peak| (0..=peak, Just(peak)));
    let durations = prop::array::uniform4(0u64..200_000_000);
    (0u64..500_000_000, bytes, -2..3i32, durations, outcome).prop_map(
        |(arrives_ns, (staged_bytes, peak_bytes), priority, durations_ns, outcome)| Work {
            arrives_ns,
            staged_bytes,
            peak_bytes,
            priority,
            durations_ns,
            outcome,
        },
    )
}

/// A policy with options, of all sorts.
fn any_policy() -> impl Strategy<Value = (&'static str, String)> {
    let tokens = (0.05f64..=1.0, prop_oneof![Just(0), 1..=CAPACITY], 1u32..4, 0u64..300);
    prop_oneof![
        Just(("serialized-fallback", String::new())),
        Just(("single-lock", String::new())),
        (0u64..300).prop_map(|wait| ("two-lock", format!("(wait_ms: {wait})"))),
        tokens.prop_map(|(share, bytes, permits, wait)| {
            let options = format!(
                "(token_share: {share:?}, token_bytes: {bytes}, compute_permits: {permits}, wait_ms: {wait})"
            );
            ("vram-token", options)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_task_finishes_and_no_verdict_is_refused(
        (policy, options) in any_policy(),
        mut work in prop::collection::vec(any_work(), 1..40),
        workers in 1usize..7,
    ) {
        work.sort_by_key(|work| work.arrives_ns);
        let run = run(&open(policy, &options), &work, workers);
        prop_assert_eq!(run.left.len(), work.len());
        prop_assert_eq!(run.refused, 0);
    }
}

/// One large task among a stream of small ones that never lets up.
fn a_large_task_in_a_stream(large: Work) -> Vec<Work> {
    let small = usual(200, 250);
    let mut work: Vec<Work> = (0..400)
        .map(|index| Work {
            durations_ns: [1_000_000, 7_000_000, 90_000_000 + index % 7 * 5_000_000, 1_000_000],
            ..small.clone()
        })
        .collect();
    work.insert(20, large);
    work
}

#[test]
fn a_large_task_does_not_starve() {
    // Needs all of the device to compute; or already to be staged.
    for large in [usual(300, CAPACITY), usual(CAPACITY, CAPACITY), usual(100, 950)] {
        let work = a_large_task_in_a_stream(large);
        for (policy, options) in [
            ("serialized-fallback", ""),
            ("single-lock", ""),
            ("two-lock", ""),
            ("two-lock", "(wait_ms: 0)"),
            ("vram-token", ""),
            ("vram-token", "(token_share: 1.0)"),
            ("vram-token", "(token_share: 1.0, compute_permits: 1)"),
            ("vram-token", "(token_share: 1.0, compute_permits: 4, wait_ms: 300)"),
        ] {
            for workers in [2, 3, 6] {
                let left = run(&open(policy, options), &work, workers).left;
                let place = left.iter().position(|task| *task == 20).expect("it finishes");
                assert!(place < 80, "{policy} {options}, {workers} workers: {place} tasks went first");
            }
        }
    }
}

#[test]
fn alike_tasks_go_in_the_order_of_their_arrival() {
    let work = vec![usual(200, 400); 30];
    for policy in ["serialized-fallback", "single-lock", "two-lock", "vram-token"] {
        let left = run(&open(policy, ""), &work, 3).left;
        assert!(left.is_sorted(), "{policy}: {left:?}");
    }
}

#[test]
fn an_urgent_task_goes_first() {
    let mut work = vec![usual(200, 400); 12];
    work[5].priority = 1;
    for policy in ["serialized-fallback", "single-lock", "two-lock"] {
        let left = run(&open(policy, ""), &work, 12).left;
        let place = left.iter().position(|task| *task == 5).expect("it finishes");
        assert!(place <= 2, "{policy}: {left:?}");
    }
}

/// Each policy is the protocol that it says it is.
#[test]
fn what_overlaps_is_what_the_protocol_says() {
    let work = vec![usual(200, 400); 20];
    let facts = |policy: &str, options: &str| {
        let run = run(&open(policy, options), &work, 4);
        (run.staged.len(), run.overlapped, run.most_computing)
    };
    assert_eq!(facts("serialized-fallback", ""), (0, false, 1));
    assert_eq!(facts("single-lock", ""), (20, false, 1));
    assert_eq!(facts("two-lock", ""), (20, true, 1));
    assert_eq!(facts("vram-token", "(compute_permits: 2)"), (20, true, 2));
}

/// Uploads hidden behind Compute are time won: 20 tasks of 10 ms Stage and 100 ms Compute.
#[test]
fn staging_ahead_wins_the_uploads() {
    let work = vec![usual(200, 400); 20];
    let end_ms = |policy: &str| run(&open(policy, ""), &work, 3).end_ns / 1_000_000;
    assert_eq!(end_ms("single-lock"), 1 + 20 * 110 + 1);
    assert_eq!(end_ms("two-lock"), 1 + 10 + 20 * 100 + 1);
}
