//! Policies that break a law each.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use interlock_policy_api::{
    Capabilities, Lock, LockView, Manifest, NoOptions, Observation, ObservationKind, Policy, Request,
    RequestFlags, Stage, Verdict, VerdictKind, View, WakeSet,
};

const DEVICE: &[Lock] = &[Lock::exclusive("device", Stage::STAGE, Stage::COMPUTE)];

fn honest(request: &Request) -> Verdict {
    if request.grantable() { Verdict::enter(request.need_bytes) } else { Verdict::wait(WakeSet::FREED) }
}

/// A policy with this state, these facts in its manifest, and these functions.
macro_rules! policy {
    ($(#[$doc:meta])* $name:ident { $state:ty, $manifest:expr $(, $function:item)* }) => {
        $(#[$doc])*
        pub struct $name($state);

        impl Policy for $name {
            type Options = NoOptions;
            const MANIFEST: Manifest = $manifest;

            fn new(_options: NoOptions) -> Result<Self, String> {
                Ok(Self(Default::default()))
            }

            $($function)*
        }
    };
}

const fn named(name: &'static str) -> Manifest {
    Manifest::new(name, "1.0.0", "for a test")
}

policy!(
    /// Goes wrong once it has seen many tasks.
    PanicsLate {
        (),
        named("panics-late").with_locks(DEVICE),
        fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
            assert!(request.arrival % 97 != 96, "the 97th");
            honest(request)
        }
    }
);

policy!(
    /// Breaks nothing, but takes its time once it has seen many tasks.
    SlowLate {
        (),
        named("slow-late").with_locks(DEVICE),
        fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
            if request.arrival > 100 {
                std::thread::sleep(Duration::from_millis(20));
            }
            honest(request)
        }
    }
);

policy!(
    /// Breaks nothing.
    Honest { (), named("honest").with_locks(DEVICE) }
);

policy!(
    /// Does not look at the locks.
    Grabs {
        (),
        named("grabs").with_locks(DEVICE),
        fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
            if request.flags.contains(RequestFlags::BYTES_FREE) {
                Verdict::enter(request.need_bytes)
            } else {
                Verdict::wait(WakeSet::FREED)
            }
        }
    }
);

policy!(
    /// Does not look at the bytes.
    Overcommits {
        (),
        named("overcommits"),
        fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
            Verdict::enter(request.need_bytes)
        }
    }
);

policy!(
    /// Reserves less than it should, where that is possible.
    Stints {
        (),
        named("stints"),
        fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
            let verdict = honest(request);
            Verdict { reserve_bytes: verdict.reserve_bytes.saturating_sub(1), ..verdict }
        }
    }
);

policy!(
    /// Gives a verdict that there is not.
    Invents {
        (),
        named("invents"),
        fn decide(&self, _request: &Request, _view: &View<'_>) -> Verdict {
            Verdict { kind: VerdictKind(77), ..Verdict::UNSET }
        }
    }
);

policy!(
    /// Stages nobody alone.
    WaitsForCompany {
        (),
        named("waits-for-company").with_locks(DEVICE),
        fn decide(&self, request: &Request, view: &View<'_>) -> Verdict {
            let alone = view.waiting.iter().sum::<u32>() + view.running.iter().sum::<u32>() < 2;
            if alone && request.gate == Stage::STAGE { Verdict::wait(WakeSet::ANY) } else { honest(request) }
        }
    }
);

policy!(
    /// Has no locks, and lets in whoever fits: small tasks take the bytes that a large one waits for.
    WhoeverFits { (), named("whoever-fits") }
);

policy!(
    /// Says a millisecond, time and again.
    PutsOff {
        (),
        named("puts-off").with_locks(DEVICE),
        fn decide(&self, request: &Request, view: &View<'_>) -> Verdict {
            if request.gate == Stage::COMPUTE && view.now_ns - request.gate_since_ns < 4_000_000 {
                Verdict::wait_until(WakeSet::NONE, view.now_ns + 1_000_000)
            } else {
                honest(request)
            }
        }
    }
);

policy!(
    /// Says four milliseconds, and keeps to that.
    Dawdles {
        (),
        named("dawdles").with_locks(DEVICE),
        fn decide(&self, request: &Request, view: &View<'_>) -> Verdict {
            if request.gate == Stage::COMPUTE && view.now_ns - request.gate_since_ns < 4_000_000 {
                Verdict::wait_until(WakeSet::NONE, request.gate_since_ns + 4_000_000)
            } else {
                honest(request)
            }
        }
    }
);

policy!(
    /// Puts the lowest priority first.
    UpsideDown {
        (),
        named("upside-down").with_locks(DEVICE).with_capabilities(Capabilities::RANK),
        fn rank(&self, request: &Request, _view: &View<'_>) -> i64 {
            i64::from(request.priority)
        }
    }
);

/// When a policy was made.
pub struct Made(Instant);

impl Default for Made {
    fn default() -> Made {
        Made(Instant::now())
    }
}

policy!(
    /// Skips Stage once it has been there for twenty milliseconds.
    ReadsClock {
        Made,
        named("reads-clock").with_locks(DEVICE),
        fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
            if request.gate == Stage::STAGE && self.0.0.elapsed().as_millis() >= 20 {
                Verdict::skip()
            } else {
                honest(request)
            }
        }
    }
);

/// Whether [`OnceByChance`] had its chance.
static HAD_ITS_CHANCE: AtomicBool = AtomicBool::new(false);

policy!(
    /// Once in the life of the program, it answers otherwise when it is asked about a task again that it let into Stage.
    OnceByChance {
        Cell<Option<u64>>,
        named("once-by-chance").with_locks(DEVICE),
        fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
            if request.gate != Stage::STAGE || !request.grantable() {
                return honest(request);
            }
            let before = self.0.replace(Some(request.arrival));
            if before == Some(request.arrival) && !HAD_ITS_CHANCE.swap(true, Ordering::Relaxed) {
                return Verdict::skip();
            }
            honest(request)
        }
    }
);

policy!(
    /// Skips every second time.
    Counts {
        Cell<u64>,
        named("counts").with_locks(DEVICE),
        fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
            self.0.set(self.0.get() + 1);
            if request.gate == Stage::STAGE && self.0.get().is_multiple_of(2) {
                Verdict::skip()
            } else {
                honest(request)
            }
        }
    }
);

policy!(
    /// Looks stages up in a table of four.
    KnowsAll {
        [u64; 4],
        named("knows-all").with_locks(DEVICE).with_capabilities(Capabilities::OBSERVE),
        fn observe(&mut self, seen: &Observation) {
            self.0[seen.stage.index()] += 1;
        }
    }
);

policy!(
    /// Compares flags with all that it knows.
    KnowsAllFlags {
        (),
        named("knows-all-flags").with_locks(DEVICE),
        fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
            let all = RequestFlags::LOCKS_FREE.with(RequestFlags::BYTES_FREE);
            if request.gate == Stage::STAGE && request.flags != all { Verdict::skip() } else { honest(request) }
        }
    }
);

policy!(
    /// Takes records of locks to be as long as they were when it was built.
    KnowsAllRecords {
        (),
        named("knows-all-records").with_locks(&[
            Lock::exclusive("device", Stage::STAGE, Stage::COMPUTE),
            Lock::exclusive("compute", Stage::COMPUTE, Stage::COMPUTE),
        ]),
        fn decide(&self, request: &Request, view: &View<'_>) -> Verdict {
            let first = view.locks.get(0).map(std::ptr::from_ref::<LockView>);
            // SAFETY: none where records are longer: it then reads what is no lock, of the same list.
            let second = first.map(|first| unsafe { *first.add(1) });
            let odd = second.is_some_and(|lock| lock.permits != 1);
            if request.gate == Stage::STAGE && odd { Verdict::skip() } else { honest(request) }
        }
    }
);

policy!(
    /// Panics in whatever comes after a failed stage.
    PanicsAfterFailure {
        bool,
        named("panics-after-failure").with_locks(DEVICE).with_capabilities(Capabilities::OBSERVE),
        fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
            assert!(!self.0, "a stage failed");
            honest(request)
        },
        fn observe(&mut self, seen: &Observation) {
            self.0 |= seen.kind == ObservationKind::STAGE_FAILED;
        }
    }
);

policy!(
    /// The example of the SDK's documentation, with a step of a few bytes, as tasks have here.
    SmallFirst {
        (),
        named("small-first").with_locks(DEVICE).with_capabilities(Capabilities::RANK),
        fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
            honest(request)
        },
        fn rank(&self, request: &Request, _view: &View<'_>) -> i64 {
            let steps = u32::try_from(request.peak_bytes / 2).unwrap_or(u32::MAX);
            i64::from(steps).saturating_sub(i64::from(request.priority) << 32)
        }
    }
);
