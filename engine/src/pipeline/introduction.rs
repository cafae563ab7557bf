//! What a timeline begins with: who runs, on what, and what each job is. A reader of the file knows nothing else.

use super::shared::{JobContext, Shared};
use crate::interlock::{TimelineEvent, TimelineKind};

/// Writes down the engine, the machine and the devices.
pub(super) fn introduce(shared: &Shared, synthesis_workers: u32) {
    shared.recorder.record(&TimelineEvent {
        count: Some(u64::from(synthesis_workers)),
        detail: concat!("interlock ", env!("CARGO_PKG_VERSION")).to_owned(),
        ..TimelineEvent::new(shared.clock.now_ns(), TimelineKind::Engine)
    });
    shared.recorder.record(&TimelineEvent {
        count: std::thread::available_parallelism().ok().map(|processors| processors.get() as u64),
        ..TimelineEvent::new(shared.clock.now_ns(), TimelineKind::Host)
    });
    for device in &shared.seats {
        device.seat.introduce();
    }
}

/// Writes down a job, before any of its partitions can begin.
pub(super) fn submitted(shared: &Shared, context: &JobContext, partitions: usize) {
    shared.recorder.record(&TimelineEvent {
        job: Some(context.job),
        count: Some(partitions as u64),
        bytes: Some(context.plan.staged_bytes),
        peak_bytes: Some(context.plan.peak_bytes()),
        priority: Some(context.priority),
        ..TimelineEvent::new(shared.clock.now_ns(), TimelineKind::Submitted)
    });
}
