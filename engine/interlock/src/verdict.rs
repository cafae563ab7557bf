//! From a policy's verdict to something the arbiter can carry out, or to the reason it cannot.

use interlock_policy_api::{Stage, Verdict, VerdictKind, WakeSet};

use super::Refusal;
use super::holdings::Holdings;
use super::lock_table::LockTable;
use super::task::Task;

/// The events this version of the host can bring about.
const KNOWN_EVENTS: WakeSet = WakeSet(0b1_1111);

/// A verdict that can be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Enter { reserve_bytes: u64 },
    Skip,
    Wait { wake: WakeSet, deadline_ns: Option<u64> },
}

/// Checks a verdict about a task that stands at `gate`.
pub(super) fn check(
    verdict: &Verdict,
    task: &Task,
    gate: Stage,
    table: &LockTable,
    holdings: &Holdings,
    now_ns: u64,
) -> Result<Decision, Refusal> {
    match verdict.kind {
        VerdictKind::ENTER => {
            let reserve_bytes = verdict.reserve_bytes;
            let (least, most) = task.reservation(gate);
            if reserve_bytes < least {
                Err(Refusal::TooFewBytes)
            } else if reserve_bytes > most {
                Err(Refusal::TooManyBytes)
            } else if !holdings.are_free(task.missing_locks(gate, table)) {
                Err(Refusal::LockTaken)
            } else if !holdings.admits(task, gate, reserve_bytes) {
                Err(Refusal::UnsafeReservation)
            } else {
                Ok(Decision::Enter { reserve_bytes })
            }
        }
        VerdictKind::SKIP if gate == Stage::STAGE => Ok(Decision::Skip),
        VerdictKind::SKIP => Err(Refusal::SkipNotAllowed),
        VerdictKind::WAIT => {
            let deadline_ns = Some(verdict.deadline_ns).filter(|&at| at != Verdict::NO_DEADLINE);
            let never = deadline_ns.is_none() && !verdict.wake.intersects(KNOWN_EVENTS);
            if never || deadline_ns.is_some_and(|at| at <= now_ns) {
                Err(Refusal::EndlessWait)
            } else {
                Ok(Decision::Wait { wake: verdict.wake, deadline_ns })
            }
        }
        _ => Err(Refusal::UnknownKind),
    }
}
