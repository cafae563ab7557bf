//! The watchdog: each limit as the README of the interlock defines it, worked out from scratch.

use interlock_arbiter::{Command, Quarantine, TaskId};
use interlock_policy_api::Stage;

use super::{At, BUDGET_NS, Mode, Reference};

impl Reference {
    /// At the end of a step.
    pub(super) fn watch(&mut self) {
        if self.mode != Mode::Serving || self.tasks.is_empty() || !self.running().is_empty() {
            self.stuck_since = None;
        } else if self.moved || self.stuck_since.is_none() {
            self.stuck_since = Some(self.now);
        } else if let Some(idle_ns) = self.stuck_since.map(|since| self.now - since)
            && idle_ns >= self.limits.stall_ns
        {
            self.quarantine(Quarantine::Stalled { idle_ns });
        }
        if self.mode != Mode::Serving {
            return;
        }
        let waiters: Vec<u64> = self.tasks.keys().copied().filter(|&id| self.waiting(id).is_some()).collect();
        for &id in &waiters {
            let (held_back, now) = (self.is_held_back(id), self.now);
            let waiting = self.waiting_mut(id);
            waiting.held_back_since = held_back.then(|| waiting.held_back_since.unwrap_or(now));
        }
        let since = |id: u64| Some((self.waiting(id)?.held_back_since?, self.tasks[&id].arrival, id));
        let Some((since, _, id)) = waiters.iter().filter_map(|&id| since(id)).min() else { return };
        if self.now - since >= self.limits.stall_ns {
            let gate = Stage(self.waiting(id).expect("it waits").gate);
            self.quarantine(Quarantine::HeldBack { task: TaskId(id), gate, held_ns: self.now - since });
        }
    }

    fn is_held_back(&self, id: u64) -> bool {
        let gate = self.waiting(id).expect("it waits").gate;
        let before =
            self.tasks.values().filter(|task| matches!(task.at, At::Inside { stage, .. } if stage >= gate));
        before.count() == 0 && self.locks_free(id, gate) && self.bytes_free(id, gate, self.need(id, gate))
    }

    /// After the policy let `by` in at `gate`.
    pub(super) fn note_passed(&mut self, by: u64, gate: u32) {
        for id in 0..16 {
            if !self.is_passed(id, by, gate) {
                continue;
            }
            let now = self.now;
            let waiting = self.waiting_mut(id);
            waiting.passed_by.push(by);
            let (gate, passes) = (Stage(waiting.gate), waiting.passed_by.len() as u32);
            let waited_ns = now - waiting.since;
            if passes == 3 {
                return self.quarantine(Quarantine::Starved { task: TaskId(id), gate, waited_ns, passes });
            }
        }
    }

    fn is_passed(&self, id: u64, by: u64, gate: u32) -> bool {
        let Some(waiting) = self.waiting(id) else { return false };
        let (task, other) = (&self.tasks[&id], &self.tasks[&by]);
        if task.arrival > other.arrival || task.spec.priority < other.spec.priority {
            return false;
        }
        let same_gate_or_past_it =
            if waiting.gate == 3 { gate == 3 } else { (waiting.gate..3).contains(&gate) };
        let late = self.now - waiting.since >= self.limits.starve_ns
            && self.now - self.seated >= self.limits.starve_ns;
        same_gate_or_past_it && late && self.could_go_without_later_ones(id, waiting.gate)
    }

    /// Takes everything from those that came later and have no higher priority, on a device that is then looked at and
    /// forgotten.
    fn could_go_without_later_ones(&self, id: u64, gate: u32) -> bool {
        let (arrival, priority) = (self.tasks[&id].arrival, self.tasks[&id].spec.priority);
        let mut without = Reference::new(self.capacity, self.limits, self.locks.clone(), self.ranking);
        without.tasks = self.tasks.clone();
        without.tasks.retain(|_, task| task.arrival <= arrival || task.spec.priority > priority);
        without.locks_free(id, gate) && without.bytes_free(id, gate, without.need(id, gate))
    }

    /// A call about `id` took `took` nanoseconds. Returns whether the policy is still in its seat.
    pub(super) fn judge_time(&mut self, id: u64, took: u64) -> bool {
        self.took = took;
        let limit = self.limits.slow;
        if took > BUDGET_NS {
            self.calls.push(true);
            self.expected.push(Command::Slow { task: TaskId(id), took_ns: took });
            if self.slow_calls() > limit - 1 {
                self.quarantine(Quarantine::Slow { took_ns: took, budget_ns: BUDGET_NS, limit });
            }
        }
        self.mode == Mode::Serving
    }

    /// Slow calls that are not made up for, 64 decisions in time for each; begun ones count.
    fn slow_calls(&self) -> u32 {
        let mut in_sixty_fourths = 0_u32;
        for &slow in &self.calls {
            in_sixty_fourths = if slow { in_sixty_fourths + 64 } else { in_sixty_fourths.saturating_sub(1) };
        }
        in_sixty_fourths.div_ceil(64)
    }
}
