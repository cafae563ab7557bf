//! A policy that is linked into its own tests.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use interlock_arbiter::{
    LockTable, LockTableError, PlaceError, PolicyFault, PolicyPort, PolicySource, SeatedPolicy,
};
use interlock_policy_api::{
    ABI_MAJOR, ABI_MINOR, Capabilities, DeviceView, LockDoc, Manifest, ManifestDoc, Observation, OptionDoc,
    Policy, Request, Strided, Verdict, View, least_loaded,
};
use interlock_settings::{OptionsError, OptionsText};

/// A policy by its type, with options: what a policy's own tests check.
pub struct Linked<P> {
    locks: LockTable,
    options: String,
    policy: PhantomData<fn() -> P>,
}

/// Why a policy cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkedError {
    /// An option is unknown or of the wrong type.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The lock table of its manifest.
    #[error(transparent)]
    Locks(#[from] LockTableError),
}

impl<P: Policy> Linked<P> {
    /// The policy with options as they are written in `plugins.ron`, such as `(wait_ms: 3)`; an empty text means the defaults.
    ///
    /// # Errors
    /// The options or the lock table are refused, as the engine would.
    pub fn new(options: &str) -> Result<Linked<P>, LinkedError> {
        let manifest = document(&P::MANIFEST);
        let values = OptionsText::new(options).check(&manifest.options)?;
        let locks = LockTable::from_manifest(&manifest, |option| values.permits(option))?;
        Ok(Linked { locks, options: options.to_owned(), policy: PhantomData })
    }
}

impl<P: Policy> PolicySource for Linked<P> {
    fn name(&self) -> &str {
        P::MANIFEST.name
    }

    fn locks(&self) -> &LockTable {
        &self.locks
    }

    fn seat(&self) -> Result<Box<dyn SeatedPolicy>, String> {
        let options = match self.options.trim() {
            "" => P::Options::default(),
            text => ron::from_str(text).map_err(|error| error.to_string())?,
        };
        let made = caught(|| P::new(options)).map_err(|fault| fault.to_string())??;
        Ok(Box::new(Seated(made)))
    }
}

/// An instance.
struct Seated<P>(P);

impl<P: Policy> Seated<P> {
    fn has(&self, hook: Capabilities) -> bool {
        P::MANIFEST.capabilities.contains(hook)
    }
}

impl<P: Policy> PolicyPort for Seated<P> {
    fn decide(&mut self, request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault> {
        caught(|| self.0.decide(request, view))
    }

    fn rank(&mut self, request: &Request, view: &View<'_>) -> Result<i64, PolicyFault> {
        if !self.has(Capabilities::RANK) {
            return Ok(-i64::from(request.priority));
        }
        caught(|| self.0.rank(request, view))
    }

    fn observe(&mut self, observation: &Observation) -> Result<(), PolicyFault> {
        if !self.has(Capabilities::OBSERVE) {
            return Ok(());
        }
        caught(|| self.0.observe(observation))
    }
}

impl<P: Policy> SeatedPolicy for Seated<P> {
    fn place(&mut self, request: &Request, devices: &[DeviceView]) -> Result<u32, PlaceError> {
        if devices.len() < 2 || !self.has(Capabilities::PLACE) {
            return Ok(least_loaded(Strided::new(devices)));
        }
        let chosen = caught(|| self.0.place(request, Strided::new(devices))).map_err(PlaceError::Fault)?;
        if (chosen as usize) < devices.len() {
            return Ok(chosen);
        }
        Err(PlaceError::NoSuchDevice { chosen, devices: devices.len() })
    }

    fn stats(&mut self) -> Result<Vec<(String, u64)>, PolicyFault> {
        if !self.has(Capabilities::STATS) {
            return Ok(Vec::new());
        }
        caught(|| self.0.stats())
    }
}

fn caught<A>(call: impl FnOnce() -> A) -> Result<A, PolicyFault> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
        // A payload may panic when it is dropped: leak it.
        std::mem::forget(payload);
        PolicyFault::Panicked
    })
}

/// The manifest as a host reads it.
fn document(manifest: &Manifest) -> ManifestDoc {
    let lock = |lock: &interlock_policy_api::Lock| LockDoc {
        name: lock.name.to_owned(),
        permits: lock.permits,
        permits_option: lock.permits_option.map(str::to_owned),
        first: lock.first.0,
        last: lock.last.0,
    };
    let option = |option: &interlock_policy_api::OptionSpec| OptionDoc {
        name: option.name.to_owned(),
        kind: option.kind.to_owned(),
        default: option.default.to_owned(),
        doc: option.doc.to_owned(),
    };
    ManifestDoc {
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        entry: String::new(),
        name: manifest.name.to_owned(),
        version: manifest.version.to_owned(),
        description: manifest.description.to_owned(),
        capabilities: manifest.capabilities,
        locks: manifest.locks.iter().map(lock).collect(),
        options: manifest.options.iter().map(option).collect(),
    }
}
