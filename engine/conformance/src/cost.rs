//! What a decision costs. The one law with a clock.

use std::time::{Duration, Instant};

use interlock_arbiter::PolicySource;
use interlock_settings::ByteSize;

use crate::record::Call;
use crate::run;
use crate::scenario::{Scenario, TaskPlan};

/// Tasks that wait while it is measured.
const WAITERS: usize = 16;
/// Decisions that are measured, if they do not take longer than [`LONGEST`].
const DECISIONS: usize = 20_000;
/// How long it is measured at the most, once the fewest decisions are there.
const LONGEST: Duration = Duration::from_secs(1);
/// The fewest decisions that are measured.
const FEWEST: usize = 32;

/// What decisions cost, call included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Cost {
    /// Decisions that were measured.
    pub decisions: usize,
    /// Half of them took no longer, in nanoseconds.
    pub median_ns: u64,
    /// 99 of 100 took no longer, in nanoseconds.
    pub p99_ns: u64,
    /// What the median may be, in nanoseconds.
    pub budget_ns: u64,
}

/// Measures decisions with sixteen tasks on the device. `None` when the policy does not get that far.
pub(crate) fn measure(source: &dyn PolicySource, budget: Duration) -> Option<Cost> {
    let run = run::run(source, &crowd(), None);
    let questions: Vec<&Call> = run.decisions().collect();
    let mut policy = source.seat().ok().filter(|_| !questions.is_empty())?;
    let began = Instant::now();
    let mut took = Vec::with_capacity(DECISIONS);
    for call in questions.iter().cycle().take(DECISIONS) {
        if took.len() >= FEWEST && began.elapsed() > LONGEST {
            break;
        }
        let Call::Decide { request, shown, .. } = call else { continue };
        let view = shown.view();
        let start = Instant::now();
        let answer = policy.decide(request, &view);
        took.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        std::hint::black_box(answer).ok()?;
    }
    took.sort_unstable();
    let budget_ns = u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX);
    Some(Cost { decisions: took.len(), median_ns: at(&took, 50), p99_ns: at(&took, 99), budget_ns })
}

/// The value that so many of a hundred do not exceed.
fn at(sorted: &[u64], percent: usize) -> u64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

fn crowd() -> Scenario {
    let plan = TaskPlan {
        at_ms: 0,
        priority: 0,
        staged: ByteSize(4 << 30),
        peak: ByteSize(6 << 30),
        stages_ms: [1, 2, 8, 1],
        retry: false,
        fails: None,
        cancelled_ms: None,
    };
    let (device, tasks) = (ByteSize(16 << 30), vec![plan; WAITERS]);
    Scenario { device, workers: WAITERS as u32, tasks, drains_ms: Vec::new(), order: None }
}
