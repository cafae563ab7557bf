//! What goes wrong with a policy or a task, and what the arbiter makes of it: the rows of the failure
//! model that are the arbiter's to keep, and the drain.

mod support;

use interlock_arbiter::{
    Arbiter, Command, Event, Limits, LockTable, Outcome, Phase, PolicyEnd, PolicyFault, Quarantine, Refusal,
    TaskId,
};
use interlock_policy_api::{ObservationKind, Stage, Verdict, VerdictKind, WakeSet};
use support::*;

const MS: u64 = 1_000_000;

fn refusals(commands: &[Command]) -> Vec<Refusal> {
    let refusal = |command: &Command| match command {
        Command::Refused { refusal, .. } => Some(*refusal),
        _ => None,
    };
    commands.iter().filter_map(refusal).collect()
}

/// Task 1 is about to be asked at the Stage gate, 4 bytes staged and 7 at its peak, with `mem` taken by task 2 if
/// `taken`, and 8 of 10 bytes held by task 3 if `full`.
fn at_stage_gate(taken: bool, full: bool) -> Arbiter {
    let mut arbiter = arbiter(10, table(&[("mem", 1, Stage::STAGE, Stage::STAGE)]));
    if full {
        for event in [arrived(3, 4, 8), ended(3), ended(3)] {
            arbiter.step(0, event, &mut Honest).unwrap();
        }
    }
    if taken {
        for event in [arrived(2, 0, 0), ended(2)] {
            arbiter.step(0, event, &mut Honest).unwrap();
        }
    }
    arbiter.step(0, arrived(1, 4, 7), &mut Honest).unwrap();
    arbiter
}

#[test]
fn each_verdict_that_cannot_be_carried_out_is_refused_counted_and_told() {
    let garbage = Verdict { kind: VerdictKind(77), ..Verdict::UNSET };
    let cases = [
        (false, false, Ok(Verdict::UNSET), Refusal::UnknownKind),
        (false, false, Ok(garbage), Refusal::UnknownKind),
        (false, false, Ok(Verdict::enter(3)), Refusal::TooFewBytes),
        (false, false, Ok(Verdict::enter(8)), Refusal::TooManyBytes),
        (false, false, Ok(Verdict::enter(u64::MAX)), Refusal::TooManyBytes),
        (true, false, Ok(Verdict::enter(4)), Refusal::LockTaken),
        (false, true, Ok(Verdict::enter(4)), Refusal::UnsafeReservation),
        (false, false, Ok(Verdict::wait(WakeSet::NONE)), Refusal::EndlessWait),
        (false, false, Ok(Verdict::wait(WakeSet(1 << 30))), Refusal::EndlessWait),
        (false, false, Ok(Verdict::wait_until(WakeSet::ANY, 5)), Refusal::EndlessWait),
        (false, false, Err(PolicyFault::Panicked), Refusal::Panicked),
        (false, false, Err(PolicyFault::Unreachable), Refusal::Unreachable),
    ];
    for (taken, full, answer, refusal) in cases {
        let mut arbiter = at_stage_gate(taken, full);
        let mut policy = Scripted { answers: [answer].into(), ..Scripted::default() };
        let commands = arbiter.step(5, ended(1), &mut policy).unwrap();
        let gate = Stage::STAGE;
        assert_eq!(commands, [Command::Refused { task: TaskId(1), gate, refusal }], "{answer:?}");
        assert_eq!(arbiter.counters().refusals, [(refusal, 1)].into());
        assert_eq!(policy.told.last().unwrap().kind, ObservationKind::REFUSED);
        // Nothing is lost: it is asked about again, and the device is as it was.
        assert_eq!(arbiter.next_deadline(), Some(5 + MS));
        assert!(arbiter.snapshot().waiting[0].locks.is_empty());
        finish(arbiter).unwrap();
    }
}

#[test]
fn bytes_at_gates_that_need_none_and_skips_elsewhere_are_refused() {
    for (verdict, refusal) in
        [(Verdict::enter(1), Refusal::TooManyBytes), (Verdict::skip(), Refusal::SkipNotAllowed)]
    {
        for gate in [Stage::PREPARE, Stage::FINISH] {
            let mut arbiter = arbiter(10, LockTable::default());
            let mut policy = Scripted::default();
            let way = [arrived(1, 4, 7), ended(1), ended(1), ended(1)];
            let (last, before) =
                if gate == Stage::FINISH { (&way[3], &way[..3]) } else { (&way[0], &way[..0]) };
            for event in before {
                arbiter.step(0, event.clone(), &mut policy).unwrap();
            }
            policy.answers = [Ok(verdict)].into();
            let commands = arbiter.step(0, last.clone(), &mut policy).unwrap();
            assert_eq!(refusals(&commands), [refusal], "{gate}");
        }
    }
}

#[test]
fn a_wait_for_nothing_but_its_deadline_is_good() {
    let mut arbiter = at_stage_gate(false, false);
    let mut policy = Scripted::answering([Verdict::wait_until(WakeSet::NONE, 6)]);
    assert_eq!(arbiter.step(5, ended(1), &mut policy).unwrap(), []);
    assert_eq!(runs(&arbiter.step(6, Event::Tick, &mut policy).unwrap()), [(1, Stage::STAGE)]);
}

#[test]
fn a_refused_waiter_is_asked_again_when_something_is_freed_or_after_a_growing_pause() {
    let limits = Limits { refusals: 100, stall_ns: u64::MAX, ..Limits::DEFAULT };
    let mut arbiter = arbiter_with(10, LockTable::default(), limits);
    let mut policy = Scripted { answers: vec![Err(PolicyFault::Panicked); 12].into(), ..Scripted::default() };
    arbiter.step(0, arrived(1, 4, 7), &mut policy).unwrap();
    let mut now_ns = 0;
    let mut pauses = Vec::new();
    while let Some(at) = arbiter.next_deadline().filter(|_| pauses.len() < 9) {
        pauses.push((at - now_ns) / MS);
        now_ns = at;
        arbiter.step(now_ns, Event::Tick, &mut policy).unwrap();
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
    // An arrival is nothing to a refused waiter, a lock that comes free is.
    policy.asked.clear();
    let mut honest = Scripted::default();
    arbiter.step(now_ns, arrived(2, 4, 7), &mut honest).unwrap();
    assert_eq!(honest.take_asked(), [(2, Stage::PREPARE)]);
    for _ in 0..2 {
        arbiter.step(now_ns, ended(2), &mut honest).unwrap();
    }
    assert!(!honest.take_asked().contains(&(1, Stage::PREPARE)));
    arbiter.step(now_ns, ended(2), &mut honest).unwrap();
    assert!(honest.take_asked().contains(&(1, Stage::PREPARE)), "bytes came free");
}

#[test]
fn too_many_refusals_in_a_row_quarantine_and_no_task_is_lost() {
    let mut arbiter = arbiter(10, two_lock());
    let mut policy = Scripted { answers: vec![Err(PolicyFault::Panicked); 3].into(), ..Scripted::default() };
    let mut commands = arbiter.step(0, arrived(1, 4, 7), &mut policy).unwrap();
    for _ in 0..2 {
        let now_ns = arbiter.next_deadline().unwrap();
        commands = arbiter.step(now_ns, Event::Tick, &mut policy).unwrap();
    }
    let why = Quarantine::TooManyRefusals { last: Refusal::Panicked, limit: 3 };
    let (task, gate, refusal) = (TaskId(1), Stage::PREPARE, Refusal::Panicked);
    assert_eq!(
        commands,
        [Command::Refused { task, gate, refusal }, Command::Quarantined(why), Command::Drained]
    );
    assert_eq!(arbiter.counters().quarantines, 1);
    let commands = arbiter.step(0, Event::Installed(fallback()), &mut Honest).unwrap();
    assert_eq!(runs(&commands), [(1, Stage::PREPARE)]);
    finish(arbiter).unwrap();
}

#[test]
fn a_policy_whose_process_is_gone_is_out_at_once_whoever_finds_it() {
    let end = PolicyEnd::Signal { signal: 11 };
    fn gone<T>() -> Result<T, PolicyFault> {
        Err(PolicyFault::Ended(PolicyEnd::Signal { signal: 11 }))
    }
    let deciding = Scripted { answers: vec![gone()].into(), ..Scripted::default() };
    let ranking = Scripted { rank: Some(|_| gone()), ..Scripted::default() };
    for mut policy in [deciding, ranking] {
        let mut arbiter =
            arbiter_with(10, two_lock(), Limits { refusals: 100, stall_ns: u64::MAX, ..Limits::DEFAULT });
        let commands = arbiter.step(0, arrived(1, 4, 7), &mut policy).unwrap();
        assert_eq!(commands, [Command::Quarantined(Quarantine::Ended(end)), Command::Drained]);
        assert!(arbiter.counters().refusals.is_empty(), "that is no verdict");
        let commands = arbiter.step(0, Event::Installed(fallback()), &mut Honest).unwrap();
        assert_eq!(runs(&commands), [(1, Stage::PREPARE)]);
        finish(arbiter).unwrap();
    }
}

#[test]
fn a_good_verdict_in_between_starts_the_count_anew() {
    let mut arbiter =
        arbiter_with(10, two_lock(), Limits { refusals: 2, stall_ns: u64::MAX, ..Limits::DEFAULT });
    let wait = Verdict::wait_until(WakeSet::NONE, 200 * MS);
    let mut policy = Scripted::answering([Verdict::UNSET, wait, Verdict::UNSET]);
    arbiter.step(0, arrived(1, 4, 7), &mut policy).unwrap();
    for now_ns in [MS, 200 * MS] {
        arbiter.step(now_ns, Event::Tick, &mut policy).unwrap();
    }
    assert_eq!(arbiter.counters().refusals[&Refusal::UnknownKind], 2);
    assert_eq!(arbiter.phase(), Phase::Serving);
}

#[test]
fn a_rank_that_fails_is_counted_the_order_is_that_of_priority_and_the_limit_holds() {
    let mut arbiter =
        arbiter_with(10, LockTable::default(), Limits { refusals: 3, stall_ns: STALL_NS, ..Limits::DEFAULT });
    let mut policy = Scripted { rank: Some(|_| Err(PolicyFault::Panicked)), ..Scripted::default() };
    for task in 1..=2 {
        let commands = arbiter.step(0, arrived(task, 1, 1), &mut policy).unwrap();
        assert_eq!(refusals(&commands), [Refusal::Panicked]);
        assert_eq!(runs(&commands), [(task, Stage::PREPARE)]);
    }
    let commands = arbiter.step(0, arrived(3, 1, 1), &mut policy).unwrap();
    let why = Quarantine::TooManyRefusals { last: Refusal::Panicked, limit: 3 };
    assert_eq!(commands[1..], [Command::Quarantined(why)]);
    assert_eq!(policy.asked.len(), 2, "it is not asked after that");
    finish(arbiter).unwrap();
}

#[test]
fn an_observe_that_fails_is_counted_and_the_limit_holds() {
    let mut arbiter = arbiter(10, LockTable::default());
    let mut policy = Scripted { observe_fails: true, ..Scripted::default() };
    let commands = arbiter.step(0, arrived(1, 1, 1), &mut policy).unwrap();
    assert_eq!((runs(&commands).len(), refusals(&commands).len()), (1, 1));
    let commands = arbiter.step(0, ended(1), &mut policy).unwrap();
    assert_eq!(refusals(&commands).len(), 2);
    assert!(commands.iter().any(|command| matches!(command, Command::Quarantined(_))));
    assert_eq!(policy.told.len(), 3, "a policy on its way out is told nothing");
    finish(arbiter).unwrap();
}

#[test]
fn a_policy_that_lets_nobody_in_while_the_device_idles_is_quarantined() {
    let mut arbiter = arbiter(10, two_lock());
    let deaf = Verdict::wait(WakeSet::TASK_ARRIVED);
    let mut policy = Scripted { answers: vec![Ok(deaf); 100].into(), ..Scripted::default() };
    arbiter.step(7, arrived(1, 4, 7), &mut policy).unwrap();
    // More tasks that are not let in, or that give up, are no progress.
    arbiter.step(STALL_NS / 2, arrived(2, 4, 7), &mut policy).unwrap();
    arbiter.step(STALL_NS / 2, Event::Cancelled { task: TaskId(2) }, &mut policy).unwrap();
    assert_eq!(arbiter.next_deadline(), Some(7 + STALL_NS));
    assert_eq!(arbiter.step(6 + STALL_NS, Event::Tick, &mut policy).unwrap(), []);
    let commands = arbiter.step(7 + STALL_NS, Event::Tick, &mut policy).unwrap();
    let why = Quarantine::Stalled { idle_ns: STALL_NS };
    assert_eq!(commands, [Command::Quarantined(why), Command::Drained]);
    finish(arbiter).unwrap();
}

#[test]
fn a_device_that_works_or_is_empty_does_not_stall() {
    let mut arbiter = arbiter(10, two_lock());
    let mut policy = Scripted::default();
    arbiter.step(0, arrived(1, 4, 7), &mut policy).unwrap();
    policy.answers = vec![Ok(Verdict::wait(WakeSet::FREED)); 3].into();
    arbiter.step(0, arrived(2, 4, 7), &mut policy).unwrap();
    assert_eq!(arbiter.next_deadline(), None);
    arbiter.step(5 * STALL_NS, Event::Tick, &mut policy).unwrap();
    // The stage that ends now is what moved: the watchdog counts from here.
    arbiter.step(6 * STALL_NS, ended(1), &mut policy).unwrap();
    assert_eq!(arbiter.next_deadline(), Some(7 * STALL_NS));
    for task in [1, 2] {
        arbiter.step(6 * STALL_NS, Event::Cancelled { task: TaskId(task) }, &mut policy).unwrap();
    }
    assert_eq!((arbiter.next_deadline(), arbiter.phase()), (None, Phase::Serving));
}

/// Two tasks staged, one of which computes, one in Prepare, one at the Stage gate.
fn busy() -> Arbiter {
    let mut arbiter = arbiter(
        20,
        table(&[("all", 9, Stage::PREPARE, Stage::FINISH), ("gpu", 1, Stage::COMPUTE, Stage::COMPUTE)]),
    );
    for event in
        [arrived(1, 4, 8), ended(1), ended(1), arrived(2, 4, 9), ended(2), ended(2), arrived(3, 4, 4)]
    {
        arbiter.step(0, event, &mut Honest).unwrap();
    }
    let mut policy = Scripted::default();
    arbiter.step(0, arrived(4, 4, 4), &mut policy).unwrap();
    policy.answers = [Ok(Verdict::wait(WakeSet::FREED))].into();
    arbiter.step(0, ended(4), &mut policy).unwrap();
    arbiter
}

#[test]
fn a_policy_is_switched_under_load_and_no_task_starts_over() {
    let mut arbiter = busy();
    let freed = |task, locks: &[&str], bytes| Command::Freed {
        task: TaskId(task),
        locks: locks.iter().map(|&name| name.to_owned()).collect(),
        bytes,
    };
    // Task 4 holds no bytes: it gives back its lock and stands.
    assert_eq!(arbiter.step(0, Event::Drain, &mut Unasked).unwrap(), [freed(4, &["all"], 0)]);
    // Task 2 is staged and may not compute beside task 1, drain or not.
    assert_eq!(arbiter.step(0, ended(3), &mut Unasked).unwrap(), [freed(3, &["all"], 0)]);
    let commands = arbiter.step(0, ended(1), &mut Unasked).unwrap();
    assert_eq!(runs(&commands), [(1, Stage::FINISH), (2, Stage::COMPUTE)]);
    // Who arrives now stands, and may give up.
    assert_eq!(arbiter.step(0, arrived(5, 1, 1), &mut Unasked).unwrap(), []);
    assert_eq!(arbiter.step(0, arrived(6, 1, 1), &mut Unasked).unwrap(), []);
    let commands = arbiter.step(0, Event::Cancelled { task: TaskId(6) }, &mut Unasked).unwrap();
    assert_eq!(commands, [Command::Left { task: TaskId(6) }]);
    arbiter.step(0, ended(1), &mut Unasked).unwrap();
    arbiter.step(0, ended(2), &mut Unasked).unwrap();
    let commands = arbiter.step(0, ended(2), &mut Unasked).unwrap();
    assert_eq!(commands.last(), Some(&Command::Drained));
    // The next policy is asked about everybody who stands, at the gate where they stand.
    let mut policy = Scripted::default();
    let commands = arbiter.step(0, Event::Installed(two_lock()), &mut policy).unwrap();
    assert_eq!(policy.take_asked(), [(3, Stage::STAGE), (4, Stage::STAGE), (5, Stage::PREPARE)]);
    assert_eq!(runs(&commands), [(3, Stage::STAGE), (5, Stage::PREPARE)]);
    finish(arbiter).unwrap();
}

#[test]
fn a_switch_that_fails_leaves_the_old_policy_at_work() {
    let mut arbiter = busy();
    let old = arbiter.lock_table().clone();
    arbiter.step(0, Event::Drain, &mut Unasked).unwrap();
    while arbiter.phase() != Phase::Drained {
        let running = arbiter.snapshot().running[0].task;
        arbiter.step(0, ended(running), &mut Unasked).unwrap();
    }
    let commands = arbiter.step(0, Event::Installed(old), &mut Honest).unwrap();
    assert_eq!(runs(&commands), [(3, Stage::STAGE), (4, Stage::STAGE)]);
    finish(arbiter).unwrap();
}

#[test]
fn the_drain_lets_the_smallest_rest_through_first() {
    // Rests of 5 and 2, and 6 bytes free: both fit, one after the other only.
    let mut arbiter = arbiter(14, LockTable::default());
    let mut policy = Scripted::default();
    for task in [(1, 4, 9), (2, 4, 6)] {
        arbiter.step(0, arrived(task.0, task.1, task.2), &mut policy).unwrap();
        arbiter.step(0, ended(task.0), &mut policy).unwrap();
        policy.answers = [Ok(Verdict::wait_until(WakeSet::NONE, 100))].into();
        arbiter.step(0, ended(task.0), &mut policy).unwrap();
    }
    let commands = arbiter.step(0, Event::Drain, &mut Unasked).unwrap();
    assert_eq!(runs(&commands), [(2, Stage::COMPUTE)]);
    let commands = arbiter.step(0, failed(2), &mut Unasked).unwrap();
    assert_eq!(runs(&commands), [(1, Stage::COMPUTE)]);
}

#[test]
fn an_empty_device_is_drained_at_once_and_says_so_to_everybody_who_asks() {
    let mut arbiter = arbiter(10, two_lock());
    for _ in 0..2 {
        assert_eq!(arbiter.step(0, Event::Drain, &mut Unasked).unwrap(), [Command::Drained]);
    }
    assert_eq!(arbiter.next_deadline(), None);
    assert_eq!(arbiter.step(0, Event::Installed(fallback()), &mut Unasked).unwrap(), []);
    assert_eq!(arbiter.phase(), Phase::Serving);
}

#[test]
fn a_drain_during_a_drain_changes_nothing() {
    let mut arbiter = busy();
    arbiter.step(0, Event::Drain, &mut Unasked).unwrap();
    let before = arbiter.clone();
    assert_eq!(arbiter.step(0, Event::Drain, &mut Unasked).unwrap(), []);
    assert_eq!(arbiter, before);
}

#[test]
fn failures_during_a_drain_free_what_the_drain_waits_for() {
    for outcome in [Outcome::Failed, Outcome::AllocationFailed] {
        let mut arbiter = busy();
        arbiter.step(0, Event::Drain, &mut Unasked).unwrap();
        arbiter.step(0, Event::StageEnded { task: TaskId(3), outcome }, &mut Unasked).unwrap();
        let commands = arbiter.step(0, Event::Cancelled { task: TaskId(2) }, &mut Unasked).unwrap();
        assert_eq!(commands[0], Command::Freed { task: TaskId(2), locks: vec!["all".into()], bytes: 4 });
        let commands = arbiter.step(0, Event::StageEnded { task: TaskId(1), outcome }, &mut Unasked).unwrap();
        assert_eq!(commands.last(), Some(&Command::Drained));
    }
}
