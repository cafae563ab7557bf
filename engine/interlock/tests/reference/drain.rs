//! The end of a step, and a drain followed command by command.

use interlock_arbiter::Command;

use super::{Mode, Reference};

impl Reference {
    /// Compares what the arbiter said with what it had to say, and follows it through a drain.
    pub fn end_step(&mut self, commands: &[Command]) {
        self.watch();
        assert_eq!(self.expected_told, [], "not told");
        let (said, drained) = commands.split_at(self.expected.len().min(commands.len()));
        assert_eq!(said, self.expected);
        for command in drained {
            self.follow(command);
        }
        match self.mode {
            Mode::Serving => assert!((0..16).all(|id| !self.is_due(id)), "somebody was not asked"),
            Mode::Draining => {
                assert!(self.can_pass().is_empty(), "somebody could have been let through");
                assert!(
                    self.tasks.keys().any(|&id| self.waiting(id).is_none() || self.passes(id)),
                    "not drained"
                );
            }
            Mode::Drained => assert!(self.held() == 0 && self.running().is_empty()),
        }
        let standing =
            |id: &u64| self.mode != Mode::Serving && self.waiting(*id).is_some() && !self.passes(*id);
        assert!(self.tasks.keys().filter(|id| standing(id)).all(|id| self.tasks[id].locks.is_empty()));
    }

    /// When the arbiter has to be woken.
    pub fn deadline(&self) -> Option<u64> {
        if self.mode != Mode::Serving {
            return None;
        }
        let again = (0..16).filter_map(|id| self.waiting(id)?.stands?.1);
        let held_back = (0..16).filter_map(|id| self.waiting(id)?.held_back_since);
        let still = held_back.chain(self.stuck_since);
        again.chain(still.map(|since| since + self.limits.stall_ns)).min()
    }

    pub(super) fn passes(&self, id: u64) -> bool {
        self.waiting(id).is_some_and(|waiting| waiting.gate == 3 || self.tasks[&id].staged)
    }

    /// Who could be let through now, and with how many bytes.
    pub(super) fn can_pass(&self) -> Vec<(u64, u64)> {
        let gate = |id| self.waiting(id).expect("it waits").gate;
        let passing = self.tasks.keys().copied().filter(|&id| self.passes(id));
        let passing = passing.map(|id| (self.need(id, gate(id)), id));
        passing
            .filter(|&(need, id)| self.locks_free(id, gate(id)) && self.bytes_free(id, gate(id), need))
            .collect()
    }

    pub(super) fn follow(&mut self, command: &Command) {
        assert_eq!(self.mode, Mode::Draining, "{command:?}");
        match command {
            Command::Freed { task, .. } => {
                assert!(self.waiting(task.0).is_some() && !self.passes(task.0));
                self.expected.clear();
                self.free(task.0, |_| true, false);
                assert_eq!(self.expected, std::slice::from_ref(command));
            }
            Command::Run { task, stage, .. } => {
                let need = self.need(task.0, stage.0);
                let can_pass = self.can_pass();
                assert_eq!(
                    can_pass.iter().map(|&(need, _)| need).min(),
                    Some(need),
                    "the smallest rest first"
                );
                assert!(can_pass.contains(&(need, task.0)));
                assert_eq!(self.waiting(task.0).expect("it waits").gate, stage.0);
                assert_eq!(command, &self.run_command(task.0, stage.0, need));
                self.let_in(task.0, stage.0, need);
            }
            Command::Drained => self.mode = Mode::Drained,
            other => panic!("{other:?} during a drain"),
        }
    }
}
