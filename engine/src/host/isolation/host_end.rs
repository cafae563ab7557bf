//! The engine's end of a channel: makes calls, takes answers in their order, and believes nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::region::{MappedRegion, SLOTS};
use super::spin::Spin;
use super::wire::{ANSWER_WORDS, ReplyStatus};

/// An answer, copied out of the shared memory once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// Number of the call it answers.
    pub call: u32,
    pub status: ReplyStatus,
    pub answer: [u64; ANSWER_WORDS],
}

/// The other side wrote what no policy host writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rubbish;

/// The engine's end.
pub(super) struct HostEnd {
    region: MappedRegion,
    /// Calls made. Kept here: what the shared memory says about it is for the other side.
    made: u32,
    /// Answers taken.
    taken: u32,
    spin: Spin,
}

impl HostEnd {
    /// An end that waits actively for `spin` before it sleeps, where that pays.
    pub fn new(region: MappedRegion, spin: Duration) -> Self {
        Self { region, made: 0, taken: 0, spin: Spin::new(spin) }
    }

    /// The area for long data.
    pub fn long(&self) -> &[AtomicU64] {
        &self.region.long
    }

    /// Whether one more call can be made before an answer is taken.
    pub fn has_room(&self) -> bool {
        self.made.wrapping_sub(self.taken) < SLOTS as u32
    }

    /// Writes down a call, which `write` puts into its slot and the area for long data. The other side is not woken:
    /// it will see the call when it is up. Returns the call's number.
    pub fn make(&mut self, write: impl FnOnce(&[AtomicU64], &[AtomicU64])) -> u32 {
        debug_assert!(self.has_room());
        let call = self.made;
        write(&self.region.slot(call).call, &self.region.long);
        self.made = call.wrapping_add(1);
        self.region.host.count.store(self.made, Ordering::Release);
        call
    }

    /// Wakes the other side, if it sleeps, for all calls made so far.
    pub fn wake(&self) {
        self.region.host.advance(self.made, &self.region.child);
    }

    /// Takes the next answer, if it is there.
    pub fn take(&mut self) -> Result<Option<Reply>, Rubbish> {
        let answered = self.region.child.count.load(Ordering::Acquire).wrapping_sub(self.taken);
        if answered == 0 {
            return Ok(None);
        }
        if answered > self.made.wrapping_sub(self.taken) {
            return Err(Rubbish);
        }
        let call = self.taken;
        let slot = self.region.slot(call);
        let heading = slot.heading.load(Ordering::Relaxed);
        let status = ReplyStatus((heading >> 32) as u32);
        if heading as u32 != call || status.0 > ReplyStatus::UNREACHABLE.0 {
            return Err(Rubbish);
        }
        let answer = std::array::from_fn(|index| slot.answer[index].load(Ordering::Relaxed));
        self.taken = call.wrapping_add(1);
        Ok(Some(Reply { call, status, answer }))
    }

    /// Waits until something has been answered: actively for a moment, then asleep for `longest` at the most. Returns
    /// whether something may have been.
    pub fn wait(&mut self, longest: Duration) -> bool {
        let Self { region, taken, spin, .. } = self;
        let answered = || region.child.count.load(Ordering::Acquire) != *taken;
        spin.until(answered) || {
            region.host.sleep(&region.child, *taken, Some(longest));
            answered()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::child_end::ChildEnd;
    use super::super::wire::{Call, CallKind, put_bare};
    use super::*;

    fn ends() -> (HostEnd, ChildEnd) {
        let (region, file) = MappedRegion::create().expect("memory files can be made");
        let other = MappedRegion::open(&file).expect("it is a channel");
        (HostEnd::new(region, Duration::ZERO), ChildEnd::new(other, Duration::ZERO))
    }

    fn make(host: &mut HostEnd) -> u32 {
        host.make(|words, _| put_bare(words, CallKind::STATS))
    }

    #[test]
    fn calls_are_answered_in_their_order_many_at_once() {
        let (mut host, mut child) = ends();
        for round in 0..5 {
            let calls: Vec<_> = std::iter::from_fn(|| host.has_room().then(|| make(&mut host))).collect();
            assert_eq!(calls.len(), SLOTS);
            assert_eq!(host.take(), Ok(None), "nobody has answered");
            host.wake();
            child.serve_waiting(|call, _| {
                assert!(matches!(call, Some(Call::Stats)));
                (ReplyStatus::OK, [round; ANSWER_WORDS])
            });
            for call in calls {
                let reply = Reply { call, status: ReplyStatus::OK, answer: [round; ANSWER_WORDS] };
                assert_eq!(host.take(), Ok(Some(reply)));
            }
            assert_eq!(host.take(), Ok(None));
        }
    }

    proptest! {
        /// Whatever the other side writes, whenever: an answer, none, or rubbish, and never more answers than calls.
        #[test]
        fn no_memory_makes_the_engine_stumble(
            calls in 0..SLOTS,
            writes in prop::collection::vec((0..4_usize, any::<u64>(), 0..SLOTS), 0..64),
        ) {
            let (mut host, child) = ends();
            (0..calls).for_each(|_| { make(&mut host); });
            let mut taken = 0;
            for (place, value, slot) in writes {
                let region = child.region();
                match place {
                    0 => region.child.count.store(value as u32 % 40, Ordering::Release),
                    1 => region.host.count.store(value as u32, Ordering::Release),
                    2 => region.slots[slot].heading.store(value % 40, Ordering::Release),
                    _ => region.slots[slot].answer[0].store(value, Ordering::Release),
                }
                match host.take() {
                    Ok(Some(reply)) => {
                        prop_assert_eq!(reply.call, taken);
                        taken += 1;
                    }
                    Ok(None) => {}
                    Err(Rubbish) => break,
                }
            }
            prop_assert!(taken as usize <= calls);
        }
    }

    #[test]
    fn answers_that_nobody_asked_for_are_rubbish() {
        let (mut host, child) = ends();
        make(&mut host);
        for count in [2, u32::MAX, 1 << 31] {
            child.region().child.count.store(count, Ordering::Release);
            assert_eq!(host.take(), Err(Rubbish), "{count}");
        }
    }

    #[test]
    fn an_answer_to_another_call_or_of_no_known_status_is_rubbish() {
        let (mut host, child) = ends();
        make(&mut host);
        let region = child.region();
        region.child.count.store(1, Ordering::Release);
        for heading in [1, 3 << 32, u64::MAX] {
            region.slots[0].heading.store(heading, Ordering::Release);
            assert_eq!(host.take(), Err(Rubbish), "{heading:x}");
        }
        region.slots[0].heading.store(1 << 32, Ordering::Release);
        assert!(matches!(host.take(), Ok(Some(Reply { status: ReplyStatus::PANICKED, .. }))));
    }
}
