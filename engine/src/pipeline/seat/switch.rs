//! A seat's part in a switch: who comes next, who sat before, and what the change costs.

use std::sync::Arc;

use super::super::switch::{Board, Swap, SwapTimes};
use super::{Seat, State};
use crate::host::{LoadError, LoadedPolicy, PolicyLibrary};
use crate::interlock::{Counters, Event, Phase, Quarantine, TimelineEvent, TimelineKind};

/// Who takes the seat when the arbiter has drained, and why.
pub(super) struct Successor {
    pub policy: LoadedPolicy,
    /// The switch that seats it; none for whoever goes back to the seat, or falls back.
    switch: Option<u64>,
}

impl Successor {
    pub fn of_no_switch(policy: LoadedPolicy) -> Self {
        Self { policy, switch: None }
    }
}

/// An instance of the policy in a seat, made in case it has to come back.
pub(in crate::pipeline) struct Spare {
    policy: LoadedPolicy,
    /// The seat's count when it was made: it is good as long as nobody else was seated.
    seatings: u64,
}

/// Everything about switches in a seat's state.
pub(super) struct Seating {
    board: Arc<Board>,
    /// Who takes the seat when the arbiter has drained.
    pub next: Option<Successor>,
    /// The switch that has not passed its trial, with who takes the seat again if it fails.
    open: Option<Open>,
    /// The switch that seated whoever sits.
    seated_by: Option<u64>,
    /// How often a policy took the seat.
    seatings: u64,
    /// The change that is measured.
    meter: Option<Meter>,
    /// Verdicts before the policy was seated.
    verdicts_before: Verdicts,
    /// What was refused of a policy on trial.
    refused: Option<String>,
}

struct Open {
    number: u64,
    way_back: LoadedPolicy,
}

/// Measures one change of the policy.
struct Meter {
    number: u64,
    back: bool,
    began_ns: u64,
    /// Since when tasks wait, with no grant by a policy.
    waiting_since_ns: Option<u64>,
    /// The policy is seated, and the first grant is waited for.
    seated: bool,
}

impl Seating {
    pub fn new(board: Arc<Board>) -> Self {
        Self {
            board,
            next: None,
            open: None,
            seated_by: None,
            seatings: 0,
            meter: None,
            verdicts_before: Verdicts::default(),
            refused: None,
        }
    }

    /// The switch whose policy sits here on trial.
    fn on_trial(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.number).filter(|number| self.seated_by == Some(*number))
    }

    /// A verdict of the policy in the seat was refused, or one of its hooks failed.
    pub fn note_refused(&mut self, what: impl FnOnce() -> String) {
        if self.on_trial().is_some() && self.refused.is_none() {
            self.refused = Some(what());
        }
    }

    /// A task was let in.
    pub fn note_grant(&mut self, device: u32, now_ns: u64) {
        let Some(meter) = self.meter.take_if(|meter| meter.seated) else { return };
        let pause_ns = now_ns.saturating_sub(meter.waiting_since_ns.unwrap_or(now_ns));
        self.board.granted(device, meter.number, meter.back, pause_ns);
    }

    /// Starts to measure a change, on from where another one has not come to its first grant.
    fn measure(&mut self, number: u64, back: bool, now_ns: u64) {
        let before = self.meter.take();
        let draining_since = before.as_ref().filter(|meter| !meter.seated).map(|meter| meter.began_ns);
        self.meter = Some(Meter {
            number,
            back,
            began_ns: draining_since.unwrap_or(now_ns),
            waiting_since_ns: before.and_then(|meter| meter.waiting_since_ns),
            seated: false,
        });
    }

    /// Makes whoever sat before come next, when the switch is still open and says the board. Whoever else was to come
    /// retires.
    fn go_back(&mut self, number: u64, now_ns: u64) -> bool {
        let Some(open) = self.open.take_if(|open| open.number == number) else { return false };
        self.measure(number, true, now_ns);
        if let Some(other) = self.next.replace(Successor::of_no_switch(open.way_back)) {
            self.board.retire(other.policy);
        }
        true
    }
}

impl Seat {
    /// Makes another instance of the policy in the seat, unless there is somebody to go back to already.
    pub fn spare(&self) -> Option<Result<Spare, LoadError>> {
        let (library, seatings) = {
            let state = self.state.lock();
            let seating = &state.seating;
            if seating.open.is_some() || seating.next.is_some() {
                return None;
            }
            (state.policy.policy().library().clone(), seating.seatings)
        };
        Some(library.instantiate().map(|policy| Spare { policy, seatings }))
    }

    /// Drains the device and then seats `policy`, on trial. Of another switch that was under way the way back
    /// stays.
    pub fn switch(&self, number: u64, policy: LoadedPolicy, spare: Option<Spare>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let seating = &mut state.seating;
        let fresh = spare.filter(|spare| spare.seatings == seating.seatings).map(|spare| spare.policy);
        let pending = seating.next.take();
        let way_back = match (seating.open.take(), pending) {
            (Some(open), pending) => {
                // Never seated, and not to be.
                pending.into_iter().for_each(|pending| seating.board.retire(pending.policy));
                open.way_back
            }
            // Whoever was about to come back, or the fallback after a quarantine.
            (None, Some(pending)) => pending.policy,
            (None, None) => fresh.unwrap_or_else(|| self.fallback_policy()),
        };
        seating.open = Some(Open { number, way_back });
        seating.next = Some(Successor { policy, switch: Some(number) });
        seating.refused = None;
        seating.measure(number, false, self.clock.now_ns());
        self.step_known(state, Event::Drain);
        self.changed.notify_all();
    }

    /// Goes back because the policy of this switch failed on another device.
    pub fn roll_back(&self, number: u64) {
        let mut state = self.state.lock();
        if state.seating.go_back(number, self.clock.now_ns()) {
            self.step_known(&mut state, Event::Drain);
            self.changed.notify_all();
        }
    }

    /// The policy of this switch has passed its trial: nobody comes back.
    pub fn end_trial(&self, number: u64) {
        let mut state = self.state.lock();
        if let Some(open) = state.seating.open.take_if(|open| open.number == number) {
            state.seating.board.retire(open.way_back);
        }
    }

    /// The library of the policy in the seat.
    pub fn library(&self) -> PolicyLibrary {
        self.state.lock().policy.policy().library().clone()
    }

    /// Seats whoever comes next, after the arbiter has drained. Returns what to tell the arbiter.
    pub(super) fn seat_next(&self, state: &mut State) -> Event {
        let next = state.seating.next.take();
        let Successor { policy, switch } =
            next.unwrap_or_else(|| Successor::of_no_switch(self.fallback_policy()));
        let (name, table) = (policy.library().name().to_owned(), policy.library().locks().clone());
        let event = self.event(TimelineKind::Seated, None);
        self.record(TimelineEvent { detail: name.clone(), policy: name.clone(), ..event });
        tracing::info!(device = self.device, policy = name, "policy seated");
        let old = self.seat(state, policy);
        let waited = state.arbiter.waiting().count() as u64;
        let seating = &mut state.seating;
        seating.board.retire(old);
        seating.seated_by = switch;
        seating.seatings += 1;
        seating.refused = None;
        seating.verdicts_before = Verdicts::of(state.arbiter.counters());
        if let Some(mut meter) = seating.meter.take() {
            let now_ns = self.clock.now_ns();
            let times = SwapTimes { drain_ns: now_ns.saturating_sub(meter.began_ns), waited, pause_ns: None };
            let swap = Swap { number: meter.number, back: meter.back, seated: name, times };
            seating.board.seated(self.device, swap);
            meter.seated = true;
            // Nobody waits for a grant where nobody stands.
            seating.meter = Some(meter).filter(|_| waited > 0);
        }
        Event::Installed(table)
    }

    /// Who takes the seat of a policy that was quarantined: whoever sat before, if it was on trial, else the fallback.
    pub(super) fn successor_of_quarantined(&self, state: &mut State, reason: Quarantine) -> Successor {
        state.seating.board.quarantined(state.policy.policy().library());
        if self.fail_trial(state, &reason.to_string())
            && let Some(next) = state.seating.next.take()
        {
            return next;
        }
        Successor::of_no_switch(self.fallback_policy())
    }

    /// Looks how a trial and a change go, after a step. Returns what the arbiter has to be told.
    pub(super) fn look_at_trial(&self, state: &mut State) -> Option<Event> {
        let draining = state.arbiter.phase() != Phase::Serving;
        if let Some(meter) = &mut state.seating.meter
            && draining
            && meter.waiting_since_ns.is_none()
            && state.arbiter.waiting().next().is_some()
        {
            meter.waiting_since_ns = Some(self.clock.now_ns());
        }
        let number = state.seating.on_trial()?;
        if draining {
            return None;
        }
        if let Some(reason) = state.seating.refused.take() {
            return self.fail_trial(state, &reason).then_some(Event::Drain);
        }
        let seating = &state.seating;
        let decisions = Verdicts::of(state.arbiter.counters()).since(seating.verdicts_before);
        seating.board.decided(self.device, number, decisions);
        None
    }

    /// Has whoever sat before come next. False when the policy is not on trial.
    fn fail_trial(&self, state: &mut State, reason: &str) -> bool {
        let Some(number) = state.seating.on_trial() else { return false };
        if !state.seating.board.failed(self.device, number, reason)
            || !state.seating.go_back(number, self.clock.now_ns())
        {
            return false;
        }
        let (policy, next) = (state.policy.policy().library().name(), &state.seating.next);
        let back = next.as_ref().map_or("", |next| next.policy.library().name());
        tracing::error!(device = self.device, policy, reason, back, "policy failed its trial: rolled back");
        let event = self.event(TimelineKind::RolledBack, None);
        self.record(TimelineEvent { detail: format!("{policy}: {reason}; back to {back}"), ..event });
        true
    }
}

/// Verdicts to wait that count for each one that lets a task go on: nobody passes a trial by waiting.
const WAITS_FOR_EACH: u64 = 4;

/// What the arbiter has counted of the policy in the seat, and of those before.
#[derive(Clone, Copy, Debug, Default)]
struct Verdicts {
    /// Those that let a task go on.
    passes: u64,
    waits: u64,
    /// Refused ones, and failed hooks.
    refused: u64,
}

impl Verdicts {
    fn of(counters: &Counters) -> Self {
        Self {
            passes: counters.grants.iter().sum::<u64>() + counters.skips,
            waits: counters.waits,
            refused: counters.refusals.values().sum::<u64>(),
        }
    }

    /// Those that count for a trial that began after `before`.
    fn since(self, before: Self) -> u64 {
        let passes = self.passes.saturating_sub(before.passes);
        let waits = self.waits.saturating_sub(before.waits).min(WAITS_FOR_EACH * passes);
        passes + waits + self.refused.saturating_sub(before.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_a_trial_by_waiting() {
        let before = Verdicts { passes: 10, waits: 20, refused: 1 };
        let after = |passes: u64, waits: u64| Verdicts { passes: 10 + passes, waits: 20 + waits, refused: 1 };
        assert_eq!(after(0, 1_000_000).since(before), 0);
        assert_eq!(after(2, 1_000_000).since(before), 2 + 2 * WAITS_FOR_EACH);
        assert_eq!(after(7, 3).since(before), 10);
        assert_eq!(Verdicts { refused: 4, ..before }.since(before), 3);
    }
}
