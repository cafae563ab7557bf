//! A seated policy: one instance, asked through cached function pointers or in its own process.

use std::ptr;

use abi_stable::std_types::{RString, RVec, Tuple2};
use interlock_policy_api::abi::{Instance, PolicyTableRef, Status};
use interlock_policy_api::{
    Capabilities, DeviceView, Observation, Request, Strided, Verdict, View, least_loaded,
};

use super::PolicyLibrary;
use super::isolation::IsolatedPolicy;
use crate::interlock::{PlaceError, PolicyFault, PolicyPort, SeatedPolicy};

/// An instance of a policy, for one device. Dropping it ends the instance; the library stays, and the process of an
/// isolated instance is killed.
///
/// Hooks that the manifest does not declare are not called: the host's defaults stand in for them.
pub struct LoadedPolicy {
    place: Place,
    hooks: Capabilities,
    library: PolicyLibrary,
}

/// Where the instance is.
enum Place {
    Here(LocalPolicy),
    Apart(Box<IsolatedPolicy>),
}

/// An instance in this process.
struct LocalPolicy {
    instance: Instance,
    calls: Calls,
}

/// The functions of the hot path, out of their table once.
#[derive(Clone, Copy)]
struct Calls {
    decide: unsafe extern "C" fn(Instance, *const (), *const (), *mut ()) -> Status,
    rank: unsafe extern "C" fn(Instance, *const (), *const (), &mut i64) -> Status,
    place: unsafe extern "C" fn(Instance, *const (), *const (), &mut u32) -> Status,
    observe: unsafe extern "C" fn(Instance, *const ()) -> Status,
    stats: unsafe extern "C" fn(Instance, &mut RVec<Tuple2<RString, u64>>) -> Status,
    destroy: unsafe extern "C" fn(Instance) -> Status,
}

impl LoadedPolicy {
    /// Takes over an instance in this process.
    ///
    /// # Safety
    /// `instance` was made by `create` of the module that has `table`, and is handed over: nobody else calls or
    /// destroys it.
    pub(super) unsafe fn here(instance: Instance, table: PolicyTableRef, library: &PolicyLibrary) -> Self {
        let calls = Calls {
            decide: table.decide(),
            rank: table.rank(),
            place: table.place(),
            observe: table.observe(),
            stats: table.stats(),
            destroy: table.destroy(),
        };
        Self::new(Place::Here(LocalPolicy { instance, calls }), library)
    }

    /// Takes over an instance in a process of its own.
    pub(super) fn apart(policy: IsolatedPolicy, library: &PolicyLibrary) -> Self {
        Self::new(Place::Apart(Box::new(policy)), library)
    }

    fn new(place: Place, library: &PolicyLibrary) -> Self {
        Self { place, hooks: library.manifest().capabilities, library: library.clone() }
    }

    /// The policy this is an instance of.
    pub fn library(&self) -> &PolicyLibrary {
        &self.library
    }

    /// Whether it has all of these hooks: the host's defaults stand in for others.
    #[inline]
    pub fn has(&self, hooks: Capabilities) -> bool {
        self.hooks.contains(hooks)
    }

    /// The id of the instance's own process; `None` when it is in this one.
    pub fn process_id(&self) -> Option<u32> {
        match &self.place {
            Place::Here(_) => None,
            Place::Apart(policy) => Some(policy.process_id()),
        }
    }

    /// The device a new task should go to, as an index into `devices`. Without the hook it is the one with the
    /// fewest tasks. Not asked where there is no choice.
    ///
    /// # Errors
    /// The policy panicked or named a device that is not there.
    pub fn place(&mut self, request: &Request, devices: &[DeviceView]) -> Result<u32, PlaceError> {
        if devices.len() < 2 || !self.hooks.contains(Capabilities::PLACE) {
            return Ok(least_loaded(Strided::new(devices)));
        }
        let chosen = self.choose(request, devices).map_err(PlaceError::Fault)?;
        if (chosen as usize) < devices.len() {
            return Ok(chosen);
        }
        Err(PlaceError::NoSuchDevice { chosen, devices: devices.len() })
    }

    /// What the policy itself answers to `place`.
    pub(super) fn choose(&mut self, request: &Request, devices: &[DeviceView]) -> Result<u32, PolicyFault> {
        match &mut self.place {
            Place::Here(policy) => policy.place(request, devices),
            Place::Apart(policy) => policy.place(request, devices),
        }
    }

    /// The policy's own counters; none without the hook.
    ///
    /// # Errors
    /// The policy panicked.
    pub fn stats(&mut self) -> Result<Vec<(String, u64)>, PolicyFault> {
        if !self.hooks.contains(Capabilities::STATS) {
            return Ok(Vec::new());
        }
        match &mut self.place {
            Place::Here(policy) => policy.stats(),
            Place::Apart(policy) => policy.stats(),
        }
    }
}

impl PolicyPort for LoadedPolicy {
    #[inline]
    fn decide(&mut self, request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault> {
        match &mut self.place {
            Place::Here(policy) => policy.decide(request, view),
            Place::Apart(policy) => policy.decide(request, view),
        }
    }

    #[inline]
    fn rank(&mut self, request: &Request, view: &View<'_>) -> Result<i64, PolicyFault> {
        if !self.hooks.contains(Capabilities::RANK) {
            return Ok(-i64::from(request.priority));
        }
        match &mut self.place {
            Place::Here(policy) => policy.rank(request, view),
            Place::Apart(policy) => policy.rank(request, view),
        }
    }

    #[inline]
    fn observe(&mut self, observation: &Observation) -> Result<(), PolicyFault> {
        if !self.hooks.contains(Capabilities::OBSERVE) {
            return Ok(());
        }
        match &mut self.place {
            Place::Here(policy) => policy.observe(observation),
            Place::Apart(policy) => policy.observe(observation),
        }
    }
}

impl SeatedPolicy for LoadedPolicy {
    fn place(&mut self, request: &Request, devices: &[DeviceView]) -> Result<u32, PlaceError> {
        LoadedPolicy::place(self, request, devices)
    }

    fn stats(&mut self) -> Result<Vec<(String, u64)>, PolicyFault> {
        LoadedPolicy::stats(self)
    }
}

impl LocalPolicy {
    #[inline]
    fn decide(&mut self, request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault> {
        let mut verdict = Verdict::UNSET;
        // SAFETY: `here` took over a live instance; the records are this host's.
        let status = unsafe {
            (self.calls.decide)(
                self.instance,
                ptr::from_ref(request).cast(),
                ptr::from_ref(view).cast(),
                ptr::from_mut(&mut verdict).cast(),
            )
        };
        answered(status).map(|()| verdict)
    }

    #[inline]
    fn rank(&mut self, request: &Request, view: &View<'_>) -> Result<i64, PolicyFault> {
        let mut rank = 0;
        // SAFETY: as in `decide`.
        let status = unsafe {
            (self.calls.rank)(
                self.instance,
                ptr::from_ref(request).cast(),
                ptr::from_ref(view).cast(),
                &mut rank,
            )
        };
        answered(status).map(|()| rank)
    }

    fn place(&mut self, request: &Request, devices: &[DeviceView]) -> Result<u32, PolicyFault> {
        let mut chosen = 0;
        let view = Strided::new(devices);
        // SAFETY: as in `decide`.
        let status = unsafe {
            (self.calls.place)(
                self.instance,
                ptr::from_ref(request).cast(),
                ptr::from_ref(&view).cast(),
                &mut chosen,
            )
        };
        answered(status).map(|()| chosen)
    }

    #[inline]
    fn observe(&mut self, observation: &Observation) -> Result<(), PolicyFault> {
        // SAFETY: as in `decide`.
        answered(unsafe { (self.calls.observe)(self.instance, ptr::from_ref(observation).cast()) })
    }

    fn stats(&mut self) -> Result<Vec<(String, u64)>, PolicyFault> {
        let mut counters = RVec::new();
        // SAFETY: as in `decide`.
        answered(unsafe { (self.calls.stats)(self.instance, &mut counters) })?;
        Ok(counters.into_iter().map(|Tuple2(name, value)| (name.into_string(), value)).collect())
    }
}

/// A status other than the known ones comes from a library that breaks the ABI.
#[inline]
fn answered(status: Status) -> Result<(), PolicyFault> {
    match status {
        Status::OK => Ok(()),
        Status::PANICKED => Err(PolicyFault::Panicked),
        _ => Err(PolicyFault::Unreachable),
    }
}

impl Drop for LocalPolicy {
    fn drop(&mut self) {
        // SAFETY: `here` took over a live instance, and this is its end.
        let status = unsafe { (self.calls.destroy)(self.instance) };
        if let Err(fault) = answered(status) {
            tracing::warn!(?fault, "a policy failed to end its instance");
        }
    }
}

impl std::fmt::Debug for LoadedPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedPolicy").field("library", &self.library).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_may_go_to_the_thread_that_asks_it() {
        fn sent<T: Send>(_: &T) {}
        fn shared<T: Send + Sync>(_: &T) {}
        let library = PolicyLibrary::fallback();
        shared(&library);
        sent(&library.instantiate().expect("the fallback has no options"));
    }

    #[test]
    fn a_status_nobody_knows_is_no_answer() {
        assert_eq!(answered(Status(2)), Err(PolicyFault::Unreachable));
        assert_eq!(answered(Status::PANICKED), Err(PolicyFault::Panicked));
        assert_eq!(answered(Status::OK), Ok(()));
    }
}
