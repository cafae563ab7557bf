//! What a policy was asked and what it answered, kept to be shown and asked again.

use interlock_arbiter::{Command, Event, PlaceError, PolicyFault, PolicyPort, SeatedPolicy};
use interlock_policy_api::{DeviceView, LockView, Observation, Request, Strided, Verdict, View};

/// A view that owns its locks.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    locks: Vec<LockView>,
    /// The rest; its own list of locks is empty.
    rest: View<'static>,
}

impl Shown {
    fn of(view: &View<'_>) -> Shown {
        Shown {
            locks: view.locks.iter().copied().collect(),
            rest: View { locks: Strided::new(&[]), ..*view },
        }
    }

    pub fn view(&self) -> View<'_> {
        View { locks: Strided::new(&self.locks), ..self.rest }
    }

    pub fn locks(&self) -> &[LockView] {
        &self.locks
    }
}

/// A call of the policy, with its answer.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Decide { request: Request, shown: Shown, answer: Result<Verdict, PolicyFault> },
    Rank { request: Request, shown: Shown, answer: Result<i64, PolicyFault> },
    Place { request: Request, devices: Vec<DeviceView>, answer: Result<u32, PlaceError> },
    Observe { seen: Observation, answer: Result<(), PolicyFault> },
    Stats { answer: Result<(), PolicyFault> },
}

impl Call {
    /// Why there was no answer.
    pub fn fault(&self) -> Option<PolicyFault> {
        match self {
            Call::Decide { answer, .. } => answer.err(),
            Call::Rank { answer, .. } => answer.err(),
            Call::Observe { answer, .. } | Call::Stats { answer } => answer.err(),
            Call::Place { answer: Err(PlaceError::Fault(fault)), .. } => Some(*fault),
            Call::Place { .. } => None,
        }
    }
}

/// A line of the record of a run.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// A new instance took the seat.
    Seated,
    /// Something happened.
    Event { at_ns: u64, event: Event },
    /// The policy was asked.
    Call(Call),
    /// What the arbiter did.
    Did(Command),
}

/// Writes down what passes through it.
pub(crate) struct Recorder {
    pub policy: Box<dyn SeatedPolicy>,
    pub entries: Vec<Entry>,
}

impl Recorder {
    pub fn new(policy: Box<dyn SeatedPolicy>) -> Recorder {
        Recorder { policy, entries: vec![Entry::Seated] }
    }

    pub fn seat(&mut self, policy: Box<dyn SeatedPolicy>) {
        self.policy = policy;
        self.entries.push(Entry::Seated);
    }

    pub fn place(&mut self, request: &Request, devices: Vec<DeviceView>) -> Result<u32, PlaceError> {
        let answer = self.policy.place(request, &devices);
        self.entries.push(Entry::Call(Call::Place { request: *request, devices, answer }));
        answer
    }

    pub fn stats(&mut self) -> Result<(), PolicyFault> {
        let answer = self.policy.stats().map(drop);
        self.entries.push(Entry::Call(Call::Stats { answer }));
        answer
    }
}

impl PolicyPort for Recorder {
    fn decide(&mut self, request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault> {
        let answer = self.policy.decide(request, view);
        self.entries.push(Entry::Call(Call::Decide { request: *request, shown: Shown::of(view), answer }));
        answer
    }

    fn rank(&mut self, request: &Request, view: &View<'_>) -> Result<i64, PolicyFault> {
        let answer = self.policy.rank(request, view);
        self.entries.push(Entry::Call(Call::Rank { request: *request, shown: Shown::of(view), answer }));
        answer
    }

    fn observe(&mut self, observation: &Observation) -> Result<(), PolicyFault> {
        let answer = self.policy.observe(observation);
        self.entries.push(Entry::Call(Call::Observe { seen: *observation, answer }));
        answer
    }
}
