//! A seated policy: one instance, asked through cached function pointers.

use std::ptr;

use abi_stable::std_types::{RString, RVec, Tuple2};
use interlock_policy_api::abi::{Instance, Status};
use interlock_policy_api::{
    Capabilities, DeviceView, Observation, Request, Strided, Verdict, View, least_loaded,
};

use super::PolicyLibrary;
use crate::interlock::{PolicyFault, PolicyPort};

/// An instance of a policy, for one device. Dropping it ends the instance; the library stays.
///
/// Hooks that the manifest does not declare are not called: the host's defaults stand in for them.
pub struct LoadedPolicy {
    instance: Instance,
    calls: Calls,
    hooks: Capabilities,
    library: PolicyLibrary,
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

/// Why a policy's choice of device is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// It gave no answer.
    #[error("the policy gave no device: {0:?}")]
    Fault(PolicyFault),
    /// It named a device that is not there.
    #[error("the policy chose device {chosen}, there are {devices}")]
    NoSuchDevice {
        /// What it named.
        chosen: u32,
        /// How many there are.
        devices: usize,
    },
}

impl LoadedPolicy {
    /// Takes over an instance.
    ///
    /// # Safety
    /// `instance` was made by `create` of `library`'s module and is handed over: nobody else calls or destroys it.
    pub(super) unsafe fn new(instance: Instance, library: &PolicyLibrary) -> Self {
        let table = library.module().table();
        let calls = Calls {
            decide: table.decide(),
            rank: table.rank(),
            place: table.place(),
            observe: table.observe(),
            stats: table.stats(),
            destroy: table.destroy(),
        };
        Self { instance, calls, hooks: library.manifest().capabilities, library: library.clone() }
    }

    /// The policy this is an instance of.
    pub fn library(&self) -> &PolicyLibrary {
        &self.library
    }

    /// The device a new task should go to, as an index into `devices`. Without the hook it is the one with the
    /// fewest tasks. Not asked where there is no choice.
    ///
    /// # Errors
    /// The policy panicked or named a device that is not there.
    pub fn place(&mut self, request: &Request, devices: &[DeviceView]) -> Result<u32, PlaceError> {
        let view = Strided::new(devices);
        if devices.len() < 2 || !self.hooks.contains(Capabilities::PLACE) {
            return Ok(least_loaded(view));
        }
        let mut chosen = 0;
        // SAFETY: `new` took over a live instance; the records are this host's.
        let status = unsafe {
            (self.calls.place)(
                self.instance,
                ptr::from_ref(request).cast(),
                ptr::from_ref(&view).cast(),
                &mut chosen,
            )
        };
        answered(status).map_err(PlaceError::Fault)?;
        if (chosen as usize) < devices.len() {
            return Ok(chosen);
        }
        Err(PlaceError::NoSuchDevice { chosen, devices: devices.len() })
    }

    /// The policy's own counters; none without the hook.
    ///
    /// # Errors
    /// The policy panicked.
    pub fn stats(&mut self) -> Result<Vec<(String, u64)>, PolicyFault> {
        if !self.hooks.contains(Capabilities::STATS) {
            return Ok(Vec::new());
        }
        let mut counters = RVec::new();
        // SAFETY: `new` took over a live instance.
        answered(unsafe { (self.calls.stats)(self.instance, &mut counters) })?;
        Ok(counters.into_iter().map(|Tuple2(name, value)| (name.into_string(), value)).collect())
    }
}

impl PolicyPort for LoadedPolicy {
    #[inline]
    fn decide(&mut self, request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault> {
        let mut verdict = Verdict::UNSET;
        // SAFETY: `new` took over a live instance; the records are this host's.
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
        let mut rank = -i64::from(request.priority);
        if !self.hooks.contains(Capabilities::RANK) {
            return Ok(rank);
        }
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

    #[inline]
    fn observe(&mut self, observation: &Observation) -> Result<(), PolicyFault> {
        if !self.hooks.contains(Capabilities::OBSERVE) {
            return Ok(());
        }
        // SAFETY: as in `decide`.
        answered(unsafe { (self.calls.observe)(self.instance, ptr::from_ref(observation).cast()) })
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

impl Drop for LoadedPolicy {
    fn drop(&mut self) {
        // SAFETY: `new` took over a live instance, and this is its end.
        let status = unsafe { (self.calls.destroy)(self.instance) };
        if let Err(fault) = answered(status) {
            tracing::warn!(policy = self.library.name(), ?fault, "a policy failed to end its instance");
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
