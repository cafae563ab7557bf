//! From events to spans. Each task goes through its states as the arbiter lets it; an event that does not
//! follow from the state its task is in is an error, not a guess.

use std::collections::BTreeMap;
use std::collections::HashMap;

use interlock_arbiter::{TimelineEvent, TimelineKind};
use interlock_policy_api::Stage;

use crate::error::Problem;
use crate::timeline::{Activity, Actor, Device, Ending, Engine, Job, Mark, Partition, Span, Task, Timeline};

/// What is wrong with an event, and in which column.
pub(crate) struct Fault {
    pub column: Option<&'static str>,
    pub problem: Problem,
}

type Result<T = ()> = std::result::Result<T, Fault>;

fn fault(column: &'static str, problem: Problem) -> Fault {
    Fault { column: Some(column), problem }
}

/// A task on its device.
struct OnDevice {
    index: u32,
    /// When it came to the gate it stands at.
    since_ns: u64,
    /// The stage it is in or was in last.
    latest: Option<Stage>,
    /// The stage it is in.
    inside: Option<Span>,
    /// The locks it holds, and what each would be as a span.
    locks: Vec<Span>,
}

/// A timeline in the making.
#[derive(Default)]
pub(crate) struct Assembly {
    made: Timeline,
    begun_ns: Option<u64>,
    devices: BTreeMap<u32, Device>,
    partitions: HashMap<Partition, u32>,
    /// Time of each partition's latest event. A partition is in one place at a time, so this covers its tasks.
    latest_ns: Vec<u64>,
    submitted: HashMap<u64, u64>,
    /// Numbers of all tasks.
    tasks: HashMap<u64, Option<Box<OnDevice>>>,
    locks: HashMap<String, u32>,
}

impl Assembly {
    /// Takes the next event.
    pub fn push(&mut self, event: TimelineEvent) -> Result {
        self.made.end_ns = self.made.end_ns.max(event.at_ns);
        if let Some(device) = event.device {
            let device =
                self.devices.entry(device).or_insert_with(|| Device { index: device, ..Device::default() });
            if device.core.is_empty() {
                device.core = event.core.clone().into_owned();
            }
        }
        match event.event {
            TimelineKind::Engine => self.engine(event),
            TimelineKind::Host => self.host(&event),
            TimelineKind::Device => self.device(event),
            TimelineKind::Submitted => self.submitted(&event),
            TimelineKind::Synthesized => self.synthesized(&event),
            TimelineKind::Arrived => self.arrived(&event),
            TimelineKind::Entered => self.entered(&event),
            TimelineKind::Ended | TimelineKind::Failed => self.ended(event),
            TimelineKind::Skipped => self.skipped(event),
            TimelineKind::Freed => self.freed(&event),
            TimelineKind::Left => self.left(&event),
            TimelineKind::Verified => self.verified(&event),
            TimelineKind::Refused | TimelineKind::Slow => self.mark_of_task(event),
            TimelineKind::DeviceLost
            | TimelineKind::Quarantined
            | TimelineKind::RolledBack
            | TimelineKind::Seated => {
                needed(event.device, "device", &event)?;
                self.mark(event, None);
                Ok(())
            }
        }
    }

    /// The timeline; `None` if there was no event.
    pub fn finish(mut self) -> Option<Timeline> {
        let end_ns = self.made.end_ns;
        let mut open: Vec<_> = std::mem::take(&mut self.tasks).into_values().flatten().collect();
        open.sort_by_key(|task| task.index);
        for task in open {
            self.leave(*task, end_ns, Ending::Open);
        }
        self.made.devices = self.devices.into_values().collect();
        self.made.begin_ns = self.begun_ns?;
        Some(self.made)
    }

    fn begun(&mut self, at_ns: u64) {
        self.begun_ns = Some(self.begun_ns.map_or(at_ns, |begun| begun.min(at_ns)));
    }

    fn engine(&mut self, event: TimelineEvent) -> Result {
        let synthesis_workers = needed(event.count, "count", &event)?;
        self.made.engine = Some(Engine { name: event.detail, synthesis_workers });
        Ok(())
    }

    fn host(&mut self, event: &TimelineEvent) -> Result {
        self.made.processors = event.count;
        Ok(())
    }

    fn device(&mut self, event: TimelineEvent) -> Result {
        let index = needed(event.device, "device", &event)?;
        let device = Device {
            index,
            core: event.core.into_owned(),
            name: event.detail,
            capacity_bytes: event.bytes,
            workers: event.count,
            policy: Some(event.policy).filter(|policy| !policy.is_empty()),
        };
        self.devices.insert(index, device);
        Ok(())
    }

    fn submitted(&mut self, event: &TimelineEvent) -> Result {
        let (job, at_ns) = (needed(event.job, "job", event)?, event.at_ns);
        self.begun(at_ns);
        self.submitted.insert(job, at_ns);
        self.made.jobs.push(Job {
            job,
            submitted_ns: at_ns,
            partitions: needed(event.count, "count", event)?,
            staged_bytes: event.bytes,
            peak_bytes: event.peak_bytes,
            priority: event.priority.unwrap_or(0),
        });
        Ok(())
    }

    fn synthesized(&mut self, event: &TimelineEvent) -> Result {
        let partition = self.partition(event)?;
        let worker = needed(event.worker, "worker", event)?;
        let of = self.made.partitions[partition as usize];
        let since_ns = self.submitted.get(&of.job).copied().unwrap_or(0);
        let begin_ns = begin(event, since_ns)?;
        self.begun(begin_ns);
        let span = span(Activity::Synthesis, Actor::Synthesis(worker), partition, begin_ns);
        self.end_span(span, event.at_ns, Ending::Done);
        Ok(())
    }

    fn arrived(&mut self, event: &TimelineEvent) -> Result {
        let id = needed(event.task, "task", event)?;
        let task = Task {
            id,
            partition: self.partition(event)?,
            device: needed(event.device, "device", event)?,
            worker: needed(event.worker, "worker", event)?,
            arrived_ns: event.at_ns,
            left_ns: None,
        };
        let index = self.made.tasks.len() as u32;
        let state = OnDevice { index, since_ns: event.at_ns, latest: None, inside: None, locks: Vec::new() };
        if self.tasks.contains_key(&id) {
            return Err(fault("task", Problem::Twice(id)));
        }
        self.tasks.insert(id, Some(Box::new(state)));
        self.begun(event.at_ns);
        self.made.tasks.push(task);
        Ok(())
    }

    fn entered(&mut self, event: &TimelineEvent) -> Result {
        let (mut state, task) = self.take(event)?;
        let stage = needed(event.stage, "stage", event)?;
        if state.inside.is_some() || state.latest.is_some_and(|latest| latest >= stage) {
            let problem = Problem::OutOfOrder { task: task.id, entered: stage, after: state.latest };
            return Err(fault("stage", problem));
        }
        let waited_ns = self.wait(event, &state, &task, stage)?;
        let actor = Actor::Device { device: task.device, worker: task.worker };
        let run = Span {
            waited_ns,
            task: Some(state.index),
            bytes: event.bytes.unwrap_or(0),
            inline: stage == Stage::COMPUTE && state.latest.is_none_or(|latest| latest < Stage::STAGE),
            ..span(Activity::Run(stage), actor, task.partition, event.at_ns)
        };
        for name in names(&event.locks) {
            let lock = self.lock(name);
            if state.locks.iter().any(|held| held.activity == Activity::Hold(lock)) {
                let problem = Problem::Lock { task: task.id, lock: name.to_owned(), taken: true };
                return Err(fault("locks", problem));
            }
            state.locks.push(Span { activity: Activity::Hold(lock), inline: false, ..run });
        }
        (state.latest, state.inside) = (Some(stage), Some(run));
        self.put_back(task.id, state);
        Ok(())
    }

    fn ended(&mut self, event: TimelineEvent) -> Result {
        let (mut state, task) = self.take(&event)?;
        let stage = needed(event.stage, "stage", &event)?;
        let inside = state.inside.take();
        let is = inside.and_then(|run| match run.activity {
            Activity::Run(stage) => Some(stage),
            _ => None,
        });
        let Some(run) = inside.filter(|_| is == Some(stage)) else {
            let problem = Problem::EndWithoutBegin { task: task.id, ended: stage, inside: is };
            return Err(fault("stage", problem));
        };
        begin(&event, run.begin_ns)?;
        let failed = event.event == TimelineKind::Failed;
        self.end_span(run, event.at_ns, if failed { Ending::Failed } else { Ending::Done });
        state.since_ns = event.at_ns;
        if failed {
            self.mark(event, Some(state.index));
        }
        self.put_back(task.id, state);
        Ok(())
    }

    fn skipped(&mut self, event: TimelineEvent) -> Result {
        let (mut state, task) = self.take(&event)?;
        if state.inside.is_some() || state.latest.is_some_and(|latest| latest >= Stage::STAGE) {
            let problem = Problem::OutOfOrder { task: task.id, entered: Stage::STAGE, after: state.latest };
            return Err(fault("event", problem));
        }
        let waited_ns = self.wait(&event, &state, &task, Stage::STAGE)?;
        state.since_ns = event.at_ns;
        self.mark(TimelineEvent { duration_ns: Some(waited_ns), ..event }, Some(state.index));
        self.put_back(task.id, state);
        Ok(())
    }

    fn freed(&mut self, event: &TimelineEvent) -> Result {
        let (mut state, task) = self.take(event)?;
        for name in names(&event.locks) {
            let lock = self.locks.get(name).copied();
            let held = state.locks.iter().position(|held| lock.map(Activity::Hold) == Some(held.activity));
            let Some(held) = held else {
                let problem = Problem::Lock { task: task.id, lock: name.to_owned(), taken: false };
                return Err(fault("locks", problem));
            };
            let held = state.locks.remove(held);
            self.end_span(held, event.at_ns, Ending::Done);
        }
        self.put_back(task.id, state);
        Ok(())
    }

    fn left(&mut self, event: &TimelineEvent) -> Result {
        let (state, _) = self.take(event)?;
        self.made.tasks[state.index as usize].left_ns = Some(event.at_ns);
        self.leave(*state, event.at_ns, Ending::GivenUp);
        Ok(())
    }

    fn verified(&mut self, event: &TimelineEvent) -> Result {
        let since_ns = self.latest(event)?;
        let partition = self.partition(event)?;
        let device = needed(event.device, "device", event)?;
        let worker = needed(event.worker, "worker", event)?;
        let begin_ns = begin(event, since_ns)?;
        let span = span(Activity::Verify, Actor::Device { device, worker }, partition, begin_ns);
        self.end_span(span, event.at_ns, Ending::Done);
        self.begun(begin_ns);
        Ok(())
    }

    /// Something about a task that changes nothing. Whose it was may have been forgotten by the writer.
    fn mark_of_task(&mut self, event: TimelineEvent) -> Result {
        if event.task.is_none() {
            self.mark(event, None);
            return Ok(());
        }
        let (state, task) = self.take(&event)?;
        self.mark(event, Some(state.index));
        self.put_back(task.id, state);
        Ok(())
    }

    fn mark(&mut self, event: TimelineEvent, task: Option<u32>) {
        let TimelineEvent { at_ns, event: kind, device, stage, duration_ns, detail: text, .. } = event;
        let took_ns = duration_ns.unwrap_or(0);
        self.begun(at_ns);
        self.made.marks.push(Mark { at_ns, kind, device, task, stage, took_ns, text });
    }

    /// Writes down the wait at the gate of `stage`, which ends now; returns how long it was.
    fn wait(&mut self, event: &TimelineEvent, state: &OnDevice, task: &Task, stage: Stage) -> Result<u64> {
        let begin_ns = match event.duration_ns {
            Some(_) => begin(event, state.since_ns)?,
            None => state.since_ns,
        };
        let waited_ns = event.at_ns - begin_ns;
        if waited_ns > 0 {
            let actor = Actor::Device { device: task.device, worker: task.worker };
            let wait = span(Activity::Wait(stage), actor, task.partition, begin_ns);
            let wait = Span { waited_ns, task: Some(state.index), ..wait };
            self.end_span(wait, event.at_ns, Ending::Done);
        }
        Ok(waited_ns)
    }

    /// Ends all that a task still had.
    fn leave(&mut self, state: OnDevice, at_ns: u64, ending: Ending) {
        if let Some(run) = state.inside {
            self.end_span(run, at_ns, ending);
        } else if ending == Ending::Open && at_ns > state.since_ns {
            let task = self.made.tasks[state.index as usize];
            let next = state.latest.map_or(0, |latest| latest.0 + 1);
            if let Some(stage) = Stage::ALL.get(next as usize) {
                let actor = Actor::Device { device: task.device, worker: task.worker };
                let wait = span(Activity::Wait(*stage), actor, task.partition, state.since_ns);
                let waited_ns = at_ns - state.since_ns;
                self.end_span(Span { waited_ns, task: Some(state.index), ..wait }, at_ns, ending);
            }
        }
        for held in state.locks {
            self.end_span(held, at_ns, ending);
        }
    }

    fn end_span(&mut self, span: Span, end_ns: u64, ending: Ending) {
        self.made.spans.push(Span { end_ns, ending, ..span });
    }

    /// The task of an event, which must be on the device that the event says. Put it back afterwards.
    fn take(&mut self, event: &TimelineEvent) -> Result<(Box<OnDevice>, Task)> {
        let id = needed(event.task, "task", event)?;
        let state = self.tasks.get_mut(&id).and_then(Option::take);
        let state = state.ok_or_else(|| fault("task", Problem::NoSuchTask(id)))?;
        let task = self.made.tasks[state.index as usize];
        let of = self.made.partitions[task.partition as usize];
        let same = [
            ("device", event.device.map(u64::from), u64::from(task.device)),
            ("worker", event.worker.map(u64::from), u64::from(task.worker)),
            ("job", event.job, of.job),
            ("partition", event.partition.map(u64::from), u64::from(of.partition)),
        ];
        for (column, found, expected) in same {
            if let Some(found) = found.filter(|found| *found != expected) {
                return Err(fault(column, Problem::Strayed { task: id, found, expected }));
            }
        }
        self.forward(task.partition, event.at_ns)?;
        Ok((state, task))
    }

    fn put_back(&mut self, id: u64, state: Box<OnDevice>) {
        self.tasks.insert(id, Some(state));
    }

    /// The partition of an event, whose time must not lie before the partition's latest.
    fn partition(&mut self, event: &TimelineEvent) -> Result<u32> {
        let of = partition_of(event)?;
        let next = self.made.partitions.len() as u32;
        let index = *self.partitions.entry(of).or_insert(next);
        if index == next {
            self.made.partitions.push(of);
            self.latest_ns.push(0);
        }
        self.forward(index, event.at_ns)?;
        Ok(index)
    }

    /// Time of the latest event of the partition of an event; 0 if there was none.
    fn latest(&self, event: &TimelineEvent) -> Result<u64> {
        let index = self.partitions.get(&partition_of(event)?);
        Ok(index.map_or(0, |index| self.latest_ns[*index as usize]))
    }

    fn forward(&mut self, partition: u32, at_ns: u64) -> Result {
        let latest_ns = &mut self.latest_ns[partition as usize];
        if at_ns < *latest_ns {
            return Err(fault("at_ns", Problem::Backwards { at_ns, before_ns: *latest_ns }));
        }
        *latest_ns = at_ns;
        Ok(())
    }

    fn lock(&mut self, name: &str) -> u32 {
        if let Some(lock) = self.locks.get(name) {
            return *lock;
        }
        let lock = self.made.locks.len() as u32;
        self.locks.insert(name.to_owned(), lock);
        self.made.locks.push(name.to_owned());
        lock
    }
}

fn partition_of(event: &TimelineEvent) -> Result<Partition> {
    let job = needed(event.job, "job", event)?;
    Ok(Partition { job, partition: needed(event.partition, "partition", event)? })
}

/// A span that has only begun.
fn span(activity: Activity, actor: Actor, partition: u32, begin_ns: u64) -> Span {
    Span {
        begin_ns,
        end_ns: begin_ns,
        activity,
        actor,
        partition,
        task: None,
        waited_ns: 0,
        bytes: 0,
        inline: false,
        ending: Ending::Done,
    }
}

/// When that began which the event ends, and which cannot have begun before `since_ns`.
fn begin(event: &TimelineEvent, since_ns: u64) -> Result<u64> {
    let duration_ns = needed(event.duration_ns, "duration_ns", event)?;
    let at_ns = event.at_ns;
    let begin_ns = at_ns.checked_sub(duration_ns).filter(|begin| *begin >= since_ns);
    begin_ns.ok_or_else(|| fault("duration_ns", Problem::TooLong { duration_ns, since_ns, at_ns }))
}

fn needed<T>(value: Option<T>, column: &'static str, event: &TimelineEvent) -> Result<T> {
    let name = || serde_json::to_value(event.event).ok().and_then(|name| name.as_str().map(str::to_owned));
    value.ok_or_else(|| fault(column, Problem::Missing { event: name().unwrap_or_default() }))
}

fn names(locks: &str) -> impl Iterator<Item = &str> {
    locks.split('+').filter(|name| !name.is_empty())
}
