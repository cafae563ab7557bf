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

    /// What a timeline begins with.
    pub(super) fn record_introduction(&self) {
        let scenario = self.scenario;
        self.record(|| TimelineEvent {
            count: Some(scenario.synthesis.workers.into()),
            detail: concat!("interlock simulator ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..self.event(TimelineKind::Engine)
        });
        self.record(|| TimelineEvent {
            count: scenario.host.cores.map(|cores| cores.ceil() as u64),
            ..self.event(TimelineKind::Host)
        });
        for seat in &self.seats {
            self.record(|| TimelineEvent {
                bytes: Some(seat.capacity_bytes),
                count: Some(scenario.workers.into()),
                policy: seat.policy_name.clone(),
                detail: format!("simulated device {}", seat.index),
                ..self.on_device(TimelineKind::Device, seat.index)
            });
        }
    }

    pub(super) fn record_submitted(&self, job: u64, class: usize) {
        self.record(|| {
            let class = &self.scenario.classes[class];
            TimelineEvent {
                job: Some(job),
                count: Some(class.partitions.into()),
                bytes: Some(class.staged.0),
                peak_bytes: Some(class.peak_bytes()),
                priority: Some(class.priority),
                ..self.event(TimelineKind::Submitted)
            }
        });
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

    /// A task comes to the CPU core, which is one device after the others.
    pub(super) fn record_fallback_begun(&self, slot: u32) {
        self.record(|| self.on_fallback(TimelineKind::Arrived, slot));
        self.record(|| TimelineEvent {
            stage: Some(Stage::COMPUTE),
            duration_ns: Some(0),
            bytes: Some(0),
            detail: "all of it".to_owned(),
            ..self.on_fallback(TimelineKind::Entered, slot)
        });
    }

    pub(super) fn record_fallback_ended(&self, slot: u32) {
        self.record(|| TimelineEvent {
            stage: Some(Stage::COMPUTE),
            duration_ns: Some(self.now_ns - self.tasks[slot as usize].since_ns),
            ..self.on_fallback(TimelineKind::Ended, slot)
        });
        self.record(|| self.on_fallback(TimelineKind::Left, slot));
    }

    pub(super) fn record_fallback_verified(&self, slot: u32) {
        self.record(|| TimelineEvent {
            duration_ns: Some(self.now_ns - self.tasks[slot as usize].since_ns),
            task: None,
            ..self.on_fallback(TimelineKind::Verified, slot)
        });
    }

    fn on_fallback(&self, kind: TimelineKind, slot: u32) -> TimelineEvent {
        TimelineEvent {
            core: Cow::Borrowed(FALLBACK_CORE),
            device: Some(self.seats.len() as u32),
            worker: Some(0),
            ..self.of_task(kind, slot)
        }
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
            Command::Skipped { task, waited_ns } => TimelineEvent {
                duration_ns: Some(*waited_ns),
                ..self.of_id(TimelineKind::Skipped, device, task.0)
            },
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
                policy: self.seats[device as usize].policy_name.clone(),
                detail: self.seats[device as usize].policy_name.clone(),
                ..self.on_device(TimelineKind::Seated, device)
            },
        };
        self.record(|| event);
    }
}
