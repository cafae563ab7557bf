//! Every state a small device can get into: every order of events, every verdict a policy could give.
//!
//! The model checker plays both the world (arrivals, ends of stages, failures, give-ups, time, drains) and the policy.
//! Within one event a policy is asked several questions; each combination of answers is an action of
//! its own. In every state that can be reached, the safety properties hold, a fair driver with a
//! sensible policy brings every task to its end, and a drain ends.

mod support;

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, Mutex};

use interlock_arbiter::{
    Arbiter, Command, Event, Limits, LockTable, Outcome, Phase, PolicyFault, PolicyPort, Snapshot, TaskSpec,
};
use interlock_policy_api::{Request, Stage, Verdict, View, WakeSet};
use stateright::{Checker, Model, Property};
use support::*;

const PREPARE: Stage = Stage::PREPARE;
const STAGE: Stage = Stage::STAGE;
const COMPUTE: Stage = Stage::COMPUTE;
const FINISH: Stage = Stage::FINISH;

/// How often the world may do what the honest course of things does not include.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Mischief {
    failures: u8,
    cancels: u8,
    drains: u8,
    ticks: u8,
}

/// A small device and what may happen to it.
struct World {
    capacity_bytes: u64,
    table: LockTable,
    /// The table seated after a drain.
    next_table: LockTable,
    tasks: Vec<TaskSpec>,
    mischief: Mischief,
    refusals: u32,
    /// Fingerprints of arbiters from which a fair driver is known to bring every task to its end.
    ending: Mutex<HashSet<u64>>,
    /// Fingerprints of draining arbiters that are known to end their drain.
    draining: Mutex<HashSet<u64>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    arbiter: Arbiter,
    mischief: Mischief,
    /// For each task: has it arrived, has it left, and the stages it was let into, as bits.
    tasks: Vec<Life>,
    /// A command that should never have come.
    broken: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Life {
    arrived: bool,
    left: bool,
    stages: u8,
}

/// An event, and which of its possible answers the policy gives to each question it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Action {
    event: Event,
    choices: Vec<usize>,
    /// Where that leads.
    next: State,
}

/// Gives the chosen answers, the first of the menu beyond them, and notes how many there were.
struct Chooser<'a> {
    choices: &'a [usize],
    menus: Vec<usize>,
    timed: bool,
}

impl PolicyPort for Chooser<'_> {
    fn decide(&mut self, request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault> {
        let menu = menu(request, view, self.timed);
        let choice = self.choices.get(self.menus.len()).copied().unwrap_or(0);
        self.menus.push(menu.len());
        menu[choice]
    }
}

/// The answers a policy could give, one for each way the arbiter can take them.
fn menu(request: &Request, view: &View<'_>, timed: bool) -> Vec<Result<Verdict, PolicyFault>> {
    // Where the gate cannot be granted this is the refused verdict of the menu.
    let mut menu = vec![Verdict::enter(request.need_bytes), Verdict::wait(WakeSet::FREED)];
    menu.push(Verdict::wait(WakeSet::TASK_ARRIVED));
    if timed {
        menu.push(Verdict::wait_until(WakeSet::NONE, view.now_ns + 1));
    }
    if request.gate == STAGE {
        menu.push(Verdict::skip());
        if request.need_bytes < request.peak_bytes {
            menu.push(Verdict::enter(request.peak_bytes));
        }
    }
    let mut menu: Vec<_> = menu.into_iter().map(Ok).collect();
    if request.grantable() {
        menu.push(Err(PolicyFault::Panicked));
    }
    menu
}

impl World {
    fn new(
        capacity_bytes: u64,
        table: LockTable,
        next_table: LockTable,
        tasks: Vec<TaskSpec>,
        mischief: Mischief,
        refusals: u32,
    ) -> World {
        let (ending, draining) = Default::default();
        World { capacity_bytes, table, next_table, tasks, mischief, refusals, ending, draining }
    }

    fn timed(&self) -> bool {
        self.mischief.ticks > 0
    }

    /// What may happen next.
    fn events(&self, state: &State) -> Vec<Event> {
        let left = state.mischief;
        let arbiter = &state.arbiter;
        let mut events: Vec<Event> = Vec::new();
        for (spec, life) in self.tasks.iter().zip(&state.tasks) {
            if !life.arrived {
                events.push(Event::Arrived(spec.clone()));
            }
        }
        for task in arbiter.running() {
            events.push(ended(task.0));
            if left.failures > 0 {
                events.push(failed(task.0));
            }
        }
        if left.cancels > 0 {
            events.extend(arbiter.waiting().map(|task| Event::Cancelled { task }));
        }
        if left.drains > 0 {
            events.push(Event::Drain);
        }
        if left.ticks > 0 && arbiter.next_deadline().is_some() {
            events.push(Event::Tick);
        }
        if arbiter.phase() == Phase::Drained {
            events.push(Event::Installed(self.next_table.clone()));
        }
        events
    }

    /// Takes one step; returns how many answers there were to each question.
    fn step(&self, state: &mut State, event: &Event, choices: &[usize]) -> Vec<usize> {
        let mut policy = Chooser { choices, menus: Vec::new(), timed: self.timed() };
        let mut now_ns = 0;
        match event {
            Event::StageEnded { outcome: Outcome::Failed, .. } => state.mischief.failures -= 1,
            Event::Cancelled { .. } => state.mischief.cancels -= 1,
            Event::Drain => state.mischief.drains -= 1,
            Event::Tick => {
                state.mischief.ticks -= 1;
                now_ns = state.arbiter.next_deadline().unwrap_or(0);
            }
            Event::Arrived(spec) => state.tasks[spec.task.0 as usize].arrived = true,
            Event::StageEnded { .. } | Event::Installed(_) => {}
        }
        match state.arbiter.step(now_ns, event.clone(), &mut policy) {
            Ok(commands) => commands.iter().for_each(|command| follow(state, command)),
            Err(error) => state.broken = Some(error.to_string()),
        }
        // They tell how a state was reached, not what it is.
        state.arbiter.take_counters();
        state.arbiter.take_evidence();
        policy.menus
    }
}

/// Keeps the books of who was let in where.
fn follow(state: &mut State, command: &Command) {
    match command {
        Command::Run { task, stage, inline, .. } => {
            let life = &mut state.tasks[task.0 as usize];
            let bit = 1 << stage.0;
            let unstaged = *stage == COMPUTE && life.stages & 1 << STAGE.0 == 0;
            let before = if stage.0 == 0 { 0 } else { 1 << PREPARE.0 };
            let first = life.stages < bit && life.stages & before == before;
            if !life.arrived || life.left || !first || *inline != unstaged {
                state.broken = Some(format!("{command:?} of {life:?}"));
            }
            life.stages |= bit;
        }
        Command::Left { task } => {
            let life = &mut state.tasks[task.0 as usize];
            if life.left {
                state.broken = Some(format!("task {} left twice", task.0));
            }
            life.left = true;
        }
        _ => {}
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let limits = Limits { refusals: self.refusals, stall_ns: STALL_NS, ..Limits::DEFAULT };
        let arbiter = arbiter_with(self.capacity_bytes, self.table.clone(), limits);
        let tasks = vec![Life::default(); self.tasks.len()];
        vec![State { arbiter, mischief: self.mischief, tasks, broken: None }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for event in self.events(state) {
            let mut open = vec![Vec::new()];
            while let Some(choices) = open.pop() {
                let mut next = state.clone();
                let menus = self.step(&mut next, &event, &choices);
                // The run took the first answer to each question beyond its choices: branch there.
                for (question, &answers) in menus.iter().enumerate().skip(choices.len()) {
                    for answer in 1..answers {
                        let mut other = choices.clone();
                        other.resize(question, 0);
                        other.push(answer);
                        open.push(other);
                    }
                }
                actions.push(Action { event: event.clone(), choices, next });
            }
        }
    }

    fn next_state(&self, _state: &State, action: Action) -> Option<State> {
        Some(action.next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("every command makes sense, none is given twice", |_, state: &State| {
                state.broken.is_none()
            }),
            Property::always("device is sound", |world: &World, state: &State| {
                sound(world, state, &state.arbiter.snapshot())
            }),
            Property::always(
                "a sensible policy brings every task to its end",
                |world: &World, state: &State| {
                    reaches(state.arbiter.clone(), &world.ending, Arbiter::is_idle, fair_step)
                },
            ),
            Property::always("a drain ends", |world: &World, state: &State| {
                let mut arbiter = state.arbiter.clone();
                arbiter.step(0, Event::Drain, &mut Unasked).is_ok()
                    && reaches(arbiter, &world.draining, is_drained, end_a_stage)
            }),
            Property::sometimes("all tasks are done", |_, state: &State| {
                state.tasks.iter().all(|life| life.left)
            }),
            Property::sometimes("a policy is quarantined or drained", |_, state: &State| {
                state.arbiter.phase() != Phase::Serving
            }),
        ]
    }
}

/// Whether `step`, taken again and again, leads to a state that is `there`. `known` holds the states of
/// which that is known, and gets those seen on the way.
fn reaches(
    mut arbiter: Arbiter,
    known: &Mutex<HashSet<u64>>,
    there: fn(&Arbiter) -> bool,
    step: fn(&mut Arbiter) -> Option<()>,
) -> bool {
    let mut way = Vec::new();
    while !there(&arbiter) {
        arbiter.take_counters();
        arbiter.take_evidence();
        let fingerprint = HASHER.hash_one(&arbiter);
        if known.lock().unwrap().contains(&fingerprint) {
            break;
        }
        way.push(fingerprint);
        if way.len() > 200 || step(&mut arbiter).is_none() {
            return false;
        }
    }
    known.lock().unwrap().extend(way);
    true
}

/// One hash function for all fingerprints.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

fn is_drained(arbiter: &Arbiter) -> bool {
    let snapshot = arbiter.snapshot();
    let held = snapshot.reserved_bytes > 0 || snapshot.locks.iter().any(|lock| !lock.holders.is_empty());
    snapshot.phase == Phase::Drained && snapshot.running.is_empty() && !held
}

fn end_a_stage(arbiter: &mut Arbiter) -> Option<()> {
    let task = arbiter.running().next()?;
    arbiter.step(0, ended(task.0), &mut Unasked).ok().map(drop)
}

/// The invariants of one state, from what it shows of itself.
fn sound(world: &World, state: &State, snapshot: &Snapshot) -> bool {
    let held = snapshot.running.iter().map(|task| task.held_bytes);
    let held = held.chain(snapshot.waiting.iter().map(|task| task.held_bytes)).sum::<u64>();
    let no_over_commit = held == snapshot.reserved_bytes && held <= world.capacity_bytes;
    let exclusion = snapshot.locks.iter().all(|lock| lock.holders.len() <= lock.permits as usize);
    let table = state.arbiter.lock_table();
    let covering = |stage: &str| -> BTreeSet<&str> {
        let stage = Stage::from_name(stage).expect("a stage");
        table.locks().iter().filter(|lock| lock.covers(stage)).map(|lock| lock.name.as_str()).collect()
    };
    let names = |locks: &'_ [String]| locks.iter().map(|name| name.to_owned()).collect::<BTreeSet<_>>();
    // Inside a stage a task holds each lock that covers it, and at Compute its peak; at a gate nothing beyond the
    // locks that cover it.
    let running_hold_all = snapshot.running.iter().all(|task| {
        let covering: BTreeSet<String> = covering(task.stage).into_iter().map(str::to_owned).collect();
        let peak = world.tasks[task.task as usize].peak_bytes;
        names(&task.locks) == covering && (task.stage != "Compute" || task.held_bytes == peak)
    });
    let waiters_hold_no_more = snapshot
        .waiting
        .iter()
        .all(|task| task.locks.iter().all(|lock| covering(task.gate).contains(lock.as_str())));
    let no_bytes_outside = (snapshot.running.iter().map(|task| (task.stage, task.held_bytes)))
        .chain(snapshot.waiting.iter().map(|task| (task.gate, task.held_bytes)))
        .all(|(stage, held)| held == 0 || stage == "Stage" || stage == "Compute");
    let nobody_lost = state.tasks.iter().enumerate().all(|(id, life)| {
        let here = snapshot.running.iter().filter(|task| task.task == id as u64).count()
            + snapshot.waiting.iter().filter(|task| task.task == id as u64).count();
        here == usize::from(life.arrived && !life.left)
    });
    // The theorem behind the freedom from deadlock: on a device where nothing runs, somebody can be let in.
    let somebody_can_go = !snapshot.running.is_empty()
        || snapshot.waiting.is_empty()
        || snapshot.waiting.iter().any(|task| task.locks_free && task.bytes_free);
    let held_right = running_hold_all && waiters_hold_no_more && no_bytes_outside;
    no_over_commit && exclusion && held_right && nobody_lost && somebody_can_go
}

/// Explores a world to the last state.
fn explore(name: &str, world: World) {
    let checker = world.checker().spawn_bfs().join();
    checker.assert_properties();
    let (states, steps) = (checker.unique_state_count(), checker.state_count());
    println!("{name}: {states} states, {steps} steps, depth {}", checker.max_depth());
}

/// Three tasks, one of them with a peak the others' staged bytes leave no room for.
fn three_tasks() -> Vec<TaskSpec> {
    vec![spec(0, 4, 8), spec(1, 3, 7), spec(2, 2, 9)]
}

/// Three tasks and two tasks through one lock table. Three do what the policy lets them, and one garbage verdict
/// brings on a quarantine; with two, everything else happens as well.
fn explore_table(name: &str, capacity_bytes: u64, table: &LockTable, next_table: &LockTable) {
    let everything = Mischief { failures: 1, cancels: 1, drains: 1, ticks: 1 };
    let runs = [("three tasks", 3, 1, Mischief::default()), ("two tasks and mischief", 2, 2, everything)];
    for (what, count, refusals, mischief) in runs {
        let tasks = three_tasks()[..count].to_vec();
        let world = World::new(capacity_bytes, table.clone(), next_table.clone(), tasks, mischief, refusals);
        explore(&format!("{name}, {what}"), world);
    }
}

#[test]
fn three_tasks_and_a_drain() {
    let mischief = Mischief { drains: 1, ..Mischief::default() };
    explore(
        "nested, three tasks and a drain",
        World::new(10, nested(), two_lock(), three_tasks(), mischief, 1),
    );
}

#[test]
fn three_tasks_and_a_failure() {
    let mischief = Mischief { failures: 1, ..Mischief::default() };
    explore(
        "nested, three tasks and a failure",
        World::new(10, nested(), two_lock(), three_tasks(), mischief, 1),
    );
}

#[test]
fn serialized_fallback() {
    explore_table("serialized-fallback", 10, &fallback(), &nested());
}

#[test]
fn single_lock() {
    explore_table("single-lock", 10, &table(&[("gpu", 1, STAGE, COMPUTE)]), &fallback());
}

#[test]
fn two_locks() {
    explore_table("two-lock", 10, &two_lock(), &fallback());
}

#[test]
fn tokens() {
    explore_table("vram-token", 13, &table(&[("compute", 2, COMPUTE, COMPUTE)]), &fallback());
}

#[test]
fn no_locks() {
    explore_table("no locks", 10, &LockTable::default(), &fallback());
}

fn nested() -> LockTable {
    table(&[
        ("all", 2, PREPARE, FINISH),
        ("gpu", 2, STAGE, COMPUTE),
        ("kernels", 1, COMPUTE, COMPUTE),
        ("assembly", 1, FINISH, FINISH),
    ])
}

#[test]
fn nested_locks() {
    explore_table("nested", 10, &nested(), &fallback());
}

#[test]
fn locks_that_meet_at_compute() {
    let table =
        table(&[("early", 1, PREPARE, STAGE), ("late", 1, COMPUTE, FINISH), ("end", 1, FINISH, FINISH)]);
    explore_table("split", 13, &table, &fallback());
}
