//! What a policy answers at a gate.

/// The kinds of answer. An integer newtype: a host treats a number it does not know as a refused
/// verdict, it never guesses.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VerdictKind(pub u32);

impl VerdictKind {
    /// Go in: take the gate's locks and reserve the bytes, all or nothing.
    pub const ENTER: VerdictKind = VerdictKind(1);
    /// At the Stage gate only: do not stage ahead, upload inside Compute.
    pub const SKIP: VerdictKind = VerdictKind(2);
    /// Not now.
    pub const WAIT: VerdictKind = VerdictKind(3);
}

/// The events that make a waiting request worth asking about again, as bits.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WakeSet(pub u32);

impl WakeSet {
    /// A permit of some lock came free.
    pub const LOCK_FREED: WakeSet = WakeSet(1);
    /// Device bytes came free.
    pub const BYTES_FREED: WakeSet = WakeSet(1 << 1);
    /// Some task's stage ended, whatever it freed.
    pub const STAGE_ENDED: WakeSet = WakeSet(1 << 2);
    /// A task arrived at the device.
    pub const TASK_ARRIVED: WakeSet = WakeSet(1 << 3);
    /// A task entered a stage or skipped one.
    pub const STAGE_ENTERED: WakeSet = WakeSet(1 << 4);
    /// Nothing but the deadline.
    pub const NONE: WakeSet = WakeSet(0);
    /// Anything at all.
    pub const ANY: WakeSet = WakeSet(u32::MAX);
    /// A permit or bytes came free: what a request that is not grantable waits for.
    pub const FREED: WakeSet = WakeSet(0b11);

    /// Whether the two sets have an event in common.
    pub const fn intersects(self, other: WakeSet) -> bool {
        self.0 & other.0 != 0
    }

    /// The events of both sets.
    #[must_use]
    pub const fn with(self, other: WakeSet) -> WakeSet {
        WakeSet(self.0 | other.0)
    }
}

/// A policy's answer at a gate. Make one with [`Verdict::enter`], [`Verdict::skip`],
/// [`Verdict::wait`] or [`Verdict::wait_until`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// Which answer it is.
    pub kind: VerdictKind,
    /// For `Wait`: when to ask again.
    pub wake: WakeSet,
    /// For `Enter`: bytes to reserve on top of what the task holds. At least
    /// [`Request::need_bytes`](crate::Request::need_bytes), at most what is missing to
    /// [`Request::peak_bytes`](crate::Request::peak_bytes) (zero at Prepare and Finish).
    pub reserve_bytes: u64,
    /// For `Wait`: the time at which to ask again even if nothing happened, on the clock of
    /// [`View::now_ns`](crate::View::now_ns). [`Verdict::NO_DEADLINE`] for none.
    pub deadline_ns: u64,
}

impl Verdict {
    /// The deadline that never comes.
    pub const NO_DEADLINE: u64 = u64::MAX;

    /// A verdict of no kind: what the host passes in, refused if it comes back.
    pub const UNSET: Verdict = Verdict {
        kind: VerdictKind(0),
        wake: WakeSet::NONE,
        reserve_bytes: 0,
        deadline_ns: Self::NO_DEADLINE,
    };

    /// Go in and reserve `reserve_bytes` more.
    pub const fn enter(reserve_bytes: u64) -> Verdict {
        Verdict { kind: VerdictKind::ENTER, reserve_bytes, ..Self::UNSET }
    }

    /// Do not stage ahead.
    pub const fn skip() -> Verdict {
        Verdict { kind: VerdictKind::SKIP, ..Self::UNSET }
    }

    /// Ask again when one of `wake` happens.
    pub const fn wait(wake: WakeSet) -> Verdict {
        Verdict { kind: VerdictKind::WAIT, wake, ..Self::UNSET }
    }

    /// Ask again when one of `wake` happens, and at `deadline_ns` at the latest.
    pub const fn wait_until(wake: WakeSet, deadline_ns: u64) -> Verdict {
        Verdict { kind: VerdictKind::WAIT, wake, deadline_ns, ..Self::UNSET }
    }
}
