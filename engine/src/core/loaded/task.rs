//! A task of a loaded core.

use std::sync::Arc;

use abi_stable::std_types::RSlice;
use blstrs::Bls12;
use interlock_core_api::{Outcome, StepRecord, TaskHandle};

use super::keys::{Keys, LoadedKey};
use super::view::{read_sums, scalars};
use super::{Opened, core_error};
use crate::circuit::Witness;
use crate::core::{Blinding, CoreError, CoreTask, ProvingKey};
use crate::proof::Proof;

/// Owns a task of the library.
pub(super) struct Running {
    key: Arc<LoadedKey>,
    handle: TaskHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: as for `Opened`.
        unsafe { self.key.core.module.drop_task()(self.handle) };
    }
}

/// A proof being made by a library.
pub struct LoadedTask {
    pub(super) name: &'static str,
    pub(super) opened: Arc<Opened>,
    pub(super) keys: Arc<Keys>,
    pub(super) device: usize,
    pub(super) key: Arc<ProvingKey>,
    pub(super) witness: Arc<Witness>,
    pub(super) blinding: Blinding,
    pub(super) progress: Progress,
}

/// How far a task is.
pub(super) enum Progress {
    Created,
    Prepared(Running),
    Staged(Running),
    Computed(Running),
    Failed,
}

impl LoadedTask {
    /// Takes the task's state; it counts as failed until a new one is set.
    fn take(&mut self) -> Progress {
        std::mem::replace(&mut self.progress, Progress::Failed)
    }

    fn outcome<T>(&self, outcome: Outcome<T>) -> Result<T, CoreError> {
        outcome.into_result().map_err(|fault| core_error(self.name, self.device, fault))
    }

    /// The key on the task's device; loads it when it is not there.
    fn loaded_key(&self) -> Result<Arc<LoadedKey>, CoreError> {
        let ready = self.keys.ready(&self.opened, self.device, &self.key);
        self.opened.tell(self.name);
        ready.map_err(|fault| core_error(self.name, self.device, fault))
    }

    /// Device time of each step of Compute, when the core was opened to measure it.
    pub fn steps(&self) -> Vec<StepRecord> {
        match &self.progress {
            // SAFETY: the handle is live, and this task is in this thread.
            Progress::Computed(running) => unsafe { self.opened.module.steps()(running.handle) }.into_vec(),
            _ => Vec::new(),
        }
    }
}

impl CoreTask for LoadedTask {
    fn prepare(&mut self) -> Result<(), CoreError> {
        let Progress::Created = self.take() else {
            return Err(CoreError::OutOfOrder { stage: "prepare", missing: "nothing: it has run" });
        };
        self.key.check_variables()?;
        let key = self.loaded_key()?;
        let witness = RSlice::from_slice(scalars(&self.witness.values));
        // SAFETY: the handle is live: `key` owns it.
        let outcome = unsafe { self.opened.module.new_task()(key.handle, witness) };
        self.progress = Progress::Prepared(Running { handle: self.outcome(outcome)?, key });
        Ok(())
    }

    fn stage(&mut self) -> Result<(), CoreError> {
        let Progress::Prepared(running) = self.take() else {
            return Err(CoreError::OutOfOrder { stage: "stage", missing: "prepare" });
        };
        // SAFETY: the handle is live, and this task is in this thread.
        self.outcome(unsafe { self.opened.module.stage()(running.handle) })?;
        self.progress = Progress::Staged(running);
        Ok(())
    }

    fn compute(&mut self) -> Result<(), CoreError> {
        let (Progress::Prepared(running) | Progress::Staged(running)) = self.take() else {
            return Err(CoreError::OutOfOrder { stage: "compute", missing: "prepare" });
        };
        // SAFETY: as in `stage`.
        self.outcome(unsafe { self.opened.module.compute()(running.handle) })?;
        self.progress = Progress::Computed(running);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Proof<Bls12>, CoreError> {
        let Progress::Computed(running) = &self.progress else {
            return Err(CoreError::OutOfOrder { stage: "finish", missing: "compute" });
        };
        // SAFETY: as in `stage`.
        let record = self.outcome(unsafe { self.opened.module.finish()(running.handle) })?;
        let Some(sums) = read_sums(&record) else {
            let message = "the device's result is not on the curve".to_owned();
            return Err(CoreError::Device { core: self.name, device: self.device, message });
        };
        Ok(sums.assemble(&self.key.srs, &self.blinding))
    }
}
