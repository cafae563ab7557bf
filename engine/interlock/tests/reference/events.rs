//! What an event does before anybody is asked.

use std::collections::BTreeSet;

use interlock_arbiter::{Command, Event, EventError, LockSpec, Outcome, TaskId, TaskSpec};
use interlock_policy_api::{ObservationKind as Kind, Stage, WakeSet};

use super::{At, Mode, Reference, Task, Waiting};

impl Reference {
    /// What the event does before anybody is asked, or the error it is.
    pub fn take(&mut self, now: u64, event: &Event) -> Result<(), EventError> {
        self.expected.clear();
        self.moved = false;
        let was = self.mode;
        match event {
            Event::Arrived(spec) => self.arrive(now, spec)?,
            Event::StageEnded { task, outcome } => self.end(now, task.0, *outcome)?,
            Event::Cancelled { task } => {
                self.now = self.now.max(now);
                if let Some(gate) = self.waiting(task.0).map(|waiting| waiting.gate) {
                    let freed = self.free(task.0, |_| true, true);
                    self.leave(task.0, gate, freed);
                }
            }
            Event::Tick => self.now = self.now.max(now),
            Event::Drain => {
                self.now = self.now.max(now);
                match was {
                    Mode::Serving => self.mode = Mode::Draining,
                    Mode::Draining => {}
                    Mode::Drained => self.expected.push(Command::Drained),
                }
            }
            Event::Installed(table) => {
                if was != Mode::Drained {
                    return Err(EventError::NotDrained);
                }
                self.now = self.now.max(now);
                self.locks = table.locks().to_vec();
                self.mode = Mode::Serving;
                self.rank_faults_in_row = 0;
                self.moved = true;
                self.seated = self.now;
                self.calls.clear();
                for task in self.tasks.values_mut() {
                    if let At::Gate(waiting) = &mut task.at {
                        *waiting = Waiting::at(waiting.gate, waiting.since);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn arrive(&mut self, now: u64, spec: &TaskSpec) -> Result<(), EventError> {
        let (task, capacity_bytes) = (spec.task, self.capacity);
        let (staged_bytes, peak_bytes) = (spec.staged_bytes, spec.peak_bytes);
        if self.tasks.contains_key(&task.0) {
            return Err(EventError::DuplicateTask { task });
        }
        if staged_bytes > peak_bytes {
            return Err(EventError::StagedAbovePeak { task, staged_bytes, peak_bytes });
        }
        if peak_bytes > capacity_bytes {
            return Err(EventError::LargerThanDevice { task, peak_bytes, capacity_bytes });
        }
        self.now = self.now.max(now);
        self.happen(WakeSet::TASK_ARRIVED);
        let (at, locks) = (At::Gate(Waiting::at(0, self.now)), BTreeSet::new());
        let new = Task { spec: spec.clone(), arrival: self.arrivals, at, held: 0, staged: false, locks };
        self.tasks.insert(task.0, new);
        self.arrivals += 1;
        Ok(())
    }

    pub(super) fn end(&mut self, now: u64, id: u64, outcome: Outcome) -> Result<(), EventError> {
        let Some(task) = self.tasks.get(&id) else {
            return Err(EventError::UnknownTask { task: TaskId(id) });
        };
        let (stage, since) = match &task.at {
            At::Inside { stage, since } => (*stage, *since),
            At::Gate(w) => return Err(EventError::NotRunning { task: TaskId(id), gate: Stage(w.gate) }),
        };
        let retry = task.spec.retry;
        self.now = self.now.max(now);
        let took = self.now - since;
        self.moved = true;
        self.happen(WakeSet::STAGE_ENDED);
        if outcome == Outcome::Done && stage < 3 {
            let gate = if stage == 0 && retry { 2 } else { stage + 1 };
            let freed = self.free(id, |lock| lock.last.0 < gate, stage == 2);
            self.tell(Kind::STAGE_ENDED, stage, id, took, freed);
            self.tasks.get_mut(&id).expect("a task").at = At::Gate(Waiting::at(gate, self.now));
        } else {
            let freed = self.free(id, |_| true, true);
            let kind = match outcome {
                Outcome::Done => Kind::STAGE_ENDED,
                Outcome::Failed => Kind::STAGE_FAILED,
                Outcome::AllocationFailed => Kind::ALLOCATION_FAILED,
            };
            self.tell(kind, stage, id, took, freed);
            self.leave(id, stage, 0);
        }
        Ok(())
    }

    pub(super) fn leave(&mut self, id: u64, stage: u32, freed: u64) {
        self.tasks.remove(&id);
        self.expected.push(Command::Left { task: TaskId(id) });
        self.tell(Kind::TASK_LEFT, stage, id, 0, freed);
    }

    pub(super) fn free(&mut self, id: u64, which: impl Fn(&LockSpec) -> bool, all_bytes: bool) -> u64 {
        let task = self.tasks.get_mut(&id).expect("a task");
        let locks: BTreeSet<usize> =
            task.locks.iter().copied().filter(|&lock| which(&self.locks[lock])).collect();
        task.locks = &task.locks - &locks;
        let bytes = if all_bytes { task.held } else { 0 };
        task.held -= bytes;
        task.staged &= !all_bytes;
        if !locks.is_empty() || bytes > 0 {
            let locks = self.names(&locks);
            self.expected.push(Command::Freed { task: TaskId(id), locks, bytes });
        }
        if !locks.is_empty() {
            self.happen(WakeSet::LOCK_FREED);
        }
        if bytes > 0 {
            self.happen(WakeSet::BYTES_FREED);
        }
        bytes
    }

    pub(super) fn happen(&mut self, what: WakeSet) {
        for task in self.tasks.values_mut() {
            if let At::Gate(waiting) = &mut task.at {
                waiting.heard |= what.0;
            }
        }
    }

    pub(super) fn tell(&mut self, kind: Kind, stage: u32, id: u64, took: u64, bytes: u64) {
        if self.mode == Mode::Serving {
            self.expected_told.push_back((kind, stage, id, took, bytes));
        }
    }
}
