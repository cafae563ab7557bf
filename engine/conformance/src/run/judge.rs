//! Judges each step of a run by the laws that can be seen from outside the policy.

use std::collections::BTreeMap;

use interlock_arbiter::{
    Arbiter, Command, Event, Phase, PolicyFault, PolicyPort, Quarantine, Refusal, Snapshot, WaitingTask,
};
use interlock_policy_api::{Request, Stage, Verdict, VerdictKind, View, WakeSet};

use crate::law::Law;
use crate::record::{Call, Entry};

/// The longest wait that counts as one with an end, in nanoseconds: an hour.
pub(super) const LONGEST_SLACK_NS: u64 = 3_600_000_000_000;

/// A law that was broken, and how.
pub(super) type Broken = (Law, String);

/// A step that was taken.
pub(super) struct Step<'a> {
    /// The arbiter before it, where tasks differ in priority.
    pub before: Option<Arbiter>,
    pub event: &'a Event,
    pub now_ns: u64,
    /// The calls that were made in it.
    pub calls: &'a [Entry],
    pub commands: &'a [Command],
    /// The arbiter after it.
    pub after: &'a Arbiter,
}

/// For how long a task may be kept waiting on purpose.
#[derive(Clone, Copy)]
struct Slack {
    /// When the policy said so first.
    first_ns: u64,
    longest_ns: u64,
}

impl Slack {
    /// When it is used up by a task that can go in from `since_ns` on.
    fn end_ns(self, since_ns: u64) -> u64 {
        since_ns.max(self.first_ns).saturating_add(self.longest_ns)
    }
}

/// What is remembered from one step to the next.
pub(super) struct Judge {
    after: Snapshot,
    /// For how long the policy said it would keep a task waiting at the gate where it stands.
    slacks: BTreeMap<(u64, u32), Slack>,
    /// Since when a waiter's locks and bytes are free.
    open_since_ns: BTreeMap<(u64, u32), u64>,
    /// The longest slack of all.
    pub longest_slack_ns: u64,
}

impl Judge {
    pub fn new(arbiter: &Arbiter) -> Judge {
        Judge {
            after: arbiter.snapshot(),
            slacks: BTreeMap::new(),
            open_since_ns: BTreeMap::new(),
            longest_slack_ns: 0,
        }
    }

    /// The device after the latest step.
    pub fn snapshot(&self) -> &Snapshot {
        &self.after
    }

    /// Nothing happens until `to_ns`: nobody may be held back for longer than the policy said.
    pub fn time_passes(&self, to_ns: u64) -> Result<(), Broken> {
        if self.after.phase != Phase::Serving {
            return Ok(());
        }
        for waiter in &self.after.waiting {
            let Some(since_ns) = waiter.held_back_since_ns else { continue };
            let slack = self.slacks.get(&(waiter.task, number(waiter.gate)));
            if to_ns > slack.map_or(since_ns, |slack| slack.end_ns(since_ns)) {
                let said = match slack {
                    None => "and the policy said no time until which it would".to_owned(),
                    Some(slack) => {
                        format!("although the policy said for {} at the most", time(slack.longest_ns))
                    }
                };
                let what = format!(
                    "task {} could go into {} from {} on, nothing ran there or later, and it was kept waiting, {said}",
                    waiter.task,
                    waiter.gate,
                    time(since_ns)
                );
                return Err((Law::WorkConservation, what));
            }
        }
        Ok(())
    }

    /// Looks at a step.
    pub fn step(&mut self, step: &Step<'_>) -> Result<(), Broken> {
        step.commands.iter().try_for_each(refused)?;
        let after = step.after.snapshot();
        let mut decided = 0;
        for entry in step.calls {
            let Entry::Call(Call::Decide { request, answer: Ok(verdict), .. }) = entry else { continue };
            decided += 1;
            self.note(request, verdict, step.now_ns);
            if verdict.kind == VerdictKind::ENTER {
                self.let_in(request, decided, step, &after)?;
            }
        }
        self.look_at(after, step.now_ns);
        Ok(())
    }

    fn note(&mut self, request: &Request, verdict: &Verdict, now_ns: u64) {
        if verdict.kind != VerdictKind::WAIT || verdict.deadline_ns == Verdict::NO_DEADLINE {
            return;
        }
        let slack_ns = verdict.deadline_ns.saturating_sub(now_ns);
        if slack_ns <= LONGEST_SLACK_NS {
            let key = (request.task, request.gate.0);
            let slack = self.slacks.entry(key).or_insert(Slack { first_ns: now_ns, longest_ns: 0 });
            slack.longest_ns = slack.longest_ns.max(slack_ns);
            self.longest_slack_ns = self.longest_slack_ns.max(slack_ns);
        }
    }

    /// A task was let in by the `decided`th decision of the step: had somebody of higher priority to go first?
    fn let_in(
        &self,
        entered: &Request,
        decided: usize,
        step: &Step<'_>,
        after: &Snapshot,
    ) -> Result<(), Broken> {
        let gate = entered.gate;
        let is_above = |priority: i32, at: &str| priority > entered.priority && number(at) == gate.0;
        if !after.waiting.iter().any(|waiter| is_above(waiter.priority, waiter.gate)) {
            return Ok(());
        }
        let Some(before) = &step.before else { return Ok(()) };
        let then = until(before, step, decided);
        let stays = |waiter: &WaitingTask| {
            after.waiting.iter().any(|other| other.task == waiter.task && other.gate == waiter.gate)
        };
        let could_go = |waiter: &&WaitingTask| {
            is_above(waiter.priority, waiter.gate) && waiter.locks_free && waiter.bytes_free && stays(waiter)
        };
        for waiter in then.waiting.iter().filter(could_go) {
            let key = (waiter.task, gate.0);
            let since_ns = self.open_since_ns.get(&key).copied().unwrap_or(step.now_ns);
            if self.slacks.get(&key).is_none_or(|slack| step.now_ns > slack.end_ns(since_ns)) {
                let what = format!(
                    "task {} of priority {} was let into {gate} before task {} of priority {}, which stood there and could go in",
                    entered.task, entered.priority, waiter.task, waiter.priority
                );
                return Err((Law::Priority, what));
            }
        }
        Ok(())
    }

    /// Remembers who waits, and forgets who does not any more.
    fn look_at(&mut self, after: Snapshot, now_ns: u64) {
        let standing = |open: bool| {
            let waiting =
                after.waiting.iter().filter(move |waiter| !open || waiter.locks_free && waiter.bytes_free);
            waiting.map(|waiter| (waiter.task, number(waiter.gate))).collect::<Vec<_>>()
        };
        let (all, open) = (standing(false), standing(true));
        self.slacks.retain(|key, _| all.contains(key));
        self.open_since_ns.retain(|key, _| open.contains(key));
        for key in open {
            self.open_since_ns.entry(key).or_insert(now_ns);
        }
        self.after = after;
    }
}

/// The law that a refused verdict or a quarantine is a break of.
fn refused(command: &Command) -> Result<(), Broken> {
    match command {
        Command::Refused { task, gate, refusal } => {
            let law = match refusal {
                Refusal::Panicked | Refusal::Unreachable => Law::Answers,
                Refusal::LockTaken => Law::Exclusion,
                Refusal::UnsafeReservation | Refusal::TooManyBytes => Law::Overcommit,
                Refusal::UnknownKind
                | Refusal::SkipNotAllowed
                | Refusal::TooFewBytes
                | Refusal::EndlessWait => Law::Verdicts,
            };
            Err((law, format!("about task {} at {gate} it gave {refusal}", task.0)))
        }
        Command::Quarantined(why @ Quarantine::Ended(_)) => Err((Law::Answers, why.to_string())),
        Command::Quarantined(why) => Err((Law::BoundedWait, why.to_string())),
        _ => Ok(()),
    }
}

/// The device as it was before the `decided`th decision of a step.
fn until(before: &Arbiter, step: &Step<'_>, decided: usize) -> Snapshot {
    let mut arbiter = before.clone();
    let mut again = Again { calls: step.calls, at: 0, left: decided - 1 };
    arbiter.step(step.now_ns, step.event.clone(), &mut again).expect("it was taken before");
    arbiter.snapshot()
}

/// Gives the first answers of a step again, and lets nobody in afterwards.
struct Again<'a> {
    calls: &'a [Entry],
    at: usize,
    /// Decisions to give again.
    left: usize,
}

impl Again<'_> {
    fn next<A>(&mut self, of: impl Fn(&Call) -> Option<A>) -> Option<A> {
        while let Some(entry) = self.calls.get(self.at) {
            self.at += 1;
            if let Entry::Call(call) = entry
                && let Some(answer) = of(call)
            {
                return Some(answer);
            }
        }
        None
    }
}

impl PolicyPort for Again<'_> {
    fn decide(&mut self, _request: &Request, _view: &View<'_>) -> Result<Verdict, PolicyFault> {
        if self.left == 0 {
            return Ok(Verdict::wait(WakeSet::ANY));
        }
        self.left -= 1;
        let answer = self.next(|call| match call {
            Call::Decide { answer, .. } => Some(*answer),
            _ => None,
        });
        answer.unwrap_or(Ok(Verdict::wait(WakeSet::ANY)))
    }

    fn rank(&mut self, request: &Request, _view: &View<'_>) -> Result<i64, PolicyFault> {
        let by_priority = Ok(-i64::from(request.priority));
        if self.left == 0 {
            return by_priority;
        }
        let answer = self.next(|call| match call {
            Call::Rank { answer, .. } => Some(*answer),
            _ => None,
        });
        answer.unwrap_or(by_priority)
    }
}

fn number(stage: &str) -> u32 {
    Stage::from_name(stage).map_or(u32::MAX, |stage| stage.0)
}

/// A time in milliseconds, for people.
pub(crate) fn time(ns: u64) -> String {
    format!("{} ms", ns as f64 / 1e6)
}
