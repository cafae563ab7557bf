//! A second, naive arbiter to hold the real one against: it knows the rules of the policy API, tries
//! every order in which tasks could finish, counts holders one by one, and shares no code with the engine.
//!
//! It is the policy as well: asked a question, it checks that the question is the right one and that everything
//! shown is true, picks an answer, works out what must come of it, and goes on from there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use interlock_engine::interlock::{
    Command, Event, EventError, Limits, LockSpec, Outcome, PolicyFault, PolicyPort, Quarantine, Refusal,
    TaskId, TaskSpec,
};
use interlock_policy_api::{
    Observation, ObservationKind as Kind, Request, RequestFlags, Stage, Verdict, VerdictKind, View, WakeSet,
};

const MS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Serving,
    Draining,
    Drained,
}

/// How the policy ranks.
#[derive(Clone, Copy, Debug)]
pub enum Ranking {
    Priority,
    SmallPeakFirst,
    /// Fails about tasks with an odd number.
    FailsAboutOdd,
}

#[derive(Clone, Debug)]
pub struct Task {
    pub spec: TaskSpec,
    arrival: u64,
    pub at: At,
    pub held: u64,
    pub staged: bool,
    pub locks: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
pub enum At {
    Gate(Waiting),
    Inside { stage: u32, since: u64 },
}

#[derive(Clone, Debug)]
pub struct Waiting {
    pub gate: u32,
    since: u64,
    /// The verdict that stands: what wakes it, and when it is asked again at the latest.
    stands: Option<(u32, Option<u64>)>,
    /// Events since the last question.
    heard: u32,
    deadlines: Vec<u64>,
    refused_in_row: u32,
}

/// The naive arbiter.
pub struct Reference {
    pub capacity: u64,
    pub limits: Limits,
    pub locks: Vec<LockSpec>,
    pub ranking: Ranking,
    pub tasks: BTreeMap<u64, Task>,
    pub mode: Mode,
    pub now: u64,
    /// What the policy will answer, as numbers.
    pub seeds: VecDeque<u8>,
    /// What the arbiter must have said by the end of the step.
    pub expected: Vec<Command>,
    expected_told: VecDeque<(Kind, u32, u64, u64, u64)>,
    arrivals: u64,
    rank_faults_in_row: u32,
    stuck_since: Option<u64>,
    moved: bool,
}

impl Reference {
    pub fn new(capacity: u64, limits: Limits, locks: Vec<LockSpec>, ranking: Ranking) -> Reference {
        Reference {
            capacity,
            limits,
            locks,
            ranking,
            tasks: BTreeMap::new(),
            mode: Mode::Serving,
            now: 0,
            seeds: VecDeque::new(),
            expected: Vec::new(),
            expected_told: VecDeque::new(),
            arrivals: 0,
            rank_faults_in_row: 0,
            stuck_since: None,
            moved: false,
        }
    }

    // ---- what is held ----

    fn covering(&self, gate: u32) -> BTreeSet<usize> {
        let covers = |lock: &LockSpec| (lock.first.0..=lock.last.0).contains(&gate);
        (0..self.locks.len()).filter(|&index| covers(&self.locks[index])).collect()
    }

    fn missing(&self, id: u64, gate: u32) -> BTreeSet<usize> {
        &self.covering(gate) - &self.tasks[&id].locks
    }

    fn holders(&self, lock: usize) -> u32 {
        self.tasks.values().filter(|task| task.locks.contains(&lock)).count() as u32
    }

    fn locks_free(&self, id: u64, gate: u32) -> bool {
        self.missing(id, gate).iter().all(|&lock| self.holders(lock) < self.locks[lock].permits)
    }

    pub fn held(&self) -> u64 {
        self.tasks.values().map(|task| task.held).sum()
    }

    fn bytes_free(&self, id: u64, gate: u32, reserve: u64) -> bool {
        if gate == 0 || gate == 3 {
            return true;
        }
        let free = u128::from(self.capacity - self.held());
        if u128::from(reserve) > free {
            return false;
        }
        let mut claims: Vec<(u128, u128)> = Vec::new();
        for (&other, task) in &self.tasks {
            let held = task.held + if other == id { reserve } else { 0 };
            if held > 0 || task.staged || other == id {
                claims.push((held.into(), (task.spec.peak_bytes - held).into()));
            }
        }
        some_order_finishes(free - u128::from(reserve), &claims)
    }

    fn need(&self, id: u64, gate: u32) -> u64 {
        let task = &self.tasks[&id];
        match gate {
            1 => task.spec.staged_bytes,
            2 => task.spec.peak_bytes - task.held,
            _ => 0,
        }
    }

    fn names(&self, locks: &BTreeSet<usize>) -> Vec<String> {
        locks.iter().map(|&lock| self.locks[lock].name.clone()).collect()
    }

    fn count(&self, wanted: impl Fn(&Task) -> bool) -> u32 {
        self.tasks.values().filter(|task| wanted(task)).count() as u32
    }

    pub fn waiting(&self, id: u64) -> Option<&Waiting> {
        match &self.tasks.get(&id)?.at {
            At::Gate(waiting) => Some(waiting),
            At::Inside { .. } => None,
        }
    }

    fn waiting_mut(&mut self, id: u64) -> &mut Waiting {
        match &mut self.tasks.get_mut(&id).expect("a task").at {
            At::Gate(waiting) => waiting,
            At::Inside { .. } => panic!("task {id} is inside a stage"),
        }
    }

    pub fn running(&self) -> Vec<u64> {
        self.tasks.keys().copied().filter(|&id| self.waiting(id).is_none()).collect()
    }

    // ---- events ----

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
                for task in self.tasks.values_mut() {
                    if let At::Gate(waiting) = &mut task.at {
                        *waiting = Waiting::at(waiting.gate, waiting.since);
                    }
                }
            }
        }
        Ok(())
    }

    fn arrive(&mut self, now: u64, spec: &TaskSpec) -> Result<(), EventError> {
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

    fn end(&mut self, now: u64, id: u64, outcome: Outcome) -> Result<(), EventError> {
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

    fn leave(&mut self, id: u64, stage: u32, freed: u64) {
        self.tasks.remove(&id);
        self.expected.push(Command::Left { task: TaskId(id) });
        self.tell(Kind::TASK_LEFT, stage, id, 0, freed);
    }

    fn free(&mut self, id: u64, which: impl Fn(&LockSpec) -> bool, all_bytes: bool) -> u64 {
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

    fn happen(&mut self, what: WakeSet) {
        for task in self.tasks.values_mut() {
            if let At::Gate(waiting) = &mut task.at {
                waiting.heard |= what.0;
            }
        }
    }

    fn tell(&mut self, kind: Kind, stage: u32, id: u64, took: u64, bytes: u64) {
        if self.mode == Mode::Serving {
            self.expected_told.push_back((kind, stage, id, took, bytes));
        }
    }

    // ---- questions ----

    fn is_due(&self, id: u64) -> bool {
        let Some(waiting) = self.waiting(id) else { return false };
        match waiting.stands {
            None => true,
            Some((wake, again)) => wake & waiting.heard != 0 || again.is_some_and(|at| at <= self.now),
        }
    }

    fn rank_of(&self, id: u64) -> i64 {
        let spec = &self.tasks[&id].spec;
        match self.ranking {
            Ranking::SmallPeakFirst => spec.peak_bytes as i64,
            Ranking::FailsAboutOdd if id % 2 == 0 => 1,
            Ranking::Priority | Ranking::FailsAboutOdd => -i64::from(spec.priority),
        }
    }

    fn check_question(&self, request: &Request, view: &View<'_>) {
        let id = request.task;
        assert!(self.is_due(id), "task {id} is not due");
        let first = (0..16).filter(|&other| self.is_due(other));
        let first = first.min_by_key(|&other| (self.rank_of(other), self.tasks[&other].arrival));
        assert_eq!(first, Some(id), "somebody else ranks first");
        self.check_request(request);
        self.check_view(view);
    }

    fn check_request(&self, request: &Request) {
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

    fn check_view(&self, view: &View<'_>) {
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
    fn answer(&mut self, request: &Request) -> Result<Verdict, PolicyFault> {
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
            _ => Verdict::enter(request.need_bytes + rest / 2),
        })
    }

    /// What has to come of an answer.
    fn carry_out(&mut self, id: u64, answer: Result<Verdict, PolicyFault>) {
        let gate = self.waiting(id).expect("it waits").gate;
        let refusal = match answer {
            Err(PolicyFault::Panicked) => Refusal::Panicked,
            Err(PolicyFault::Unreachable) => Refusal::Unreachable,
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

    fn fault_of_enter(&self, id: u64, gate: u32, reserve: u64) -> Option<Refusal> {
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

    fn enter(&mut self, id: u64, gate: u32, reserve: u64) {
        let run = self.run_command(id, gate, reserve);
        self.expected.push(run);
        self.let_in(id, gate, reserve);
        self.happen(WakeSet::STAGE_ENTERED);
        self.tell(Kind::ENTERED, gate, id, 0, reserve);
    }

    fn run_command(&self, id: u64, gate: u32, reserve: u64) -> Command {
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

    fn let_in(&mut self, id: u64, gate: u32, reserve: u64) {
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

    fn skip(&mut self, id: u64) {
        self.expected.push(Command::Skipped { task: TaskId(id) });
        self.free(id, |lock| lock.last.0 < 2, false);
        self.tasks.get_mut(&id).expect("a task").at = At::Gate(Waiting::at(2, self.now));
        self.happen(WakeSet::STAGE_ENTERED);
        self.moved = true;
        self.tell(Kind::SKIPPED, 1, id, 0, 0);
    }

    fn refuse(&mut self, id: u64, gate: u32, refusal: Refusal) {
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

    fn count_refusal(&mut self, id: u64, gate: u32, refusal: Refusal, in_row: u32) {
        self.expected.push(Command::Refused { task: TaskId(id), gate: Stage(gate), refusal });
        let limit = self.limits.refusals;
        if in_row >= limit {
            self.quarantine(Quarantine::TooManyRefusals { last: refusal, limit });
        }
    }

    fn quarantine(&mut self, why: Quarantine) {
        self.mode = Mode::Draining;
        self.expected.push(Command::Quarantined(why));
    }

    // ---- the end of a step ----

    /// Compares what the arbiter said with what it had to say, and follows it through a drain.
    pub fn end_step(&mut self, commands: &[Command]) {
        self.watch();
        assert_eq!(self.expected_told, [], "not told");
        let (said, drained) = commands.split_at(self.expected.len().min(commands.len()));
        assert_eq!(said, self.expected);
        for command in drained {
            self.follow(command);
        }
        match self.mode {
            Mode::Serving => assert!((0..16).all(|id| !self.is_due(id)), "somebody was not asked"),
            Mode::Draining => {
                assert!(self.can_pass().is_empty(), "somebody could have been let through");
                assert!(
                    self.tasks.keys().any(|&id| self.waiting(id).is_none() || self.passes(id)),
                    "not drained"
                );
            }
            Mode::Drained => assert!(self.held() == 0 && self.running().is_empty()),
        }
        let standing =
            |id: &u64| self.mode != Mode::Serving && self.waiting(*id).is_some() && !self.passes(*id);
        assert!(self.tasks.keys().filter(|id| standing(id)).all(|id| self.tasks[id].locks.is_empty()));
    }

    fn watch(&mut self) {
        if self.mode != Mode::Serving || self.tasks.is_empty() || !self.running().is_empty() {
            self.stuck_since = None;
        } else if self.moved || self.stuck_since.is_none() {
            self.stuck_since = Some(self.now);
        } else if let Some(idle_ns) = self.stuck_since.map(|since| self.now - since)
            && idle_ns >= self.limits.stall_ns
        {
            self.stuck_since = None;
            self.quarantine(Quarantine::Stalled { idle_ns });
        }
    }

    /// When the arbiter has to be woken.
    pub fn deadline(&self) -> Option<u64> {
        if self.mode != Mode::Serving {
            return None;
        }
        let again = (0..16).filter_map(|id| self.waiting(id)?.stands?.1);
        again.chain(self.stuck_since.map(|since| since + self.limits.stall_ns)).min()
    }

    fn passes(&self, id: u64) -> bool {
        self.waiting(id).is_some_and(|waiting| waiting.gate == 3 || self.tasks[&id].staged)
    }

    /// Who could be let through now, and with how many bytes.
    fn can_pass(&self) -> Vec<(u64, u64)> {
        let gate = |id| self.waiting(id).expect("it waits").gate;
        let passing = self.tasks.keys().copied().filter(|&id| self.passes(id));
        let passing = passing.map(|id| (self.need(id, gate(id)), id));
        passing
            .filter(|&(need, id)| self.locks_free(id, gate(id)) && self.bytes_free(id, gate(id), need))
            .collect()
    }

    fn follow(&mut self, command: &Command) {
        assert_eq!(self.mode, Mode::Draining, "{command:?}");
        match command {
            Command::Freed { task, .. } => {
                assert!(self.waiting(task.0).is_some() && !self.passes(task.0));
                self.expected.clear();
                self.free(task.0, |_| true, false);
                assert_eq!(self.expected, std::slice::from_ref(command));
            }
            Command::Run { task, stage, .. } => {
                let need = self.need(task.0, stage.0);
                let can_pass = self.can_pass();
                assert_eq!(
                    can_pass.iter().map(|&(need, _)| need).min(),
                    Some(need),
                    "the smallest rest first"
                );
                assert!(can_pass.contains(&(need, task.0)));
                assert_eq!(self.waiting(task.0).expect("it waits").gate, stage.0);
                assert_eq!(command, &self.run_command(task.0, stage.0, need));
                self.let_in(task.0, stage.0, need);
            }
            Command::Drained => self.mode = Mode::Drained,
            other => panic!("{other:?} during a drain"),
        }
    }
}

impl Waiting {
    fn at(gate: u32, since: u64) -> Waiting {
        Waiting { gate, since, stands: None, heard: 0, deadlines: Vec::new(), refused_in_row: 0 }
    }
}

impl PolicyPort for Reference {
    fn decide(&mut self, request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault> {
        assert_eq!(self.mode, Mode::Serving, "asked during a drain");
        self.check_question(request, view);
        let answer = self.answer(request);
        self.carry_out(request.task, answer);
        answer
    }

    fn rank(&mut self, request: &Request, view: &View<'_>) -> Result<i64, PolicyFault> {
        assert_eq!(self.mode, Mode::Serving, "asked to rank during a drain");
        self.check_request(request);
        self.check_view(view);
        if matches!(self.ranking, Ranking::FailsAboutOdd) && request.task % 2 == 1 {
            self.rank_faults_in_row += 1;
            self.count_refusal(request.task, request.gate.0, Refusal::Panicked, self.rank_faults_in_row);
            return Err(PolicyFault::Panicked);
        }
        self.rank_faults_in_row = 0;
        Ok(self.rank_of(request.task))
    }

    fn observe(&mut self, told: &Observation) -> Result<(), PolicyFault> {
        assert_eq!(told.now_ns, self.now);
        let told = (told.kind, told.stage.0, told.task, told.duration_ns, told.bytes);
        assert_eq!(self.expected_told.pop_front(), Some(told));
        Ok(())
    }
}

/// Whether tasks that hold `claims.0` and still need `claims.1` can finish in some order: all of them are tried.
fn some_order_finishes(free: u128, claims: &[(u128, u128)]) -> bool {
    claims.is_empty()
        || claims.iter().enumerate().any(|(index, &(held, rest))| {
            let mut others = claims.to_vec();
            others.remove(index);
            rest <= free && some_order_finishes(free + held, &others)
        })
}
