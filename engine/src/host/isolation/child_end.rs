//! The policy process's end of a channel: takes calls in their order and answers each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::region::MappedRegion;
use super::spin::Spin;
use super::wire::{ANSWER_WORDS, Call, ReplyStatus, get_call};

/// The process's end.
pub(super) struct ChildEnd {
    region: MappedRegion,
    /// Calls answered.
    answered: u32,
    spin: Spin,
}

impl ChildEnd {
    /// An end that waits actively for `spin` before it sleeps, where that pays.
    pub fn new(region: MappedRegion, spin: Duration) -> Self {
        Self { region, answered: 0, spin: Spin::new(spin) }
    }

    /// Waits until there are calls.
    pub fn wait(&mut self) {
        let Self { region, answered, spin } = self;
        let called = || region.host.count.load(Ordering::Acquire) != *answered;
        if !spin.until(called) {
            while !called() {
                region.child.sleep(&region.host, *answered, None);
            }
        }
    }

    /// Answers the calls that there are. The engine is told once, after the last: it waits for that one.
    pub fn serve_waiting(
        &mut self,
        mut answer: impl FnMut(Option<Call>, &[AtomicU64]) -> (ReplyStatus, [u64; ANSWER_WORDS]),
    ) {
        let made = self.region.host.count.load(Ordering::Acquire);
        while self.answered != made {
            let call = self.answered;
            let slot = self.region.slot(call);
            let (status, words) = answer(get_call(&slot.call), &self.region.long);
            for (word, value) in slot.answer.iter().zip(words) {
                word.store(value, Ordering::Relaxed);
            }
            slot.heading.store(u64::from(call) | u64::from(status.0) << 32, Ordering::Relaxed);
            self.answered = call.wrapping_add(1);
        }
        self.region.child.advance(made, &self.region.host);
    }

    #[cfg(test)]
    pub fn region(&self) -> &super::region::Region {
        &self.region
    }
}
