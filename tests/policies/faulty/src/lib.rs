//! A policy that does wrong on purpose, for tests: panics where it is told to, or gives verdicts nobody can
//! carry out. Without options it is honest: it enters what is grantable, and else waits.

use interlock_policy_api::{
    Capabilities, DeviceView, Manifest, Observation, Policy, Request, Stage, Strided, Verdict, VerdictKind,
    View, WakeSet, export_policy, policy_options,
};

policy_options! {
    /// Options of `faulty`.
    pub struct Options {
        /// Function to panic in: create, decide, rank, place, observe, stats or destroy; none when empty.
        pub panic_in: String = String::new(),
        /// Verdicts: honest, unknown, never, endless, past, greedy, stingy, grab or skip.
        pub verdict: String = String::from("honest"),
        /// The device `place` answers with.
        pub device: u32 = 0,
    }
}

/// The policy.
#[derive(Debug)]
pub struct Faulty {
    options: Options,
    observed: u64,
}

impl Faulty {
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
        let policy = Self { options, observed: 0 };
        policy.may_panic("create");
        Ok(policy)
    }

    fn decide(&self, request: &Request, view: &View<'_>) -> Verdict {
        self.may_panic("decide");
        match self.options.verdict.as_str() {
            "unknown" => Verdict { kind: VerdictKind(77), ..Verdict::UNSET },
            "never" => Verdict::wait(WakeSet::ANY),
            "endless" => Verdict::wait(WakeSet::NONE),
            "past" => Verdict::wait_until(WakeSet::NONE, view.now_ns),
            "greedy" => Verdict::enter(u64::MAX),
            "stingy" if request.need_bytes > 0 => Verdict::enter(request.need_bytes - 1),
            "grab" => Verdict::enter(request.need_bytes),
            "skip" => Verdict::skip(),
            _ if request.grantable() => Verdict::enter(request.need_bytes),
            _ => Verdict::wait(WakeSet::FREED),
        }
    }

    fn rank(&self, request: &Request, _view: &View<'_>) -> i64 {
        self.may_panic("rank");
        request.arrival as i64
    }

    fn place(&self, _request: &Request, _devices: Strided<'_, DeviceView>) -> u32 {
        self.may_panic("place");
        self.options.device
    }

    fn observe(&mut self, observation: &Observation) {
        self.may_panic("observe");
        if observation.stage != Stage::PREPARE {
            self.observed += 1;
        }
    }

    fn stats(&self) -> Vec<(String, u64)> {
        self.may_panic("stats");
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
