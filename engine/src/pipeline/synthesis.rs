//! Synthesis workers: they make witnesses, ahead of the device workers but not without bound.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::job::{PartitionOutcome, PartitionReport, TaskError};
use super::shared::{JobContext, Order, Shared};
use super::worker::{self, Line, ReadyTask, panic_message};
use crate::circuit::Witness;
use crate::interlock::{TimelineEvent, TimelineKind};

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

/// Whether the order became a task, which gives the place back; otherwise its outcome has been handed out.
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
            shared.send(ReadyTask {
                context,
                partition,
                witness: Arc::new(witness),
                ready_at: Instant::now(),
                report,
                causes: Vec::new(),
                losses: 0,
                placed: None,
                place: Some(Line::New),
            });
            true
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

fn record(shared: &Shared, worker: u32, context: &JobContext, partition: u32, duration_ns: u64) {
    shared.recorder.record(&TimelineEvent {
        worker: Some(worker),
        job: Some(context.job),
        partition: Some(partition),
        duration_ns: Some(duration_ns),
        ..TimelineEvent::new(shared.clock.now_ns(), TimelineKind::Synthesized)
    });
}
