//! What happens, written down as the engine writes it.

use std::borrow::Cow;

use interlock_arbiter::{Command, TimelineEvent, TimelineKind};
use interlock_policy_api::Stage;

use super::World;

/// What the devices' core is called.
const CORE: &str = "simulated";
/// What the core is called that takes over what failed.
const FALLBACK_CORE: &str = "cpu";
/// What the core is called whose devices are the host itself.
const HOST_CORE: &str = FALLBACK_CORE;

impl World<'_> {
    /// Writes an event down, if anybody listens: it is only put together then.
    fn record(&self, event: impl FnOnce() -> TimelineEvent) {
        if let Some(recorder) = self.recorder {
            recorder.record(&event());
        }
    }

    fn event(&self, kind: TimelineKind) -> TimelineEvent {
        TimelineEvent::new(self.now_ns, kind)
    }

    fn on_device(&self, kind: TimelineKind, device: u32) -> TimelineEvent {
        let on_host = self.seats.get(device as usize).is_some_and(|seat| seat.host_cores.is_some());
        let core = if on_host { HOST_CORE } else { CORE };
        TimelineEvent { core: Cow::Borrowed(core), device: Some(device), ..self.event(kind) }
    }

    fn of_task(&self, kind: TimelineKind, slot: u32) -> TimelineEvent {
        let task = &self.tasks[slot as usize];
        TimelineEvent {
            worker: Some(task.worker),
            job: Some(task.job),
            partition: Some(task.partition),
            task: Some(task.id),
            ..self.on_device(kind, task.device)
        }
    }

    /// An event about a task that the arbiter knows, and that may have ended.
    fn of_id(&self, kind: TimelineKind, device: u32, id: u64) -> TimelineEvent {
        let task = self.seats[device as usize].task(id);
        TimelineEvent {
            worker: task.map(|(_, worker)| worker),
            job: task.map(|(task, _)| task.job),
            partition: task.map(|(task, _)| task.partition),
            task: Some(id),
            ..self.on_device(kind, device)
        }
    }

    pub(super) fn record_synthesized(&self, slot: u32, worker: u32) {
        self.record(|| {
            let task = &self.tasks[slot as usize];
            TimelineEvent {
                worker: Some(worker),
                job: Some(task.job),
                partition: Some(task.partition),
                duration_ns: Some(self.now_ns - task.begun_ns),
                ..self.event(TimelineKind::Synthesized)
            }
        });
    }

    pub(super) fn record_arrived(&self, slot: u32) {
        self.record(|| self.of_task(TimelineKind::Arrived, slot));
    }

    pub(super) fn record_ended(&self, slot: u32, stage: Stage) {
        self.record(|| TimelineEvent {
            stage: Some(stage),
            duration_ns: Some(self.now_ns - self.tasks[slot as usize].since_ns),
            ..self.of_task(TimelineKind::Ended, slot)
        });
    }

    pub(super) fn record_failed(&self, slot: u32, stage: Stage, why: &str) {
        self.record(|| TimelineEvent {
            stage: Some(stage),
            duration_ns: Some(self.now_ns - self.tasks[slot as usize].since_ns),
            detail: why.to_owned(),
            ..self.of_task(TimelineKind::Failed, slot)
        });
    }

    pub(super) fn record_verified(&self, slot: u32) {
        self.record(|| TimelineEvent {
            duration_ns: Some(self.now_ns - self.tasks[slot as usize].since_ns),
            task: None,
            ..self.of_task(TimelineKind::Verified, slot)
        });
    }

    pub(super) fn record_lost(&self, device: u32) {
        self.record(|| TimelineEvent {
            detail: "the scenario says so".to_owned(),
            ..self.on_device(TimelineKind::DeviceLost, device)
        });
    }

    /// All of a task on the CPU core, which is one device after the others.
    pub(super) fn record_fallback(&self, slot: u32) {
        self.record(|| {
            let task = &self.tasks[slot as usize];
            TimelineEvent {
                core: Cow::Borrowed(FALLBACK_CORE),
                device: Some(self.seats.len() as u32),
                worker: Some(0),
                job: Some(task.job),
                partition: Some(task.partition),
                stage: Some(Stage::COMPUTE),
                duration_ns: Some(self.now_ns - task.since_ns),
                ..self.event(TimelineKind::Ended)
            }
        });
    }

    pub(super) fn record_command(&self, device: u32, command: &Command) {
        if self.recorder.is_none() {
            return;
        }
        let event = match command {
            Command::Run { task, stage, inline, held_bytes, locks, waited_ns } => TimelineEvent {
                stage: Some(*stage),
                duration_ns: Some(*waited_ns),
                bytes: Some(*held_bytes),
                locks: locks.join("+"),
                detail: if *inline { "inline staging".to_owned() } else { String::new() },
                ..self.of_id(TimelineKind::Entered, device, task.0)
            },
            Command::Skipped { task, .. } => self.of_id(TimelineKind::Skipped, device, task.0),
            Command::Freed { task, locks, bytes } => TimelineEvent {
                bytes: Some(*bytes),
                locks: locks.join("+"),
                ..self.of_id(TimelineKind::Freed, device, task.0)
            },
            Command::Refused { task, gate, refusal } => TimelineEvent {
                stage: Some(*gate),
                detail: refusal.to_string(),
                ..self.of_id(TimelineKind::Refused, device, task.0)
            },
            Command::Slow { task, took_ns } => TimelineEvent {
                duration_ns: Some(*took_ns),
                ..self.of_id(TimelineKind::Slow, device, task.0)
            },
            Command::Left { task } => self.of_id(TimelineKind::Left, device, task.0),
            Command::Quarantined(why) => TimelineEvent {
                detail: format!("{}: {why}", why.code()),
                ..self.on_device(TimelineKind::Quarantined, device)
            },
            Command::Drained => TimelineEvent {
                detail: self.seats[device as usize].policy_name.clone(),
                ..self.on_device(TimelineKind::Seated, device)
            },
        };
        self.record(|| event);
    }
}
