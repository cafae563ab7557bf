//! The arbiter's side of the policy: what it asks.

use interlock_policy_api::{Observation, Request, Verdict, View};

/// Why a policy gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyFault {
    /// It panicked.
    Panicked,
    /// It could not be asked at all.
    Unreachable,
}

/// A policy as the arbiter sees it: a loaded library, a linked one, or a script in a test.
pub trait PolicyPort {
    /// The verdict for one task at one gate.
    ///
    /// # Errors
    /// A [`PolicyFault`], counted as a refused verdict.
    fn decide(&mut self, request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault>;

    /// The place in line: lower goes first, ties go by arrival. The default is priority.
    ///
    /// # Errors
    /// A [`PolicyFault`], counted as a refused verdict; the host then ranks by priority.
    fn rank(&mut self, request: &Request, view: &View<'_>) -> Result<i64, PolicyFault> {
        let _ = view;
        Ok(-i64::from(request.priority))
    }

    /// Tells the policy what happened. The default does nothing.
    ///
    /// # Errors
    /// A [`PolicyFault`], counted.
    fn observe(&mut self, observation: &Observation) -> Result<(), PolicyFault> {
        let _ = observation;
        Ok(())
    }
}
