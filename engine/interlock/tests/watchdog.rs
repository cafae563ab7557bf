//! The watchdog's limits, one behaviour a test, and what a quarantine leaves behind.

mod support;

use interlock_arbiter::{
    Arbiter, Command, Event, Limits, LockTable, Phase, PolicyEnd, PolicyFault, PolicyPort, Quarantine,
    Refusal, TaskId, TaskSpec,
};
use interlock_policy_api::{Observation, Request, Stage, Verdict, View, WakeSet};
use support::*;

const MS: u64 = 1_000_000;
const NEVER: u64 = u64::MAX;
const CAREFREE: Limits =
    Limits { refusals: 1000, stall_ns: NEVER, starve_ns: NEVER, decision_ns: NEVER, slow: 1000 };

/// Honest, but keeps some tasks at some gates.
struct Keeps(fn(&Request) -> bool);

impl PolicyPort for Keeps {
    fn decide(&mut self, request: &Request, _view: &View<'_>) -> Result<Verdict, PolicyFault> {
        Ok(if self.0(request) { Verdict::wait(WakeSet::TASK_ARRIVED) } else { honest(request) })
    }
}

fn quarantined(commands: &[Command]) -> Option<Quarantine> {
    commands.iter().find_map(|command| match command {
        Command::Quarantined(why) => Some(*why),
        _ => None,
    })
}

fn step(arbiter: &mut Arbiter, now_ns: u64, event: Event, policy: &mut dyn PolicyPort) -> Vec<Command> {
    arbiter.step(now_ns, event, policy).expect("the event makes sense")
}

#[test]
fn a_task_that_could_go_is_held_back_although_the_device_is_not_idle() {
    let mut arbiter = arbiter_with(10, two_lock(), Limits { stall_ns: STALL_NS, ..CAREFREE });
    let mut policy = Keeps(|request| request.gate == Stage::STAGE);
    step(&mut arbiter, 0, arrived(1, 4, 7), &mut policy);
    step(&mut arbiter, 5, ended(1), &mut policy);
    // Others come and are prepared: something moves, but nothing that task 1 could wait for.
    step(&mut arbiter, STALL_NS / 2, arrived(2, 4, 7), &mut policy);
    step(&mut arbiter, STALL_NS / 2 + 1, ended(2), &mut policy);
    step(&mut arbiter, STALL_NS / 2 + 2, arrived(3, 4, 7), &mut policy);
    assert_eq!(arbiter.snapshot().waiting[0].held_back_since_ns, Some(5));
    assert_eq!(arbiter.next_deadline(), Some(5 + STALL_NS));
    assert_eq!(step(&mut arbiter, 4 + STALL_NS, Event::Tick, &mut policy), []);
    let commands = step(&mut arbiter, 5 + STALL_NS, Event::Tick, &mut policy);
    let why = Quarantine::HeldBack { task: TaskId(1), gate: Stage::STAGE, held_ns: STALL_NS };
    assert_eq!(quarantined(&commands), Some(why));
    finish(arbiter).unwrap();
}

#[test]
fn nobody_is_held_back_while_something_runs_that_it_may_wait_for() {
    let mut arbiter = arbiter_with(10, LockTable::default(), Limits { stall_ns: 1, ..CAREFREE });
    for (now_ns, event) in [arrived(1, 1, 1), ended(1), ended(1)].into_iter().enumerate() {
        step(&mut arbiter, now_ns as u64, event, &mut Honest);
    }
    // Task 1 computes for long. The policy lets nobody else compute, or be staged, without a lock that says so.
    let mut policy = Keeps(|request| request.task == 2 && request.gate >= Stage::STAGE);
    step(&mut arbiter, 3, arrived(2, 1, 1), &mut policy);
    step(&mut arbiter, 4, ended(2), &mut policy);
    step(&mut arbiter, STALL_NS, Event::Tick, &mut policy);
    assert_eq!((arbiter.next_deadline(), arbiter.phase()), (None, Phase::Serving));
}

#[test]
fn a_lock_that_is_taken_holds_nobody_back() {
    let gpu = table(&[("gpu", 1, Stage::STAGE, Stage::FINISH)]);
    let mut arbiter = arbiter_with(10, gpu, Limits { stall_ns: 100, ..CAREFREE });
    for (now_ns, event) in [arrived(1, 1, 1), ended(1), ended(1), ended(1)].into_iter().enumerate() {
        step(&mut arbiter, now_ns as u64, event, &mut Honest);
    }
    for (now_ns, event) in [(10, arrived(2, 1, 1)), (11, ended(2)), (10_000, Event::Tick)] {
        step(&mut arbiter, now_ns, event, &mut Honest);
    }
    assert_eq!(arbiter.phase(), Phase::Serving);
    assert_eq!(arbiter.snapshot().waiting[0].held_back_since_ns, None);
}

/// A device whose task 1 stands at the Compute gate since 0 and is kept there, under a starvation limit of 1 second.
fn with_a_kept_task(spec: TaskSpec) -> Arbiter {
    let mut arbiter = arbiter_with(10, two_lock(), Limits { starve_ns: STALL_NS, ..CAREFREE });
    for event in [Event::Arrived(spec), ended(1), ended(1)] {
        step(&mut arbiter, 0, event, &mut keeps_one());
    }
    arbiter
}

fn keeps_one() -> Keeps {
    Keeps(|request| request.task == 1 && request.gate == Stage::COMPUTE)
}

/// A whole task passes through the device.
fn passes_through(arbiter: &mut Arbiter, now_ns: u64, spec: TaskSpec) -> Option<Quarantine> {
    let task = spec.task.0;
    let mut why = None;
    for event in [Event::Arrived(spec), ended(task), ended(task), ended(task), ended(task)] {
        if arbiter.phase() == Phase::Serving {
            let commands = step(arbiter, now_ns, event, &mut keeps_one());
            why = why.or(quarantined(&commands));
        }
    }
    why
}

#[test]
fn a_task_that_others_pass_for_too_long_is_starved() {
    let mut arbiter = with_a_kept_task(spec(1, 1, 2));
    // Passing it is no fault before the limit, however often; nor are two that pass it afterwards.
    for task in 2..20 {
        assert_eq!(passes_through(&mut arbiter, STALL_NS - 1, spec(task, 1, 2)), None);
    }
    for task in 20..22 {
        assert_eq!(passes_through(&mut arbiter, STALL_NS, spec(task, 1, 2)), None);
    }
    assert_eq!(arbiter.snapshot().waiting[0].passed_over, 2);
    let why = passes_through(&mut arbiter, STALL_NS + 7, spec(22, 1, 2));
    let (gate, waited_ns) = (Stage::COMPUTE, STALL_NS + 7);
    assert_eq!(why, Some(Quarantine::Starved { task: TaskId(1), gate, waited_ns, passes: 3 }));
    assert!(arbiter.waiting().chain(arbiter.running()).any(|task| task == TaskId(1)), "it is not lost");
    finish(arbiter).unwrap();
}

#[test]
fn a_task_is_starved_of_bytes_by_those_that_came_later_and_not_by_those_before_it() {
    // Task 1 needs all 10 bytes, which it never sees free: a small task is always there.
    for (first, starved) in [(None, true), (Some(90), false)] {
        let mut arbiter = arbiter_with(10, LockTable::default(), Limits { starve_ns: STALL_NS, ..CAREFREE });
        // One that came before and computes on and on is nobody's fault.
        if let Some(first) = first {
            for event in [arrived(first, 1, 1), ended(first), ended(first)] {
                step(&mut arbiter, 0, event, &mut Honest);
            }
        }
        let mut policy = Scripted::default();
        for event in [arrived(2, 1, 1), ended(2), ended(2)] {
            step(&mut arbiter, 0, event, &mut policy);
        }
        step(&mut arbiter, 0, arrived(1, 10, 10), &mut policy);
        step(&mut arbiter, 0, ended(1), &mut policy);
        let mut why = None;
        for task in 3..12 {
            for event in [arrived(task, 1, 1), ended(task), ended(task)] {
                let commands = step(&mut arbiter, STALL_NS + task, event, &mut policy);
                why = why.or(quarantined(&commands));
                if why.is_some() {
                    break;
                }
            }
            // The one before it leaves once the next is in.
            if why.is_some() {
                break;
            }
            for _ in 0..2 {
                step(&mut arbiter, STALL_NS + task, ended(task - 1), &mut policy);
            }
        }
        assert_eq!(matches!(why, Some(Quarantine::Starved { task: TaskId(1), .. })), starved, "{why:?}");
        finish(arbiter).unwrap();
    }
}

#[test]
fn higher_priority_may_pass_for_ever() {
    let mut arbiter = with_a_kept_task(spec(1, 1, 2));
    for task in 2..20 {
        let urgent = TaskSpec { priority: 1, ..spec(task, 1, 2) };
        assert_eq!(passes_through(&mut arbiter, 3 * STALL_NS, urgent), None);
    }
}

#[test]
fn a_policy_is_not_blamed_for_what_a_task_waited_under_another() {
    let mut keeps = Keeps(|request| request.task == 1);
    let mut arbiter = arbiter_with(10, LockTable::default(), Limits { starve_ns: STALL_NS, ..CAREFREE });
    step(&mut arbiter, 0, arrived(1, 1, 1), &mut keeps);
    step(&mut arbiter, 2 * STALL_NS, Event::Drain, &mut Unasked);
    step(&mut arbiter, 2 * STALL_NS, Event::Installed(LockTable::default()), &mut keeps);
    for task in 2..9 {
        let commands = step(&mut arbiter, 3 * STALL_NS - 1, arrived(task, 1, 1), &mut keeps);
        assert_eq!((runs(&commands).len(), quarantined(&commands)), (1, None));
    }
    for (task, out) in [(10, false), (11, false), (12, true)] {
        let commands = step(&mut arbiter, 3 * STALL_NS, arrived(task, 1, 1), &mut keeps);
        assert_eq!(quarantined(&commands).is_some(), out);
    }
}

#[test]
fn a_long_queue_in_order_starves_nobody() {
    let limits = Limits { starve_ns: 1, stall_ns: 1, ..CAREFREE };
    let mut arbiter = arbiter_with(10, fallback(), limits);
    for task in 0..50 {
        step(&mut arbiter, task, arrived(task, 4, 7), &mut Honest);
    }
    let mut now_ns = 1_000;
    let running = |arbiter: &Arbiter| arbiter.running().next();
    while let Some(task) = running(&arbiter) {
        now_ns += 1_000;
        assert_eq!(quarantined(&step(&mut arbiter, now_ns, ended(task.0), &mut Honest)), None);
    }
    assert!(arbiter.is_idle());
}

/// Honest; takes as long as it is told.
struct Takes(u64);

impl PolicyPort for Takes {
    fn decide(&mut self, request: &Request, _view: &View<'_>) -> Result<Verdict, PolicyFault> {
        Ok(honest(request))
    }

    fn took_ns(&self) -> u64 {
        self.0
    }
}

/// Takes its time to observe only.
#[derive(Default)]
struct SlowObserver {
    observing: bool,
}

impl PolicyPort for SlowObserver {
    fn decide(&mut self, request: &Request, _view: &View<'_>) -> Result<Verdict, PolicyFault> {
        self.observing = false;
        Ok(honest(request))
    }

    fn observe(&mut self, _observation: &Observation) -> Result<(), PolicyFault> {
        self.observing = true;
        Ok(())
    }

    fn took_ns(&self) -> u64 {
        if self.observing { 60 * MS } else { 0 }
    }
}

fn slow(commands: &[Command]) -> usize {
    commands.iter().filter(|command| matches!(command, Command::Slow { .. })).count()
}

#[test]
fn answers_that_take_too_long_are_counted_and_quarantine_at_the_limit() {
    let limits = Limits { decision_ns: 50 * MS, slow: 3, ..CAREFREE };
    let mut arbiter = arbiter_with(10, LockTable::default(), limits);
    // Exactly the budget is in time. Deciding and being told count alike: a call each for the task's arrival.
    step(&mut arbiter, 0, arrived(1, 1, 1), &mut Takes(50 * MS));
    assert_eq!(arbiter.counters().slow, 0);
    let commands = step(&mut arbiter, 0, arrived(2, 1, 1), &mut SlowObserver::default());
    assert_eq!(commands.last(), Some(&Command::Slow { task: TaskId(2), took_ns: 60 * MS }));
    assert_eq!((slow(&commands), arbiter.counters().slow), (1, 1));
    let commands = step(&mut arbiter, 0, ended(1), &mut SlowObserver::default());
    let why = Quarantine::Slow { took_ns: 60 * MS, budget_ns: 50 * MS, limit: 3 };
    assert_eq!((slow(&commands), quarantined(&commands)), (2, Some(why)));
    finish(arbiter).unwrap();
}

#[test]
fn the_last_answer_of_a_policy_that_is_too_slow_is_not_used() {
    let limits = Limits { decision_ns: 50, slow: 1, ..CAREFREE };
    let mut arbiter = arbiter_with(10, LockTable::default(), limits);
    let commands = step(&mut arbiter, 0, arrived(1, 1, 1), &mut Takes(51));
    let why = Quarantine::Slow { took_ns: 51, budget_ns: 50, limit: 1 };
    let slow = Command::Slow { task: TaskId(1), took_ns: 51 };
    assert_eq!(commands, [slow, Command::Quarantined(why), Command::Drained]);
    finish(arbiter).unwrap();
}

#[test]
fn sixty_four_decisions_in_time_make_up_for_one_slow_call() {
    for (in_time, out) in [(63, true), (64, false)] {
        let limits = Limits { decision_ns: 50, slow: 2, ..CAREFREE };
        let mut arbiter = arbiter_with(1000, LockTable::default(), limits);
        let arrive = |arbiter: &mut Arbiter, task, policy: &mut dyn PolicyPort| {
            quarantined(&step(arbiter, 0, arrived(task, 1, 1), policy))
        };
        assert_eq!(arrive(&mut arbiter, 0, &mut SlowRank::default()), None);
        // The slow call was about a rank; the decision after it was in time.
        for task in 1..in_time {
            assert_eq!(arrive(&mut arbiter, task, &mut Honest), None);
        }
        let why = arrive(&mut arbiter, 999, &mut SlowRank::default());
        assert_eq!(why.is_some(), out, "{in_time}");
    }
}

/// Slow to rank, and only that.
#[derive(Default)]
struct SlowRank {
    ranking: bool,
}

impl PolicyPort for SlowRank {
    fn decide(&mut self, request: &Request, _view: &View<'_>) -> Result<Verdict, PolicyFault> {
        self.ranking = false;
        Ok(honest(request))
    }

    fn rank(&mut self, _request: &Request, _view: &View<'_>) -> Result<i64, PolicyFault> {
        self.ranking = true;
        Ok(0)
    }

    fn observe(&mut self, _observation: &Observation) -> Result<(), PolicyFault> {
        self.ranking = false;
        Ok(())
    }

    fn took_ns(&self) -> u64 {
        if self.ranking { 51 } else { 0 }
    }
}

#[test]
fn the_evidence_is_the_device_before_the_drain_began() {
    let locks = table(&[("all", 9, Stage::PREPARE, Stage::FINISH)]);
    let mut arbiter = arbiter_with(10, locks, Limits { stall_ns: STALL_NS, ..CAREFREE });
    let mut policy = Keeps(|request| request.gate == Stage::STAGE);
    step(&mut arbiter, 0, arrived(1, 4, 7), &mut policy);
    step(&mut arbiter, 0, ended(1), &mut policy);
    assert_eq!(arbiter.take_evidence(), None);
    assert!(quarantined(&step(&mut arbiter, STALL_NS, Event::Tick, &mut policy)).is_some());
    let evidence = arbiter.take_evidence().expect("a policy was quarantined");
    assert_eq!(evidence.phase, Phase::Serving);
    assert_eq!((evidence.locks[0].holders.as_slice(), evidence.waiting[0].gate), ([1].as_slice(), "Stage"));
    assert!(evidence.waiting[0].locks_free && evidence.waiting[0].bytes_free);
    assert!(arbiter.snapshot().locks[0].holders.is_empty(), "the drain gave it back");
    assert_eq!(arbiter.take_evidence(), None, "it is taken once");
}

#[test]
fn each_reason_has_its_code_a_sentence_and_advice() {
    let (task, gate) = (TaskId(7), Stage::STAGE);
    let reasons = [
        (Quarantine::TooManyRefusals { last: Refusal::Panicked, limit: 16 }, "refusals", "16"),
        (Quarantine::Stalled { idle_ns: 5_000 * MS }, "stalled", "5000 ms"),
        (
            Quarantine::HeldBack { task, gate, held_ns: 6_000 * MS },
            "held_back",
            "task 7 at the Stage gate for 6000 ms",
        ),
        (
            Quarantine::Starved { task, gate, waited_ns: 300_000 * MS, passes: 3 },
            "starved",
            "3 later tasks pass task 7, which has waited at the Stage gate for 300000 ms",
        ),
        (
            Quarantine::Slow { took_ns: 80 * MS, budget_ns: 50 * MS, limit: 4 },
            "slow",
            "4 of its answers took longer than 50 ms, the last one 80 ms",
        ),
        (Quarantine::Ended(PolicyEnd::Signal { signal: 11 }), "ended", "SIGSEGV"),
        (Quarantine::Ended(PolicyEnd::Silent { budget_ms: 50 }), "ended", "50 ms"),
    ];
    for (reason, code, part) in reasons {
        assert_eq!(reason.code(), code);
        assert!(reason.to_string().contains(part), "{reason}");
        assert!(!reason.advice().is_empty() && !reason.advice().ends_with('.'), "{code}");
        let json = serde_json::to_string(&reason).expect("it can be written");
        assert_eq!(serde_json::from_str::<Quarantine>(&json).expect("and read"), reason);
    }
}
