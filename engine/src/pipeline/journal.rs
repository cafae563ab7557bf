//! The latest events of a device: what went into its arbiter and what came out, for dumps.

use std::collections::VecDeque;

use serde::Serialize;

use crate::interlock::{Command, Event};

/// How many entries are kept.
const LENGTH: usize = 256;

/// What went in or came out, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Entry {
    /// Nanoseconds since the engine started.
    at_ns: u64,
    #[serde(flatten)]
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum What {
    In(Event),
    Out(Command),
}

/// The latest entries, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Journal(VecDeque<Entry>);

impl Journal {
    pub fn went_in(&mut self, at_ns: u64, event: Event) {
        self.push(at_ns, What::In(event));
    }

    pub fn came_out(&mut self, at_ns: u64, command: &Command) {
        self.push(at_ns, What::Out(command.clone()));
    }

    fn push(&mut self, at_ns: u64, what: What) {
        let Self(entries) = self;
        // Of a row of ticks the first and the latest are enough: a policy that wants to be asked again and again would
        // fill the journal with them.
        let tick = What::In(Event::Tick);
        if what == tick && entries.iter().rev().take(2).filter(|entry| entry.what == tick).count() == 2 {
            entries.pop_back();
        }
        if entries.len() == LENGTH {
            entries.pop_front();
        }
        entries.push_back(Entry { at_ns, what });
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use interlock_policy_api::Stage;
    use serde_json::json;

    use super::*;
    use crate::interlock::{LockTable, Outcome, TaskId};

    #[test]
    fn the_latest_entries_are_kept_in_their_order() {
        let mut journal = Journal::default();
        for at_ns in 0..LENGTH as u64 + 10 {
            journal.went_in(at_ns, Event::Drain);
        }
        let times: Vec<u64> = journal.entries().iter().map(|entry| entry.at_ns).collect();
        assert_eq!(times, (10..LENGTH as u64 + 10).collect::<Vec<_>>());
    }

    #[test]
    fn of_a_row_of_ticks_the_first_and_the_latest_are_kept() {
        let mut journal = Journal::default();
        journal.went_in(1, Event::Drain);
        (2..1_000).for_each(|at_ns| journal.went_in(at_ns, Event::Tick));
        journal.went_in(1_000, Event::Drain);
        (1_001..1_003).for_each(|at_ns| journal.went_in(at_ns, Event::Tick));
        let times: Vec<u64> = journal.entries().iter().map(|entry| entry.at_ns).collect();
        assert_eq!(times, [1, 2, 999, 1_000, 1_001, 1_002]);
    }

    #[test]
    fn entries_are_written_as_what_they_are() {
        let mut journal = Journal::default();
        let task = TaskId(7);
        journal.went_in(1, Event::StageEnded { task, outcome: Outcome::AllocationFailed });
        journal.went_in(2, Event::Installed(LockTable::default()));
        let run = Command::Run {
            task,
            stage: Stage::COMPUTE,
            inline: true,
            held_bytes: 3,
            locks: vec!["gpu".to_owned()],
            waited_ns: 4,
        };
        journal.came_out(2, &run);
        journal.came_out(3, &Command::Drained);
        let written = serde_json::to_value(journal.entries()).expect("it can be written");
        assert_eq!(
            written,
            json!([
                { "at_ns": 1, "in": { "stage_ended": { "task": 7, "outcome": "allocation_failed" } } },
                { "at_ns": 2, "in": { "installed": [] } },
                { "at_ns": 2, "out": { "run": {
                    "task": 7, "stage": "Compute", "inline": true, "held_bytes": 3, "locks": ["gpu"], "waited_ns": 4,
                } } },
                { "at_ns": 3, "out": "drained" },
            ])
        );
    }
}
