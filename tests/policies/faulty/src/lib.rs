//! A policy that does wrong on purpose, for tests: panics where it is told to, gives verdicts nobody can
//! carry out, or has bad habits. Nothing it does harms the process it runs in; for that there is `hostile`. Without options it is
//! honest: it enters what is grantable, and else waits.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use interlock_policy_api::{
    Capabilities, DeviceView, Manifest, Observation, Policy, Request, Stage, Strided, Verdict, VerdictKind,
    View, WakeSet, export_policy, policy_options,
};

policy_options! {
    /// Options of `faulty`.
    pub struct Options {
        /// Function to panic in: create, decide, rank, place, observe, stats or destroy; none when empty.
        pub panic_in: String = String::new(),
        /// Verdicts: honest, unknown, never, endless, past, greedy, stingy, grab, skip, exabytes, garbage, flips or previous; hold
        /// lets nobody be staged, starve never lets in who arrived first.
        pub verdict: String = String::from("honest"),
        /// What it does besides: nap, leak, print, or nothing.
        pub habit: String = String::new(),
        /// Where garbage and flips begin.
        pub seed: u64 = 1,
        /// Milliseconds that it takes to decide.
        pub sleep_ms: u32 = 0,
        /// The device `place` answers with.
        pub device: u32 = 0,
    }
}

/// The policy.
#[derive(Debug)]
pub struct Faulty {
    options: Options,
    observed: u64,
    random: Cell<u64>,
    printed: Cell<bool>,
}

/// What was right for the question before, of whichever instance: it outlives them, and so a swap.
static PREVIOUS: AtomicU64 = AtomicU64::new(0);

impl Faulty {
    /// SplitMix64.
    fn random(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn is_garbage(&self) -> bool {
        self.options.verdict == "garbage"
    }

    /// Random bits in every field; the kind is often one that there is.
    fn garbage(&self) -> Verdict {
        let kind = self.random();
        let kind = if kind & 1 == 0 { kind >> 1 & 3 } else { kind >> 32 } as u32;
        Verdict {
            kind: VerdictKind(kind),
            wake: WakeSet(self.random() as u32),
            reserve_bytes: self.random() >> (self.random() % 64),
            deadline_ns: self.random() >> (self.random() % 64),
        }
    }

    /// Any of the answers there are, whatever the question.
    fn flipped(&self, request: &Request, view: &View<'_>) -> Verdict {
        match self.random() % 4 {
            0 => Verdict::enter(request.need_bytes),
            1 => Verdict::skip(),
            2 => Verdict::wait(WakeSet::ANY),
            _ => Verdict::wait_until(WakeSet::NONE, view.now_ns + self.random() % 1_000_000),
        }
    }

    /// The answer to the question before this one.
    fn late(&self, request: &Request) -> Verdict {
        let right = if request.grantable() { request.need_bytes + 1 } else { 0 };
        match PREVIOUS.swap(right, Ordering::Relaxed) {
            0 => Verdict::wait(WakeSet::ANY),
            bytes => Verdict::enter(bytes - 1),
        }
    }

    fn follow_habit(&self) {
        match self.options.habit.as_str() {
            "nap" => std::thread::sleep(Duration::from_micros(self.random() % 3_000)),
            "leak" => drop(std::hint::black_box(vec![1_u8; 4 << 10].leak())),
            "print" if !self.printed.replace(true) => {
                println!("(a policy prints)");
                eprintln!("(a policy prints)");
            }
            _ => {}
        }
    }

    fn may_panic(&self, function: &str) {
        assert!(self.options.panic_in != function, "told to panic in {function}");
    }
}

impl Policy for Faulty {
    type Options = Options;

    const MANIFEST: Manifest = Manifest::new("faulty", "0.1.0", "does wrong on purpose, for tests")
        .with_options(Options::SPEC)
        .with_capabilities(Capabilities::ALL);

    fn new(options: Options) -> Result<Self, String> {
        if options.verdict == "refuse to start" {
            return Err("verdict: told to refuse to start".into());
        }
        let random = Cell::new(options.seed);
        let policy = Self { options, observed: 0, random, printed: Cell::new(false) };
        policy.may_panic("create");
        Ok(policy)
    }

    fn decide(&self, request: &Request, view: &View<'_>) -> Verdict {
        self.may_panic("decide");
        self.follow_habit();
        if self.options.sleep_ms > 0 {
            std::thread::sleep(Duration::from_millis(self.options.sleep_ms.into()));
        }
        match self.options.verdict.as_str() {
            "unknown" => Verdict { kind: VerdictKind(77), ..Verdict::UNSET },
            "never" => Verdict::wait(WakeSet::ANY),
            "endless" => Verdict::wait(WakeSet::NONE),
            "past" => Verdict::wait_until(WakeSet::NONE, view.now_ns),
            "greedy" => Verdict::enter(u64::MAX),
            "stingy" if request.need_bytes > 0 => Verdict::enter(request.need_bytes - 1),
            "grab" => Verdict::enter(request.need_bytes),
            "skip" => Verdict::skip(),
            "exabytes" => Verdict::enter(1 << 63),
            "garbage" => self.garbage(),
            "flips" => self.flipped(request, view),
            "previous" => self.late(request),
            "hold" if request.gate == Stage::STAGE => Verdict::wait(WakeSet::ANY),
            "starve" if request.arrival == 0 => Verdict::wait(WakeSet::ANY),
            _ if request.grantable() => Verdict::enter(request.need_bytes),
            _ => Verdict::wait(WakeSet::FREED),
        }
    }

    fn rank(&self, request: &Request, _view: &View<'_>) -> i64 {
        self.may_panic("rank");
        if self.is_garbage() { self.random() as i64 } else { request.arrival as i64 }
    }

    fn place(&self, _request: &Request, _devices: Strided<'_, DeviceView>) -> u32 {
        self.may_panic("place");
        if self.is_garbage() { self.random() as u32 } else { self.options.device }
    }

    fn observe(&mut self, observation: &Observation) {
        self.may_panic("observe");
        if observation.stage != Stage::PREPARE {
            self.observed += 1;
        }
    }

    fn stats(&self) -> Vec<(String, u64)> {
        self.may_panic("stats");
        if self.is_garbage() {
            let name = |_: u32| char::from_u32(self.random() as u32 % 0x300).unwrap_or('?');
            return (0..200).map(|_| ((0..100).map(name).collect(), self.random())).collect();
        }
        vec![("observed".into(), self.observed)]
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        // A panic in `create` drops the half-made policy while it unwinds; a second one would abort.
        if !std::thread::panicking() {
            self.may_panic("destroy");
        }
    }
}

export_policy!(Faulty);
