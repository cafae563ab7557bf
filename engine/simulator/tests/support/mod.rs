//! The policies that ship, linked, and scenarios to begin with.

#![allow(dead_code, reason = "each test program uses its part")]

use interlock_arbiter::{
    LockTable, PlaceError, PolicyFault, PolicyPort, PolicySource, Recorder, SeatedPolicy, TimelineEvent,
};
use interlock_conformance::Linked;
use interlock_policy_api::{DeviceView, Policy, Request, Verdict, View, WakeSet};
use interlock_serialized_fallback::SerializedFallback;
use interlock_simulator::{PolicyFigures, Scenario, Simulated, simulate};
use interlock_single_lock::SingleLock;
use interlock_two_lock::TwoLock;
use interlock_vram_token::VramToken;

/// A policy that ships, by its name.
pub fn policy(name: &str) -> Box<dyn PolicySource> {
    match name {
        "serialized-fallback" => linked::<SerializedFallback>(),
        "single-lock" => linked::<SingleLock>(),
        "two-lock" => linked::<TwoLock>(),
        "vram-token" => linked::<VramToken>(),
        _ => panic!("no policy {name}"),
    }
}

fn linked<P: Policy>() -> Box<dyn PolicySource> {
    Box::new(Linked::<P>::new("").expect("a policy that ships"))
}

pub const POLICIES: [&str; 4] = ["serialized-fallback", "single-lock", "two-lock", "vram-token"];

pub fn run(scenario: &Scenario, name: &str) -> PolicyFigures {
    simulated(scenario, name, None).figures
}

pub fn simulated(scenario: &Scenario, name: &str, recorder: Option<&dyn Recorder>) -> Simulated {
    let fallback = policy("serialized-fallback");
    simulate(scenario, &*policy(name), &*fallback, recorder).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Keeps all events.
#[derive(Default)]
pub struct Events(pub std::sync::Mutex<Vec<TimelineEvent>>);

impl Recorder for Events {
    fn record(&self, event: &TimelineEvent) {
        self.0.lock().expect("nobody panics").push(event.clone());
    }
}

/// A device of 10 GiB and one class of tasks that plan 4 GiB and 2 more: Prepare 3 s, Stage 2 s, Compute 5 s, Finish 1 s. `rest` has the
/// arrivals and whatever else.
pub fn scenario(rest: &str) -> Scenario {
    parse(&format!(
        "(devices: [(vram: \"10GiB\")], classes: [(name: \"task\", staged: \"4GiB\", extra: \"2GiB\", \
         prepare: (time: Constant(\"3s\")), stage: Constant(\"2s\"), compute: Constant(\"5s\"), \
         finish: (time: Constant(\"1s\")))], {rest})"
    ))
}

pub fn parse(text: &str) -> Scenario {
    Scenario::parse(text, None).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub fn assert_near(is: f64, should_be: f64, tolerance: f64, what: &str) {
    assert!((is - should_be).abs() <= tolerance * should_be.abs(), "{what}: {is}, not {should_be}");
}

/// Lets nobody in: it waits for something to come free, or, restless, for the next nanosecond.
pub struct Never {
    locks: LockTable,
    restless: bool,
}

impl Never {
    pub fn new(restless: bool) -> Self {
        Self { locks: LockTable::new(Vec::new()).expect("no locks are sound"), restless }
    }
}

impl PolicySource for Never {
    fn name(&self) -> &str {
        "never"
    }

    fn locks(&self) -> &LockTable {
        &self.locks
    }

    fn seat(&self) -> Result<Box<dyn SeatedPolicy>, String> {
        Ok(Box::new(Waits { restless: self.restless }))
    }
}

struct Waits {
    restless: bool,
}

impl PolicyPort for Waits {
    fn decide(&mut self, _request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault> {
        Ok(if self.restless {
            Verdict::wait_until(WakeSet::FREED, view.now_ns + 1)
        } else {
            Verdict::wait(WakeSet::FREED)
        })
    }
}

impl SeatedPolicy for Waits {
    fn place(&mut self, _request: &Request, _devices: &[DeviceView]) -> Result<u32, PlaceError> {
        Ok(0)
    }

    fn stats(&mut self) -> Result<Vec<(String, u64)>, PolicyFault> {
        Ok(Vec::new())
    }
}
