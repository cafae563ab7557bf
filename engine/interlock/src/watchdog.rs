//! The watchdog: who waits for nothing, who is passed for too long, who thinks for too long.
//!
//! `README.md` beside this file defines each limit. All times are values that came in with events, or with
//! [`PolicyPort::took_ns`](super::PolicyPort::took_ns).

use interlock_policy_api::Stage;

use super::arbiter::{Arbiter, Phase, Turn};
use super::holdings::Holdings;
use super::task::{Task, Waiter};
use super::{Command, Quarantine, TaskId};

/// Later tasks that pass a task which waits for longer than the limit, until that is starvation.
const STARVED_PASSES: u32 = 3;
/// Decisions in time that make up for one call that was slow.
const MAKES_UP: u32 = 64;

impl Turn<'_> {
    /// The stall limit: looked at when nobody is due any more.
    pub fn watch(&mut self) {
        self.watch_device();
        self.watch_waiters();
    }

    /// Tasks wait, no stage runs, nothing moves.
    fn watch_device(&mut self) {
        let arbiter = &mut *self.arbiter;
        let now_ns = arbiter.now_ns;
        let stuck = arbiter.phase == Phase::Serving
            && !arbiter.tasks.is_empty()
            && !arbiter.tasks.values().any(Task::is_running);
        match arbiter.stalled_since_ns {
            _ if !stuck => arbiter.stalled_since_ns = None,
            Some(since) if !self.moved => {
                let idle_ns = now_ns - since;
                if idle_ns >= arbiter.config.limits.stall_ns {
                    self.quarantine(Quarantine::Stalled { idle_ns });
                }
            }
            _ => arbiter.stalled_since_ns = Some(now_ns),
        }
    }

    /// One task could be let in, and nothing runs from its stage on.
    fn watch_waiters(&mut self) {
        let arbiter = &mut *self.arbiter;
        if arbiter.phase != Phase::Serving {
            return;
        }
        let held_back = arbiter.held_back();
        let (now_ns, stall_ns) = (arbiter.now_ns, arbiter.config.limits.stall_ns);
        for task in arbiter.tasks.values_mut() {
            let id = task.spec.task;
            if let Some(waiter) = task.waiter_mut() {
                let since = waiter.held_back_since_ns.unwrap_or(now_ns);
                waiter.held_back_since_ns = held_back.contains(&id).then_some(since);
            }
        }
        let since = |task: &Task| Some((task.waiter()?.held_back_since_ns?, task.arrival, task.spec.task));
        if let Some((since, _, id)) = arbiter.tasks.values().filter_map(since).min()
            && now_ns - since >= stall_ns
            && let Some(task) = arbiter.tasks.get(&id)
        {
            let gate = task.stage();
            self.quarantine(Quarantine::HeldBack { task: id, gate, held_ns: now_ns - since });
        }
    }

    /// The starvation limit: a task was let in at `gate`, before others that came earlier.
    pub fn note_passed(&mut self, id: TaskId, gate: Stage) {
        let arbiter = &mut *self.arbiter;
        let Some(by) = arbiter.tasks.get(&id) else { return };
        let passed = arbiter.tasks.values().filter(|task| arbiter.is_passed(task, by, gate));
        let passed: Vec<TaskId> = passed.map(|task| task.spec.task).collect();
        for id in passed {
            let now_ns = arbiter.now_ns;
            let Some(waiter) = arbiter.tasks.get_mut(&id).and_then(Task::waiter_mut) else { continue };
            waiter.passed_over += 1;
            let (gate, passes, waited_ns) = (waiter.gate, waiter.passed_over, now_ns - waiter.since_ns);
            if passes >= STARVED_PASSES {
                self.quarantine(Quarantine::Starved { task: id, gate, waited_ns, passes });
                return;
            }
        }
    }

    /// The budget of one call, which was about `id`. Returns whether it was kept.
    pub fn judge_time(&mut self, id: TaskId) -> bool {
        let took_ns = self.policy.took_ns();
        let arbiter = &mut *self.arbiter;
        let (budget_ns, limit) = (arbiter.config.limits.decision_ns, arbiter.config.limits.slow.max(1));
        if took_ns <= budget_ns {
            return true;
        }
        arbiter.counters.slow += 1;
        arbiter.slowness = arbiter.slowness.saturating_add(MAKES_UP);
        let slowness = arbiter.slowness;
        self.commands.push(Command::Slow { task: id, took_ns });
        if slowness > (limit - 1).saturating_mul(MAKES_UP) {
            self.quarantine(Quarantine::Slow { took_ns, budget_ns, limit });
        }
        false
    }

    /// Takes the policy out of its seat, if it is in it.
    pub fn quarantine(&mut self, why: Quarantine) {
        let arbiter = &mut *self.arbiter;
        if arbiter.phase == Phase::Serving {
            arbiter.evidence = Some(Box::new(arbiter.snapshot()));
            arbiter.phase = Phase::Draining;
            arbiter.stalled_since_ns = None;
            arbiter.counters.quarantines += 1;
            self.commands.push(Command::Quarantined(why));
        }
    }
}

impl Arbiter {
    /// The waiters that could be let in while no task is inside their stage or a later one.
    fn held_back(&self) -> Vec<TaskId> {
        let running = self.tasks.values().filter(|task| task.is_running());
        let furthest = running.map(Task::stage).max();
        let nothing_before = |waiter: &Waiter| furthest.is_none_or(|stage| stage < waiter.gate);
        // Where the device computes, as it does most of the time, nobody has to be looked at.
        if !self.tasks.values().filter_map(Task::waiter).any(nothing_before) {
            return Vec::new();
        }
        let holdings = self.holdings();
        let held_back = |task: &&Task| {
            task.waiter().is_some_and(|waiter| {
                nothing_before(waiter) && holdings.can_enter(task, waiter.gate, &self.table)
            })
        };
        self.tasks.values().filter(held_back).map(|task| task.spec.task).collect()
    }

    /// Whether `by`, which has just entered the stage behind `gate`, took the turn of `task`: that one came earlier, has no lower
    /// priority, waits for longer than the limit at this gate or one before it, and could be let in if those who came
    /// after it held nothing.
    fn is_passed(&self, task: &Task, by: &Task, gate: Stage) -> bool {
        let Some(waiter) = task.waiter() else { return false };
        let since_ns = waiter.since_ns.max(self.seated_ns);
        let behind = task.arrival < by.arrival && task.spec.priority >= by.spec.priority;
        let overtaken = gate == waiter.gate || gate > waiter.gate && gate != Stage::FINISH;
        if !behind || !overtaken || self.now_ns - since_ns < self.config.limits.starve_ns {
            return false;
        }
        let goes_first =
            |other: &&Task| other.arrival <= task.arrival || other.spec.priority > task.spec.priority;
        let others = self.tasks.values().filter(goes_first);
        Holdings::of(&self.config, &self.table, others).can_enter(task, waiter.gate, &self.table)
    }
}
