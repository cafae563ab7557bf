//! The policy: whether a question is the right one, what is answered, what must come of it.

use interlock_arbiter::{Command, PolicyEnd, PolicyFault, PolicyPort, Quarantine, Refusal, TaskId};
use interlock_policy_api::{
    Observation, ObservationKind as Kind, Request, RequestFlags, Stage, Verdict, VerdictKind, View, WakeSet,
};

use super::{At, BUDGET_NS, MS, Mode, Ranking, Reference, Task, Waiting};

impl Reference {
    pub(super) fn is_due(&self, id: u64) -> bool {
        let Some(waiting) = self.waiting(id) else { return false };
        match waiting.stands {
            None => true,
            Some((wake, again)) => wake & waiting.heard != 0 || again.is_some_and(|at| at <= self.now),
        }
    }

    pub(super) fn rank_of(&self, id: u64) -> i64 {
        let spec = &self.tasks[&id].spec;
        match self.ranking {
            Ranking::SmallPeakFirst => spec.peak_bytes as i64,
            Ranking::FailsAboutOdd if id.is_multiple_of(2) => 1,
            Ranking::Priority | Ranking::FailsAboutOdd => -i64::from(spec.priority),
        }
    }

    pub(super) fn check_question(&self, request: &Request, view: &View<'_>) {
        let id = request.task;
        assert!(self.is_due(id), "task {id} is not due");
        let first = (0..16).filter(|&other| self.is_due(other));
        let first = first.min_by_key(|&other| (self.rank_of(other), self.tasks[&other].arrival));
        assert_eq!(first, Some(id), "somebody else ranks first");
        self.check_request(request);
        self.check_view(view);
    }

    pub(super) fn check_request(&self, request: &Request) {
        let (task, waiting) = (&self.tasks[&request.task], self.waiting(request.task).expect("it waits"));
        let gate = waiting.gate;
        let need = self.need(request.task, gate);
        assert_eq!((request.job, request.partition), (task.spec.job, task.spec.partition));
        assert_eq!((request.priority, request.arrival), (task.spec.priority, task.arrival));
        assert_eq!((request.gate.0, request.gate_since_ns), (gate, waiting.since));
        assert_eq!((request.held_bytes, request.need_bytes), (task.held, need));
        assert_eq!(request.peak_bytes, task.spec.peak_bytes);
        let shown = |flag| request.flags.contains(flag);
        assert_eq!(shown(RequestFlags::STAGED), task.staged);
        assert_eq!(shown(RequestFlags::RETRY), task.spec.retry);
        assert_eq!(shown(RequestFlags::LOCKS_FREE), self.locks_free(request.task, gate));
        assert_eq!(shown(RequestFlags::BYTES_FREE), self.bytes_free(request.task, gate, need));
        let passed = waiting.deadlines.iter().any(|&deadline| deadline <= self.now);
        assert_eq!(shown(RequestFlags::DEADLINE_PASSED), passed);
    }

    pub(super) fn check_view(&self, view: &View<'_>) {
        assert_eq!((view.now_ns, view.capacity_bytes), (self.now, self.capacity));
        assert_eq!(view.free_bytes, self.capacity - self.held());
        for stage in 0..4 {
            let waits = |task: &Task| matches!(&task.at, At::Gate(waiting) if waiting.gate == stage);
            let runs = |task: &Task| matches!(task.at, At::Inside { stage: inside, .. } if inside == stage);
            assert_eq!(view.waiting[stage as usize], self.count(waits));
            assert_eq!(view.running[stage as usize], self.count(runs));
        }
        let staged = |task: &Task| task.staged && matches!(&task.at, At::Gate(waiting) if waiting.gate == 2);
        assert_eq!(view.staged, self.count(staged));
        let shown: Vec<_> = view.locks.iter().map(|lock| (lock.permits, lock.free)).collect();
        let locks = self.locks.iter().enumerate();
        let held: Vec<_> = locks.map(|(i, lock)| (lock.permits, lock.permits - self.holders(i))).collect();
        assert_eq!(shown, held);
    }

    /// An answer out of a number: sensible ones, and every kind of garbage.
    pub(super) fn answer(&mut self, request: &Request) -> Result<Verdict, PolicyFault> {
        let seed = self.seeds.pop_front().unwrap_or(0);
        let wake = WakeSet(u32::from(seed >> 4) << 1 | 1);
        let rest = request.peak_bytes - request.held_bytes;
        Ok(match seed % 24 {
            0..=7 if request.grantable() => Verdict::enter(request.need_bytes),
            0..=3 => Verdict::wait(WakeSet::FREED),
            4..=7 => Verdict::wait_until(wake, self.now + u64::from(seed >> 4) * MS / 4 + 1),
            8 | 9 => Verdict::skip(),
            10 | 11 => Verdict::enter(request.need_bytes),
            12 => Verdict::enter(rest),
            13 => Verdict::enter(request.need_bytes.saturating_sub(1)),
            14 => Verdict::enter(rest + 1),
            15 => Verdict::enter(u64::MAX),
            16 => Verdict::wait(wake),
            17 => Verdict::wait(WakeSet(u32::from(seed >> 4) << 5)),
            18 => Verdict::wait_until(WakeSet::NONE, self.now + u64::from(seed >> 4) * MS),
            19 => Verdict::wait_until(WakeSet::ANY, self.now.saturating_sub(1)),
            20 => Verdict { kind: VerdictKind(u32::from(seed)), ..Verdict::enter(request.need_bytes) },
            21 => return Err(PolicyFault::Panicked),
            22 => return Err(PolicyFault::Unreachable),
            23 if seed > 200 => return Err(PolicyFault::Ended(PolicyEnd::Rubbish)),
            _ => Verdict::enter(request.need_bytes + rest / 2),
        })
    }

    /// What has to come of an answer.
    pub(super) fn carry_out(&mut self, id: u64, answer: Result<Verdict, PolicyFault>) {
        let gate = self.waiting(id).expect("it waits").gate;
        let refusal = match answer {
            Err(PolicyFault::Panicked) => Refusal::Panicked,
            Err(PolicyFault::Unreachable) => Refusal::Unreachable,
            Err(PolicyFault::Ended(end)) => return self.quarantine(Quarantine::Ended(end)),
            Ok(verdict) => match verdict.kind.0 {
                1 => match self.fault_of_enter(id, gate, verdict.reserve_bytes) {
                    None => return self.enter(id, gate, verdict.reserve_bytes),
                    Some(refusal) => refusal,
                },
                2 if gate == 1 => return self.skip(id),
                2 => Refusal::SkipNotAllowed,
                3 => {
                    let timed = verdict.deadline_ns != u64::MAX;
                    if timed && verdict.deadline_ns > self.now || !timed && verdict.wake.0 & 31 != 0 {
                        let waiting = self.waiting_mut(id);
                        waiting.deadlines.extend(timed.then_some(verdict.deadline_ns));
                        waiting.stands = Some((verdict.wake.0, timed.then_some(verdict.deadline_ns)));
                        waiting.heard = 0;
                        waiting.refused_in_row = 0;
                        return;
                    }
                    Refusal::EndlessWait
                }
                _ => Refusal::UnknownKind,
            },
        };
        self.refuse(id, gate, refusal);
    }

    pub(super) fn fault_of_enter(&self, id: u64, gate: u32, reserve: u64) -> Option<Refusal> {
        let task = &self.tasks[&id];
        let most = if gate == 1 || gate == 2 { task.spec.peak_bytes - task.held } else { 0 };
        if reserve < self.need(id, gate) {
            Some(Refusal::TooFewBytes)
        } else if reserve > most {
            Some(Refusal::TooManyBytes)
        } else if !self.locks_free(id, gate) {
            Some(Refusal::LockTaken)
        } else if !self.bytes_free(id, gate, reserve) {
            Some(Refusal::UnsafeReservation)
        } else {
            None
        }
    }

    pub(super) fn enter(&mut self, id: u64, gate: u32, reserve: u64) {
        let run = self.run_command(id, gate, reserve);
        self.expected.push(run);
        self.let_in(id, gate, reserve);
        self.happen(WakeSet::STAGE_ENTERED);
        self.tell(Kind::ENTERED, gate, id, 0, reserve);
    }

    pub(super) fn run_command(&self, id: u64, gate: u32, reserve: u64) -> Command {
        let task = &self.tasks[&id];
        Command::Run {
            task: TaskId(id),
            stage: Stage(gate),
            inline: gate == 2 && !task.staged,
            held_bytes: task.held + reserve,
            locks: self.names(&self.missing(id, gate)),
            waited_ns: self.now - self.waiting(id).expect("it waits").since,
        }
    }

    pub(super) fn let_in(&mut self, id: u64, gate: u32, reserve: u64) {
        let taken = self.missing(id, gate);
        let now = self.now;
        let task = self.tasks.get_mut(&id).expect("a task");
        task.locks.extend(taken);
        task.held += reserve;
        task.staged |= gate == 1;
        task.at = At::Inside { stage: gate, since: now };
        self.moved = true;
        assert!(self.held() <= self.capacity);
        assert!((0..self.locks.len()).all(|lock| self.holders(lock) <= self.locks[lock].permits));
    }

    pub(super) fn skip(&mut self, id: u64) {
        let waited_ns = self.now - self.waiting(id).expect("it waits").since;
        self.expected.push(Command::Skipped { task: TaskId(id), waited_ns });
        self.free(id, |lock| lock.last.0 < 2, false);
        self.tasks.get_mut(&id).expect("a task").at = At::Gate(Waiting::at(2, self.now));
        self.happen(WakeSet::STAGE_ENTERED);
        self.moved = true;
        self.tell(Kind::SKIPPED, 1, id, 0, 0);
    }

    pub(super) fn refuse(&mut self, id: u64, gate: u32, refusal: Refusal) {
        let now = self.now;
        let waiting = self.waiting_mut(id);
        let pause =
            [1, 2, 4, 8, 16, 32, 64].get(waiting.refused_in_row as usize).copied().unwrap_or(100) * MS;
        waiting.stands = Some((0b11, Some(now + pause)));
        waiting.heard = 0;
        waiting.refused_in_row += 1;
        let in_row = waiting.refused_in_row;
        self.tell(Kind::REFUSED, gate, id, 0, 0);
        self.count_refusal(id, gate, refusal, in_row);
    }

    pub(super) fn count_refusal(&mut self, id: u64, gate: u32, refusal: Refusal, in_row: u32) {
        self.expected.push(Command::Refused { task: TaskId(id), gate: Stage(gate), refusal });
        let limit = self.limits.refusals;
        if in_row >= limit {
            self.quarantine(Quarantine::TooManyRefusals { last: refusal, limit });
        }
    }

    pub(super) fn quarantine(&mut self, why: Quarantine) {
        if self.mode != Mode::Serving {
            return;
        }
        self.stuck_since = None;
        self.mode = Mode::Draining;
        self.expected.push(Command::Quarantined(why));
    }
}

impl PolicyPort for Reference {
    fn decide(&mut self, request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault> {
        assert_eq!(self.mode, Mode::Serving, "asked during a drain");
        self.check_question(request, view);
        // One answer in six is late.
        let late = self.seeds.front().is_some_and(|seed| seed % 6 == 5);
        let answer = self.answer(request);
        let still_seated = self.judge_time(request.task, BUDGET_NS + u64::from(late));
        if !late {
            self.calls.push(false);
        }
        if still_seated {
            self.carry_out(request.task, answer);
        }
        answer
    }

    fn rank(&mut self, request: &Request, view: &View<'_>) -> Result<i64, PolicyFault> {
        assert_eq!(self.mode, Mode::Serving, "asked to rank during a drain");
        self.check_request(request);
        self.check_view(view);
        self.judge_time(request.task, if request.task == 5 { 77 } else { 0 });
        if matches!(self.ranking, Ranking::FailsAboutOdd) && !request.task.is_multiple_of(2) {
            self.rank_faults_in_row += 1;
            self.count_refusal(request.task, request.gate.0, Refusal::Panicked, self.rank_faults_in_row);
            return Err(PolicyFault::Panicked);
        }
        self.rank_faults_in_row = 0;
        Ok(self.rank_of(request.task))
    }

    fn observe(&mut self, told: &Observation) -> Result<(), PolicyFault> {
        assert_eq!(told.now_ns, self.now);
        let (kind, stage, id) = (told.kind, told.stage.0, told.task);
        let told = (kind, stage, id, told.duration_ns, told.bytes);
        assert_eq!(self.expected_told.pop_front(), Some(told));
        let slow = id == 3 && (kind == Kind::ENTERED || kind == Kind::TASK_LEFT);
        self.judge_time(id, if slow { 78 } else { 1 });
        if kind == Kind::ENTERED {
            self.note_passed(id, stage);
        }
        Ok(())
    }

    fn took_ns(&self) -> u64 {
        self.took
    }
}
