//! The gates: who is asked when, in which order, and what each verdict does.

mod support;

use interlock_arbiter::{
    Command, Event, EventError, LockTable, Outcome, PolicyFault, PolicyPort, TaskId, TaskSpec,
};
use interlock_policy_api::{ObservationKind, Request, RequestFlags, Stage, Verdict, View, WakeSet};
use support::*;

const PREPARE: Stage = Stage::PREPARE;
const STAGE: Stage = Stage::STAGE;
const COMPUTE: Stage = Stage::COMPUTE;
const FINISH: Stage = Stage::FINISH;

fn free_for_all() -> LockTable {
    LockTable::default()
}

#[test]
fn a_task_goes_through_its_gates_in_order_and_gives_everything_back() {
    let mut arbiter = arbiter(10, table(&[("all", 1, PREPARE, FINISH), ("gpu", 1, STAGE, COMPUTE)]));
    let mut policy = Scripted::default();
    let mut step = |now, event| arbiter.step(now, event, &mut policy).unwrap();
    let run = |stage, held_bytes, locks: &[&str]| Command::Run {
        task: TaskId(1),
        stage,
        inline: false,
        held_bytes,
        locks: locks.iter().map(|&name| name.to_owned()).collect(),
        waited_ns: 0,
    };
    let freed = |locks: &[&str], bytes| Command::Freed {
        task: TaskId(1),
        locks: locks.iter().map(|&name| name.to_owned()).collect(),
        bytes,
    };
    assert_eq!(step(1, arrived(1, 4, 7)), [run(PREPARE, 0, &["all"])]);
    assert_eq!(step(2, ended(1)), [run(STAGE, 4, &["gpu"])]);
    assert_eq!(step(4, ended(1)), [run(COMPUTE, 7, &[])]);
    assert_eq!(step(7, ended(1)), [freed(&["gpu"], 7), run(FINISH, 0, &[])]);
    assert_eq!(step(9, ended(1)), [freed(&["all"], 0), Command::Left { task: TaskId(1) }]);
    assert!(arbiter.is_idle());
    let told: Vec<_> = policy.told.iter().map(|o| (o.kind.0, o.stage, o.duration_ns, o.bytes)).collect();
    let (entered, ended) = (ObservationKind::ENTERED.0, ObservationKind::STAGE_ENDED.0);
    assert_eq!(
        told,
        [
            (entered, PREPARE, 0, 0),
            (ended, PREPARE, 1, 0),
            (entered, STAGE, 0, 4),
            (ended, STAGE, 2, 0),
            (entered, COMPUTE, 0, 3),
            (ended, COMPUTE, 3, 7),
            (entered, FINISH, 0, 0),
            (ended, FINISH, 2, 0),
            (ObservationKind::TASK_LEFT.0, FINISH, 0, 0),
        ]
    );
    let counters = arbiter.counters();
    assert_eq!((counters.grants, counters.finished, counters.peak_reserved_bytes), ([1; 4], 1, 7));
}

#[test]
fn a_skipped_task_computes_inline_with_every_lock_that_covers_compute() {
    let mut arbiter = arbiter(10, table(&[("gpu", 1, STAGE, COMPUTE), ("kernels", 1, COMPUTE, COMPUTE)]));
    let mut policy = Scripted::default();
    arbiter.step(0, arrived(1, 4, 7), &mut policy).unwrap();
    policy.answers = [Ok(Verdict::skip())].into();
    let commands = arbiter.step(0, ended(1), &mut policy).unwrap();
    assert_eq!(
        commands,
        [
            Command::Skipped { task: TaskId(1), waited_ns: 0 },
            Command::Run {
                task: TaskId(1),
                stage: COMPUTE,
                inline: true,
                held_bytes: 7,
                locks: vec!["gpu".into(), "kernels".into()],
                waited_ns: 0
            }
        ]
    );
    assert_eq!(arbiter.counters().skips, 1);
}

#[test]
fn a_skip_ends_the_spans_that_end_with_stage() {
    let mut arbiter = arbiter(10, table(&[("early", 1, PREPARE, STAGE)]));
    let mut policy = Scripted::default();
    arbiter.step(0, arrived(1, 4, 7), &mut policy).unwrap();
    arbiter.step(0, arrived(2, 4, 7), &mut policy).unwrap();
    assert!(arbiter.snapshot().waiting.iter().any(|waiter| waiter.task == 2 && !waiter.locks_free));
    policy.answers = [Ok(Verdict::skip()), Ok(Verdict::wait(WakeSet::TASK_ARRIVED))].into();
    let commands = arbiter.step(0, ended(1), &mut policy).unwrap();
    assert!(commands.contains(&Command::Freed { task: TaskId(1), locks: vec!["early".into()], bytes: 0 }));
    // Task 1 still waits, at Compute, and task 2 has the lock.
    assert_eq!(runs(&commands), [(2, PREPARE)]);
}

#[test]
fn a_task_that_failed_before_is_not_asked_about_staging() {
    let mut arbiter = arbiter(10, free_for_all());
    let mut policy = Scripted::default();
    let retried = TaskSpec { retry: true, ..spec(1, 4, 7) };
    arbiter.step(0, Event::Arrived(retried), &mut policy).unwrap();
    let commands = arbiter.step(0, ended(1), &mut policy).unwrap();
    assert_eq!(runs(&commands), [(1, COMPUTE)]);
    assert_eq!(policy.take_asked(), [(1, PREPARE), (1, COMPUTE)]);
    assert_eq!(arbiter.counters().skips, 0);
    assert!(!commands.iter().any(|command| matches!(command, Command::Skipped { .. })));
}

#[test]
fn locks_and_bytes_are_granted_together_or_not_at_all() {
    let mut arbiter = arbiter(10, two_lock());
    for task in [1, 2] {
        arbiter.step(0, arrived(task, 4, 8), &mut Honest).unwrap();
    }
    arbiter.step(0, ended(1), &mut Honest).unwrap();
    // `mem` is taken, there would be bytes for the staging alone.
    arbiter.step(0, ended(2), &mut Honest).unwrap();
    let waiter = &arbiter.snapshot().waiting[0];
    assert_eq!((waiter.task, waiter.held_bytes, waiter.locks.len()), (2, 0, 0));
    // Task 1 computes with 8 of 10 bytes: `mem` is free now, the bytes are not.
    arbiter.step(0, ended(1), &mut Honest).unwrap();
    let snapshot = arbiter.snapshot();
    let waiter = &snapshot.waiting[0];
    assert!(waiter.locks_free && !waiter.bytes_free && waiter.locks.is_empty());
    assert_eq!(snapshot.reserved_bytes, 8);
}

#[test]
fn a_policy_may_reserve_up_to_the_peak_when_it_stages() {
    let mut arbiter = arbiter(10, free_for_all());
    let mut policy = Scripted::default();
    arbiter.step(0, arrived(1, 4, 7), &mut policy).unwrap();
    policy.answers = [Ok(Verdict::enter(6))].into();
    arbiter.step(0, ended(1), &mut policy).unwrap();
    arbiter.step(0, ended(1), &mut policy).unwrap();
    let compute = policy.asked.last().unwrap();
    assert_eq!((compute.held_bytes, compute.need_bytes), (6, 1));
    assert!(compute.flags.contains(RequestFlags::STAGED));
}

#[test]
fn whoever_ranks_first_is_asked_first_whatever_order_they_came_in() {
    let mut arbiter = arbiter(10, table(&[("one", 1, PREPARE, PREPARE)]));
    let mut policy = Scripted::default();
    arbiter.step(0, arrived(1, 1, 1), &mut policy).unwrap();
    for (task, priority) in [(2, 0), (3, 5), (4, 5), (5, -1)] {
        arbiter.step(0, Event::Arrived(TaskSpec { priority, ..spec(task, 1, 1) }), &mut policy).unwrap();
    }
    policy.asked.clear();
    let mut started = Vec::new();
    for task in [1, 3, 4, 2, 5] {
        let commands = arbiter.step(0, ended(task), &mut policy).unwrap();
        started.extend(runs(&commands).into_iter().filter(|(_, stage)| *stage == PREPARE));
    }
    assert_eq!(started, [(3, PREPARE), (4, PREPARE), (2, PREPARE), (5, PREPARE)]);
}

#[test]
fn the_policys_rank_goes_before_priority() {
    let mut arbiter = arbiter(10, table(&[("one", 1, PREPARE, PREPARE)]));
    let mut policy = Scripted { rank: Some(|request| Ok(request.peak_bytes as i64)), ..Scripted::default() };
    for (task, peak) in [(1, 1), (2, 9), (3, 2), (4, 2)] {
        arbiter.step(0, arrived(task, 1, peak), &mut policy).unwrap();
    }
    policy.asked.clear();
    arbiter.step(0, ended(1), &mut policy).unwrap();
    // Task 1 itself, now at Stage, ranks first; then the small ones in the order of arrival.
    assert_eq!(policy.take_asked(), [(1, STAGE), (3, PREPARE), (4, PREPARE), (2, PREPARE)]);
}

#[test]
fn flags_are_worked_out_anew_after_each_grant() {
    let mut arbiter = arbiter(10, table(&[("one", 1, PREPARE, PREPARE)]));
    let mut policy = Scripted::default();
    for task in 1..=3 {
        arbiter.step(0, arrived(task, 1, 1), &mut policy).unwrap();
    }
    policy.asked.clear();
    arbiter.step(0, ended(1), &mut policy).unwrap();
    let free: Vec<_> =
        policy.asked.iter().filter(|r| r.gate == PREPARE).map(|r| (r.task, r.grantable())).collect();
    assert_eq!(free, [(2, true), (3, false)]);
}

/// A waiter hears of the events it named and of no others.
#[test]
fn a_waiter_is_asked_again_on_the_events_it_named() {
    let events: [(&str, WakeSet); 5] = [
        ("lock", WakeSet::LOCK_FREED),
        ("bytes", WakeSet::BYTES_FREED),
        ("ended", WakeSet::STAGE_ENDED),
        ("arrived", WakeSet::TASK_ARRIVED),
        ("entered", WakeSet::STAGE_ENTERED),
    ];
    // What happens, and which of the five events it brings about.
    type Happening = (&'static str, Vec<Event>, &'static [&'static str]);
    let happenings: [Happening; 4] = [
        ("a task arrives and waits", vec![arrived(8, 1, 1)], &["arrived"]),
        ("Prepare ends, nothing is freed, Stage is entered", vec![ended(2)], &["ended", "entered"]),
        ("Compute ends with its lock and bytes", vec![ended(3)], &["lock", "bytes", "ended", "entered"]),
        ("a waiter that holds bytes is given up", vec![Event::Cancelled { task: TaskId(4) }], &["bytes"]),
    ];
    for (what, happening, expected) in happenings {
        for (name, wake) in events {
            let mut arbiter = arbiter(100, table(&[("compute", 1, COMPUTE, COMPUTE)]));
            // Task 3 computes, task 4 is staged and waits for the lock, task 2 is in Prepare.
            for event in
                [arrived(3, 1, 1), ended(3), ended(3), arrived(4, 1, 1), ended(4), ended(4), arrived(2, 1, 1)]
            {
                arbiter.step(0, event, &mut Honest).unwrap();
            }
            let mut policy = Scripted::answering([Verdict::wait(wake)]);
            arbiter.step(0, arrived(1, 1, 1), &mut policy).unwrap();
            policy.asked.clear();
            let mut deaf = Deaf { inner: policy, deaf: 8 };
            for event in happening.clone() {
                arbiter.step(0, event, &mut deaf).unwrap();
            }
            let asked = deaf.inner.take_asked().contains(&(1, PREPARE));
            assert_eq!(asked, expected.contains(&name), "{what}, waiting for {name}");
        }
    }
}

/// Lets one task wait for good and is honest about the others.
struct Deaf {
    inner: Scripted,
    deaf: u64,
}

impl PolicyPort for Deaf {
    fn decide(&mut self, request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault> {
        let verdict = self.inner.decide(request, view);
        if request.task == self.deaf { Ok(Verdict::wait_until(WakeSet::NONE, u64::MAX - 1)) } else { verdict }
    }
}

#[test]
fn a_deadline_asks_again_and_grants_nothing() {
    let mut arbiter = arbiter(10, table(&[("one", 1, PREPARE, PREPARE)]));
    let mut policy = Scripted::default();
    arbiter.step(0, arrived(1, 1, 1), &mut policy).unwrap();
    policy.answers = [Ok(Verdict::wait_until(WakeSet::FREED, 50))].into();
    arbiter.step(10, arrived(2, 1, 1), &mut policy).unwrap();
    assert_eq!(arbiter.next_deadline(), Some(50));
    policy.asked.clear();
    arbiter.step(49, Event::Tick, &mut policy).unwrap();
    assert!(policy.asked.is_empty());
    let commands = arbiter.step(50, Event::Tick, &mut policy).unwrap();
    assert_eq!(policy.asked.len(), 1);
    assert!(policy.asked[0].flags.contains(RequestFlags::DEADLINE_PASSED));
    assert_eq!(commands, []);
    assert_eq!(arbiter.next_deadline(), None);
}

#[test]
fn a_deadline_that_passed_is_remembered_at_this_gate_and_forgotten_at_the_next() {
    let mut arbiter = arbiter(10, table(&[("one", 1, PREPARE, PREPARE)]));
    let mut policy = Scripted::default();
    arbiter.step(0, arrived(1, 1, 1), &mut policy).unwrap();
    policy.answers = [Ok(Verdict::wait_until(WakeSet::FREED, 50)), Ok(Verdict::wait(WakeSet::FREED))].into();
    arbiter.step(10, arrived(2, 1, 1), &mut policy).unwrap();
    arbiter.step(60, Event::Tick, &mut policy).unwrap();
    policy.asked.clear();
    arbiter.step(70, ended(1), &mut policy).unwrap();
    arbiter.step(80, ended(2), &mut policy).unwrap();
    let flags: Vec<_> = policy
        .asked
        .iter()
        .filter(|request| request.task == 2)
        .map(|request| (request.gate, request.flags.contains(RequestFlags::DEADLINE_PASSED)))
        .collect();
    assert_eq!(flags, [(PREPARE, true), (STAGE, false)]);
}

#[test]
fn time_does_not_run_backwards() {
    let mut arbiter = arbiter(10, free_for_all());
    arbiter.step(100, arrived(1, 1, 1), &mut Honest).unwrap();
    let mut policy = Scripted::default();
    arbiter.step(40, ended(1), &mut policy).unwrap();
    assert_eq!(policy.asked[0].gate_since_ns, 100);
    assert_eq!(policy.told[0].duration_ns, 0);
}

#[test]
fn a_cancelled_waiter_leaves_and_frees_everything() {
    let mut arbiter = arbiter(10, table(&[("all", 1, PREPARE, FINISH)]));
    let mut policy = Scripted::default();
    arbiter.step(0, arrived(1, 4, 7), &mut policy).unwrap();
    arbiter.step(0, arrived(2, 4, 7), &mut policy).unwrap();
    arbiter.step(0, ended(1), &mut policy).unwrap();
    let before = arbiter.clone();
    assert_eq!(
        arbiter.step(0, Event::Cancelled { task: TaskId(1) }, &mut policy).unwrap(),
        [],
        "it is staging"
    );
    assert_eq!(arbiter, before);
    policy.answers = [Ok(Verdict::wait(WakeSet::TASK_ARRIVED))].into();
    arbiter.step(0, ended(1), &mut policy).unwrap();
    let commands = arbiter.step(0, Event::Cancelled { task: TaskId(1) }, &mut policy).unwrap();
    assert_eq!(commands[0], Command::Freed { task: TaskId(1), locks: vec!["all".into()], bytes: 4 });
    assert_eq!(commands[1], Command::Left { task: TaskId(1) });
    assert_eq!(runs(&commands), [(2, PREPARE)]);
    assert_eq!(arbiter.counters().cancelled, 1);
    assert_eq!(arbiter.step(0, Event::Cancelled { task: TaskId(77) }, &mut policy).unwrap(), []);
}

#[test]
fn events_that_make_no_sense_are_errors_and_change_nothing() {
    let mut arbiter = arbiter(10, free_for_all());
    arbiter.step(5, arrived(1, 4, 7), &mut Honest).unwrap();
    arbiter.step(5, arrived(2, 4, 7), &mut Scripted::answering([Verdict::wait(WakeSet::ANY)])).unwrap();
    let before = arbiter.clone();
    let task = TaskId(3);
    let nonsense = [
        (ended(3), EventError::UnknownTask { task }),
        (ended(2), EventError::NotRunning { task: TaskId(2), gate: PREPARE }),
        (arrived(1, 1, 1), EventError::DuplicateTask { task: TaskId(1) }),
        (arrived(3, 4, 11), EventError::LargerThanDevice { task, peak_bytes: 11, capacity_bytes: 10 }),
        (arrived(3, 4, 3), EventError::StagedAbovePeak { task, staged_bytes: 4, peak_bytes: 3 }),
        (Event::Installed(fallback()), EventError::NotDrained),
    ];
    for (event, error) in nonsense {
        assert_eq!(arbiter.step(9, event, &mut Unasked), Err(error));
        assert_eq!(arbiter, before);
    }
}

#[test]
fn a_failed_stage_frees_everything_and_the_others_go_on() {
    for (outcome, kind) in [
        (Outcome::Failed, ObservationKind::STAGE_FAILED),
        (Outcome::AllocationFailed, ObservationKind::ALLOCATION_FAILED),
    ] {
        let mut arbiter = arbiter(10, table(&[("gpu", 1, STAGE, COMPUTE)]));
        let mut policy = Scripted::default();
        for event in [arrived(1, 4, 7), arrived(2, 4, 7), ended(1), ended(2)] {
            arbiter.step(0, event, &mut policy).unwrap();
        }
        policy.told.clear();
        let commands = arbiter.step(3, Event::StageEnded { task: TaskId(1), outcome }, &mut policy).unwrap();
        assert_eq!(commands[0], Command::Freed { task: TaskId(1), locks: vec!["gpu".into()], bytes: 4 });
        assert_eq!(commands[1], Command::Left { task: TaskId(1) });
        assert_eq!(runs(&commands), [(2, STAGE)]);
        let told: Vec<_> = policy.told.iter().map(|o| (o.kind, o.task, o.bytes)).collect();
        assert_eq!(told[..2], [(kind, 1, 4), (ObservationKind::TASK_LEFT, 1, 0)]);
        assert_eq!(arbiter.counters().failed, 1);
        // It may come back, to be staged inline.
        let retried = TaskSpec { retry: true, ..spec(1, 4, 7) };
        let commands = arbiter.step(4, Event::Arrived(retried), &mut policy).unwrap();
        assert_eq!(runs(&commands), [(1, PREPARE)]);
    }
}

#[test]
fn the_view_shows_the_device() {
    /// Free bytes, waiting, running, staged, free permits.
    type Seen = (u64, [u32; 4], [u32; 4], u32, Vec<u32>);
    struct Look(Vec<Seen>);
    impl PolicyPort for Look {
        fn decide(&mut self, request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault> {
            let free = view.locks.iter().map(|lock| lock.free).collect();
            self.0.push((view.free_bytes, view.waiting, view.running, view.staged, free));
            Ok(honest(request))
        }
    }
    let mut arbiter = arbiter(20, two_lock());
    let mut look = Look(vec![]);
    // Task 1 computes with 8, task 2 is staged with 4 and waits for `compute`.
    for event in
        [arrived(1, 4, 8), ended(1), ended(1), arrived(2, 4, 8), ended(2), ended(2), arrived(3, 1, 1)]
    {
        arbiter.step(0, event, &mut look).unwrap();
    }
    assert_eq!(look.0.last().unwrap(), &(8, [1, 0, 1, 0], [0, 0, 1, 0], 1, vec![1, 0]));
    let device = arbiter.device_view();
    assert_eq!((device.capacity_bytes, device.free_bytes, device.tasks, device.computing), (20, 8, 3, 1));
}

#[test]
fn counters_can_be_taken_by_interval() {
    let mut arbiter = arbiter(10, free_for_all());
    arbiter.step(0, arrived(1, 1, 1), &mut Honest).unwrap();
    assert_eq!(arbiter.take_counters().grants, [1, 0, 0, 0]);
    arbiter.step(0, ended(1), &mut Honest).unwrap();
    assert_eq!(arbiter.counters().grants, [0, 1, 0, 0]);
}

#[test]
fn a_snapshot_is_json_that_names_things() {
    let mut arbiter = arbiter(10, two_lock());
    for event in [arrived(1, 4, 8), ended(1), arrived(2, 4, 8), ended(2)] {
        arbiter.step(0, event, &mut Honest).unwrap();
    }
    let json = serde_json::to_value(arbiter.snapshot()).unwrap();
    assert_eq!(json["phase"], "serving");
    assert_eq!(json["locks"][0]["holders"][0], 1);
    assert_eq!(json["running"][0]["stage"], "Stage");
    assert_eq!(json["waiting"][0]["gate"], "Stage");
    assert_eq!(json["waiting"][0]["verdict"]["wait"]["wake"][1], "bytes_freed");
}
