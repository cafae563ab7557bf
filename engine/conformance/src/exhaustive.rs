//! Small devices in every order of events.
//!
//! A run follows a list of choices and takes the first possibility after it. Where it could have gone another way, that is a run
//! of its own. So each order is run once, and each beginning of an order is part of one.

use interlock_arbiter::PolicySource;
use interlock_settings::ByteSize;
use rayon::prelude::*;

use crate::run::{self, Chooser, Run};
use crate::scenario::{Scenario, TaskPlan};

/// A small scenario, and how far its orders are gone through.
pub(crate) struct Small {
    scenario: Scenario,
    /// How often an order may depart from the first one.
    departures: usize,
    /// How many failures and cancels there may be in one.
    mishaps: usize,
}

/// What `orders` makes of each small scenario, the smallest first; they are looked at on several threads.
pub(crate) fn each<R: Send>(orders: &(dyn Fn(&Small) -> R + Sync)) -> Vec<R> {
    smalls().par_iter().with_max_len(1).map(orders).collect()
}

impl Small {
    /// Runs the scenario in each of its orders. Ends early when `look` says so.
    pub fn each_order(&self, source: &dyn PolicySource, look: &mut dyn FnMut(Scenario, Run) -> bool) {
        let mut open = vec![Vec::new()];
        while let Some(choices) = open.pop() {
            let mut chooser = Chooser::explore(&choices, self.mishaps);
            let run = run::choose(source, &self.scenario, &mut chooser);
            let left = self.departures - choices.iter().filter(|choice| **choice > 0).count();
            if left > 0 {
                branch(&choices, &chooser.widths, &mut open);
            }
            let order = Some(run.order.clone());
            if !look(Scenario { order, ..self.scenario.clone() }, run) {
                return;
            }
        }
    }
}

/// The runs that differ from this one in a choice beyond those that were given.
fn branch(choices: &[usize], widths: &[usize], open: &mut Vec<Vec<usize>>) {
    for (at, &width) in widths.iter().enumerate().skip(choices.len()) {
        for choice in 1..width {
            let mut other = choices.to_vec();
            other.resize(at, 0);
            other.push(choice);
            open.push(other);
        }
    }
}

fn smalls() -> Vec<Small> {
    const ALL: usize = usize::MAX;
    // Of a device of 16 GiB.
    let (small, half, big) = (plan(2, 3), plan(4, 8), plan(10, 14));
    let first = |plan: &TaskPlan| TaskPlan { priority: 1, ..plan.clone() };
    let retry = |plan: &TaskPlan| TaskPlan { retry: true, ..plan.clone() };
    let of = |tasks: &[&TaskPlan], departures, mishaps| {
        let tasks: Vec<TaskPlan> = tasks.iter().map(|plan| (*plan).clone()).collect();
        let scenario = Scenario {
            device: gib(16),
            workers: tasks.len() as u32,
            tasks,
            drains_ms: Vec::new(),
            order: None,
        };
        Small { scenario, departures, mishaps }
    };
    vec![
        of(&[&small], ALL, 1),
        of(&[&plan(16, 16)], ALL, 1),
        of(&[&plan(0, 0)], ALL, 1),
        of(&[&retry(&half)], ALL, 1),
        of(&[&small, &small], ALL, 0),
        of(&[&big, &big], ALL, 0),
        of(&[&half, &first(&big)], ALL, 0),
        of(&[&half, &retry(&big)], ALL, 0),
        of(&[&half, &half], 2, 1),
        of(&[&big, &small, &small], 2, 0),
        of(&[&half, &half, &first(&half)], 2, 0),
        of(&[&big, &first(&small), &retry(&half)], 2, 0),
    ]
}

fn plan(staged: u64, peak: u64) -> TaskPlan {
    TaskPlan {
        at_ms: 0,
        priority: 0,
        staged: gib(staged),
        peak: gib(peak),
        stages_ms: [1; 4],
        retry: false,
        fails: None,
        cancelled_ms: None,
    }
}

fn gib(count: u64) -> ByteSize {
    ByteSize(count << 30)
}
