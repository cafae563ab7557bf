//! The gates: who is asked when, and what a verdict does.
//!
//! After an event, every waiter whose wake condition holds is due. Due waiters are asked in order of
//! rank, ties by arrival, and every one of them is judged by the device as it stands at that moment: after each grant or
//! skip the flags are worked out again, and whoever that change woke joins the line.
//!
//! This ends. Between two changes a waiter is asked at most once, as asking takes it off the line. A
//! change moves a task forward for good: into a stage, which only a later event ends, or past the
//! Stage gate. So a step has at most two changes for each task.

use std::collections::BTreeSet;

use interlock_policy_api::{ObservationKind, Request, Stage, WakeSet};

use super::arbiter::{Phase, Turn};
use super::holdings::Holdings;
use super::task::{Answer, Place, Task, Waiter};
use super::verdict::{self, Decision};
use super::{Command, Refusal, TaskId};

/// Nanoseconds until a waiter is asked about again after a first refused verdict.
const FIRST_BACKOFF_NS: u64 = 1_000_000;
/// The most nanoseconds between two questions about a waiter with refused verdicts.
const LONGEST_BACKOFF_NS: u64 = 100_000_000;

impl Turn<'_> {
    /// Asks the policy about everybody who is due, until nobody is.
    pub fn serve(&mut self) {
        let mut due = BTreeSet::new();
        let mut changed = true;
        while changed && self.arbiter.phase == Phase::Serving {
            self.wake(&mut due);
            if due.is_empty() {
                return;
            }
            let holdings = self.arbiter.holdings();
            changed = false;
            for (_, _, id) in self.line(&due, &holdings) {
                if self.arbiter.phase != Phase::Serving {
                    return;
                }
                due.remove(&id);
                if self.ask(id, &holdings) {
                    changed = true;
                    break;
                }
            }
        }
    }

    /// Adds to `due` those who are woken by what happened since the last call.
    fn wake(&mut self, due: &mut BTreeSet<TaskId>) {
        let occurred = std::mem::replace(&mut self.occurred, WakeSet::NONE);
        let now_ns = self.arbiter.now_ns;
        let woken = |task: &&Task| task.waiter().is_some_and(|waiter| waiter.is_due(occurred, now_ns));
        due.extend(self.arbiter.tasks.values().filter(woken).map(|task| task.spec.task));
    }

    /// The due waiters in the order in which they are asked: rank, then arrival.
    fn line(&mut self, due: &BTreeSet<TaskId>, holdings: &Holdings) -> Vec<(i64, u64, TaskId)> {
        let mut line = Vec::with_capacity(due.len());
        for &id in due {
            let Some(request) = self.request(id, holdings) else { continue };
            line.push((self.rank(id, &request, holdings), request.arrival, id));
        }
        line.sort_unstable();
        line
    }

    fn request(&self, id: TaskId, holdings: &Holdings) -> Option<Request> {
        let arbiter = &*self.arbiter;
        holdings.request(arbiter.tasks.get(&id)?, &arbiter.table, arbiter.now_ns)
    }

    /// The rank of a waiter: the policy's, or that of priority if it fails or is no longer asked.
    fn rank(&mut self, id: TaskId, request: &Request, holdings: &Holdings) -> i64 {
        let by_priority = -i64::from(request.priority);
        if self.arbiter.phase != Phase::Serving {
            return by_priority;
        }
        let view = holdings.view(&self.arbiter.config, self.arbiter.now_ns);
        let answer = self.policy.rank(request, &view);
        self.judge_time(id);
        match answer {
            Ok(rank) => {
                self.arbiter.rank_faults_in_row = 0;
                rank
            }
            Err(fault) => {
                if let Some(refusal) = self.refusal_of(fault) {
                    self.arbiter.rank_faults_in_row += 1;
                    let in_row = self.arbiter.rank_faults_in_row;
                    self.count_refusal(id, request.gate, refusal, in_row);
                }
                by_priority
            }
        }
    }

    /// Asks about one waiter and does what the verdict says. Returns whether that changed the device.
    fn ask(&mut self, id: TaskId, holdings: &Holdings) -> bool {
        let Some(request) = self.request(id, holdings) else { return false };
        let now_ns = self.arbiter.now_ns;
        let answer = self.policy.decide(&request, &holdings.view(&self.arbiter.config, now_ns));
        if self.judge_time(id) {
            self.arbiter.slowness = self.arbiter.slowness.saturating_sub(1);
        } else if self.arbiter.phase != Phase::Serving {
            // One answer too late too many: it is not used any more.
            return false;
        }
        let decision = match answer {
            Ok(verdict) => {
                let Some(task) = self.arbiter.tasks.get(&id) else { return false };
                verdict::check(&verdict, task, request.gate, &self.arbiter.table, holdings, now_ns)
            }
            Err(fault) => match self.refusal_of(fault) {
                Some(refusal) => Err(refusal),
                None => return false,
            },
        };
        match decision {
            Ok(Decision::Enter { reserve_bytes }) => {
                self.enter(id, request.gate, reserve_bytes);
                self.note_passed(id, request.gate);
            }
            Ok(Decision::Skip) => self.skip(id),
            Ok(Decision::Wait { wake, deadline_ns }) => {
                self.arbiter.counters.waits += 1;
                if let Some(waiter) = self.waiter(id) {
                    waiter.answer = Answer::Wait { wake, deadline_ns };
                    waiter.refused_in_row = 0;
                    waiter.earliest_deadline_ns =
                        waiter.earliest_deadline_ns.into_iter().chain(deadline_ns).min();
                }
                return false;
            }
            Err(refusal) => {
                self.refuse(id, request.gate, refusal);
                return false;
            }
        }
        true
    }

    /// Lets a task into the stage behind `gate`: all the locks it misses there, and the bytes. The
    /// caller has seen to it that both can be had.
    pub fn enter(&mut self, id: TaskId, gate: Stage, reserve_bytes: u64) {
        let arbiter = &mut *self.arbiter;
        let now_ns = arbiter.now_ns;
        let Some(task) = arbiter.tasks.get_mut(&id) else { return };
        let Place::Gate(waiter) = &task.place else { return };
        let waited_ns = now_ns - waiter.since_ns;
        let taken = task.missing_locks(gate, &arbiter.table);
        task.locks = task.locks.with(taken);
        task.held_bytes += reserve_bytes;
        task.staged |= gate == Stage::STAGE;
        task.place = Place::Inside { stage: gate, since_ns: now_ns };
        let run = Command::Run {
            task: id,
            stage: gate,
            inline: gate == Stage::COMPUTE && !task.staged,
            held_bytes: task.held_bytes,
            locks: arbiter.table.names(taken),
            waited_ns,
        };
        let reserved = arbiter.tasks.values().map(|task| task.held_bytes).sum();
        arbiter.counters.peak_reserved_bytes = arbiter.counters.peak_reserved_bytes.max(reserved);
        arbiter.counters.grants[gate.index()] += 1;
        self.commands.push(run);
        self.moved = true;
        self.happened(WakeSet::STAGE_ENTERED);
        self.observe(ObservationKind::ENTERED, gate, id, 0, reserve_bytes);
    }

    fn skip(&mut self, id: TaskId) {
        let now_ns = self.arbiter.now_ns;
        let Some(waiter) = self.waiter(id) else { return };
        let waited_ns = now_ns - waiter.since_ns;
        self.arbiter.counters.skips += 1;
        self.commands.push(Command::Skipped { task: id, waited_ns });
        self.release(id, self.arbiter.table.over_at(Stage::COMPUTE), false);
        self.stand_at(id, Stage::COMPUTE);
        self.moved = true;
        self.happened(WakeSet::STAGE_ENTERED);
        self.observe(ObservationKind::SKIPPED, Stage::STAGE, id, 0, 0);
    }

    fn refuse(&mut self, id: TaskId, gate: Stage, refusal: Refusal) {
        let now_ns = self.arbiter.now_ns;
        let Some(waiter) = self.waiter(id) else { return };
        let backoff =
            FIRST_BACKOFF_NS.saturating_mul(1 << waiter.refused_in_row.min(32)).min(LONGEST_BACKOFF_NS);
        waiter.answer = Answer::Refused { refusal, again_ns: now_ns.saturating_add(backoff) };
        waiter.refused_in_row = waiter.refused_in_row.saturating_add(1);
        let in_row = waiter.refused_in_row;
        // Told before the limit is looked at: a policy on its way out is not told anything any more.
        self.observe(ObservationKind::REFUSED, gate, id, 0, 0);
        self.count_refusal(id, gate, refusal, in_row);
    }

    fn waiter(&mut self, id: TaskId) -> Option<&mut Waiter> {
        self.arbiter.tasks.get_mut(&id)?.waiter_mut()
    }
}
