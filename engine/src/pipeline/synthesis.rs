//! Synthesis workers: they make witnesses, ahead of the device workers but not without bound.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use interlock_policy_api::{Request, RequestFlags, Stage};

use super::engine::{JobContext, Order, Shared};
use super::job::{PartitionOutcome, PartitionReport, TaskError};
use super::timeline::{TimelineEvent, TimelineKind};
use super::worker::{self, ReadyTask, panic_message};
use crate::circuit::Witness;

/// Makes witnesses until the engine stops. A place is taken before an order is, so that the order
/// taken is the one of the highest priority at the moment there is room for its witness.
pub(super) fn run(shared: &Shared, index: u32) {
    loop {
        shared.places.take();
        let Some(order) = shared.synthesis.pop() else { return };
        if !make_ready(shared, index, order) {
            shared.places.give_back();
        }
    }
}

/// Whether the order became a task in a device's queue; otherwise its outcome has been handed out.
fn make_ready(shared: &Shared, worker: u32, order: Order) -> bool {
    let Order { context, partition, source } = order;
    if shared.is_given_up(&context) {
        worker::end_cancelled(shared, &context, partition);
        return false;
    }
    let span = tracing::info_span!("synthesis", job = context.job, partition, worker).entered();
    let begun = Instant::now();
    let made = catch_unwind(AssertUnwindSafe(source))
        .unwrap_or_else(|payload| Err(format!("synthesis panicked: {}", panic_message(&*payload)).into()))
        .map_err(TaskError::Synthesis)
        .and_then(|witness| checked(shared, &context, witness));
    let synthesis_ns = begun.elapsed().as_nanos() as u64;
    drop(span);
    record(shared, worker, &context, partition, synthesis_ns);
    let report = PartitionReport { job: context.job, partition, synthesis_ns, ..Default::default() };
    match made {
        Err(error) => {
            shared.end(&context, PartitionOutcome { result: Err(error), report });
            false
        }
        Ok(witness) => {
            let seat = place(shared, &context, partition);
            let priority = context.priority;
            let task = ReadyTask {
                context,
                partition,
                witness: Arc::new(witness),
                ready_at: Instant::now(),
                report,
                causes: Vec::new(),
            };
            match shared.seats[seat].queue.push(priority, task) {
                Ok(()) => true,
                Err(task) => {
                    worker::end_cancelled(shared, &task.context, task.partition);
                    false
                }
            }
        }
    }
}

/// Refuses a witness of the wrong length; and one that does not satisfy the circuit, where no proof
/// will be verified later.
fn checked(shared: &Shared, context: &JobContext, witness: Witness) -> Result<Witness, TaskError> {
    let circuit = &context.key.circuit;
    if shared.verify_proofs {
        witness.check_shape(circuit)?
    } else {
        witness.check(circuit)?
    }
    Ok(witness)
}

/// The seat a new task goes to: the policy is asked where there is a choice.
fn place(shared: &Shared, context: &JobContext, partition: u32) -> usize {
    if shared.main_seats == 1 {
        return 0;
    }
    let views = shared.main_device_views();
    let plan = shared.seats[0].seat.core.plan(&context.key);
    let request = Request {
        task: 0,
        job: context.job,
        partition,
        priority: context.priority,
        gate: Stage::PREPARE,
        flags: RequestFlags::default(),
        arrival: 0,
        gate_since_ns: shared.clock.now_ns(),
        held_bytes: 0,
        need_bytes: 0,
        peak_bytes: plan.peak_bytes(),
    };
    shared.seats[0].seat.place(&request, &views)
}

fn record(shared: &Shared, worker: u32, context: &JobContext, partition: u32, duration_ns: u64) {
    shared.recorder.record(&TimelineEvent {
        at_ns: shared.clock.now_ns(),
        event: TimelineKind::Synthesized,
        core: "",
        device: None,
        worker: Some(worker),
        job: Some(context.job),
        partition: Some(partition),
        task: None,
        stage: None,
        duration_ns: Some(duration_ns),
        bytes: None,
        locks: String::new(),
        detail: String::new(),
    });
}
