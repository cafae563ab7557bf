//! The arbiter against a naive one, over random events and random verdicts, garbage included.

mod reference;
mod support;

use std::collections::BTreeSet;

use interlock_arbiter::{Arbiter, Event, Limits, LockSpec, LockTable, Outcome, Phase, TaskId, TaskSpec};
use interlock_policy_api::Stage;
use proptest::prelude::*;
use proptest::sample::Index;
use reference::{At, BUDGET_NS, Mode, Ranking, Reference};
use support::{arbiter_with, fallback, finish};

const CAPACITY: u64 = 20;

/// What happens next.
#[derive(Clone, Debug)]
enum Op {
    Arrive(TaskSpec),
    /// One of the running stages ends.
    End(Index, Outcome),
    /// A stage of this task ends, if it is inside one.
    EndOf(u64, Outcome),
    Cancel(u64),
    Tick,
    Drain,
    Install(LockTable),
    /// Whatever brings an arbiter that drains back to work.
    Restart,
}

fn spec() -> impl Strategy<Value = TaskSpec> {
    (0..8u64, 0..3u64, -1..2i32, 0..10u64, 0..14u64, proptest::bool::weighted(0.2)).prop_map(
        |(task, job, priority, staged_bytes, extra, retry)| TaskSpec {
            task: TaskId(task),
            job,
            partition: task as u32,
            priority,
            staged_bytes,
            // One in fourteen says it is staged with more than its peak.
            peak_bytes: if extra == 13 { staged_bytes / 2 } else { staged_bytes + extra },
            retry,
        },
    )
}

/// Sound lock tables: random locks, those left out that cross an earlier one.
fn locks() -> impl Strategy<Value = LockTable> {
    let lock = (1..3u32, 0..4u32, 0..4u32);
    proptest::collection::vec(lock, 0..6).prop_map(|locks| {
        let mut kept: Vec<LockSpec> = Vec::new();
        for (index, (permits, a, b)) in locks.into_iter().enumerate() {
            let lock = LockSpec {
                name: format!("l{index}"),
                permits,
                first: Stage(a.min(b)),
                last: Stage(a.max(b)),
            };
            let mut with = kept.clone();
            with.push(lock);
            if LockTable::new(with.clone()).is_ok() {
                kept = with;
            }
        }
        LockTable::new(kept).expect("each lock was checked")
    })
}

fn op() -> impl Strategy<Value = Op> {
    let outcome = prop_oneof![
        8 => Just(Outcome::Done),
        1 => Just(Outcome::Failed),
        1 => Just(Outcome::AllocationFailed)
    ];
    prop_oneof![
        6 => spec().prop_map(Op::Arrive),
        12 => (any::<Index>(), outcome.clone()).prop_map(|(index, outcome)| Op::End(index, outcome)),
        1 => (0..8u64, outcome).prop_map(|(task, outcome)| Op::EndOf(task, outcome)),
        1 => (0..8u64).prop_map(Op::Cancel),
        3 => Just(Op::Tick),
        1 => Just(Op::Drain),
        1 => locks().prop_map(Op::Install),
        1 => Just(Op::Restart),
    ]
}

/// How far the clock goes on, in nanoseconds.
fn pause() -> impl Strategy<Value = u64> {
    prop_oneof![6 => Just(0), 2 => Just(1), 3 => 1..3_000_000u64, 1 => Just(150_000_000)]
}

fn limits() -> impl Strategy<Value = Limits> {
    let never = u64::MAX / 2;
    (
        prop_oneof![Just(1), Just(3), Just(1000)],
        prop_oneof![Just(100_000_000), Just(never)],
        prop_oneof![Just(1), Just(2_000_000), Just(never)],
        prop_oneof![Just(1), Just(2), Just(1000)],
    )
        .prop_map(|(refusals, stall_ns, starve_ns, slow)| Limits {
            refusals,
            stall_ns,
            starve_ns,
            decision_ns: BUDGET_NS,
            slow,
        })
}

fn ranking() -> impl Strategy<Value = Ranking> {
    prop_oneof![Just(Ranking::Priority), Just(Ranking::SmallPeakFirst), Just(Ranking::FailsAboutOdd)]
}

fn event(op: Op, reference: &Reference) -> Option<Event> {
    Some(match op {
        Op::Arrive(spec) => Event::Arrived(spec),
        Op::End(index, outcome) => {
            let running = reference.running();
            let task = TaskId(*running.get(index.index(running.len().max(1)))?);
            Event::StageEnded { task, outcome }
        }
        Op::EndOf(task, outcome) => Event::StageEnded { task: TaskId(task), outcome },
        Op::Cancel(task) => Event::Cancelled { task: TaskId(task) },
        Op::Tick => Event::Tick,
        Op::Drain => Event::Drain,
        Op::Install(table) => Event::Installed(table),
        Op::Restart => match (reference.mode, reference.running().first()) {
            (Mode::Drained, _) => Event::Installed(fallback()),
            (Mode::Draining, Some(&task)) => Event::StageEnded { task: TaskId(task), outcome: Outcome::Done },
            _ => return None,
        },
    })
}

/// What the arbiter shows of itself is what the reference holds.
fn compare(arbiter: &Arbiter, reference: &Reference) {
    let snapshot = arbiter.snapshot();
    assert_eq!(snapshot.reserved_bytes, reference.held());
    assert_eq!(snapshot.next_deadline_ns, reference.deadline());
    let mode = match snapshot.phase {
        Phase::Serving => Mode::Serving,
        Phase::Draining => Mode::Draining,
        Phase::Drained => Mode::Drained,
    };
    assert_eq!(mode, reference.mode);
    assert_eq!(snapshot.waiting.len() + snapshot.running.len(), reference.tasks.len());
    let locks = |task: u64| -> BTreeSet<&str> {
        reference.tasks[&task].locks.iter().map(|&lock| reference.locks[lock].name.as_str()).collect()
    };
    let own = |locks: &[String]| locks.iter().map(String::clone).collect::<BTreeSet<_>>();
    let same = |shown: &[String], task| own(shown).iter().map(String::as_str).eq(locks(task));
    for shown in &snapshot.waiting {
        let waiting = reference.waiting(shown.task).expect("it waits");
        assert_eq!(Stage::from_name(shown.gate), Some(Stage(waiting.gate)));
        assert_eq!(shown.held_bytes, reference.tasks[&shown.task].held);
        assert_eq!(shown.held_back_since_ns, waiting.held_back_since);
        assert_eq!(shown.passed_over as usize, waiting.passed_by.len());
        assert!(same(&shown.locks, shown.task));
    }
    for shown in &snapshot.running {
        let task = &reference.tasks[&shown.task];
        let inside = matches!(task.at, At::Inside { stage, .. } if Stage(stage).name() == Some(shown.stage));
        assert!(inside && shown.held_bytes == task.held && same(&shown.locks, shown.task));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn the_arbiter_does_what_the_naive_one_does(
        table in locks(),
        limits in limits(),
        ranking in ranking(),
        steps in proptest::collection::vec((op(), pause(), proptest::collection::vec(any::<u8>(), 0..6)), 1..80),
    ) {
        let mut arbiter = arbiter_with(CAPACITY, table.clone(), limits);
        let mut reference = Reference::new(CAPACITY, limits, table.locks().to_vec(), ranking);
        let mut now = 0;
        for (op, pause, seeds) in steps {
            let Some(event) = event(op, &reference) else { continue };
            now += pause;
            reference.seeds = seeds.into();
            let before = arbiter.clone();
            match reference.take(now, &event) {
                Ok(()) => {
                    let commands = arbiter.step(now, event, &mut reference).expect("a good event");
                    reference.end_step(&commands);
                }
                Err(error) => {
                    prop_assert_eq!(arbiter.step(now, event, &mut reference), Err(error));
                    prop_assert_eq!(&arbiter, &before);
                }
            }
            compare(&arbiter, &reference);
        }
        prop_assert!(finish(arbiter).is_ok());
    }

    /// Two arbiters that see the same events and get the same answers are the same.
    #[test]
    fn a_run_can_be_replayed(
        table in locks(),
        limits in limits(),
        steps in proptest::collection::vec((op(), pause(), proptest::collection::vec(any::<u8>(), 0..6)), 1..40),
    ) {
        let run = || {
            let mut arbiter = arbiter_with(CAPACITY, table.clone(), limits);
            let mut reference = Reference::new(CAPACITY, limits, table.locks().to_vec(), Ranking::Priority);
            let mut said = Vec::new();
            for (op, pause, seeds) in steps.clone() {
                let Some(event) = event(op, &reference) else { continue };
                reference.seeds = seeds.into();
                let now = reference.now + pause;
                if reference.take(now, &event).is_ok() {
                    let commands = arbiter.step(now, event, &mut reference).expect("a good event");
                    reference.end_step(&commands);
                    said.extend(commands);
                }
            }
            (arbiter, said)
        };
        prop_assert_eq!(run(), run());
    }
}
