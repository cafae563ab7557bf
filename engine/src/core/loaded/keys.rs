//! Keys that a core has made ready.

use std::sync::Arc;

use abi_stable::std_types::RResult;
use interlock_core_api::{Fault, FaultKind, KeyHandle};
use parking_lot::Mutex;

use super::Opened;
use super::view::view;
use crate::core::{Plan, ProvingKey};

/// Owns a key that is ready on a device. What the library was shown of it stays where it is for as long.
pub(super) struct LoadedKey {
    pub core: Arc<Opened>,
    device: usize,
    pub handle: KeyHandle,
    key: Arc<ProvingKey>,
    /// Found once: it takes a look at every row.
    plan: Plan,
}

impl Drop for LoadedKey {
    fn drop(&mut self) {
        // SAFETY: as for `Opened`; tasks hold an `Arc` of this.
        unsafe { self.core.module.drop_key()(self.handle) };
    }
}

/// The keys that are ready, the least recently used one first.
#[derive(Default)]
pub(super) struct Keys {
    list: Mutex<Vec<Arc<LoadedKey>>>,
    /// Held while one is loaded: whoever needs the same one waits for it rather than loads it again, and whoever needs
    /// one that is ready does not wait.
    loading: Mutex<()>,
}

impl Keys {
    /// The key on a device; loads it if need be. Unused keys make room when there is too little of it.
    pub fn ready(
        &self,
        core: &Arc<Opened>,
        device: usize,
        key: &Arc<ProvingKey>,
    ) -> Result<Arc<LoadedKey>, Fault> {
        if let Some(ready) = self.find(device, key) {
            return Ok(ready);
        }
        let _loading = self.loading.lock();
        if let Some(ready) = self.find(device, key) {
            return Ok(ready);
        }
        self.drop_forgotten();
        loop {
            // SAFETY: the handle is from this module and live; `LoadedKey` keeps what the view shows in place until
            // the library has dropped the key.
            let outcome = unsafe { core.module.load_key()(core.handle, device as u32, &view(key)) };
            match outcome {
                RResult::ROk(handle) => {
                    let loaded = Arc::new(LoadedKey {
                        plan: core.plan(key),
                        core: core.clone(),
                        device,
                        handle,
                        key: key.clone(),
                    });
                    self.list.lock().push(loaded.clone());
                    return Ok(loaded);
                }
                RResult::RErr(fault) if fault.kind == FaultKind::OUT_OF_MEMORY => {
                    if !self.drop_unused(device) {
                        return Err(fault);
                    }
                }
                RResult::RErr(fault) => return Err(fault),
            }
        }
    }

    /// What a task for a key needs, if the key is ready somewhere.
    pub fn plan(&self, key: &ProvingKey) -> Option<Plan> {
        let list = self.list.lock();
        list.iter().find(|ready| std::ptr::eq(&*ready.key, key)).map(|ready| ready.plan)
    }

    fn find(&self, device: usize, key: &Arc<ProvingKey>) -> Option<Arc<LoadedKey>> {
        let mut list = self.list.lock();
        let found = list.iter().position(|ready| ready.device == device && Arc::ptr_eq(&ready.key, key))?;
        let ready = list.remove(found);
        list.push(ready.clone());
        Some(ready)
    }

    /// Drops the keys that nobody else knows of: they can serve nobody.
    fn drop_forgotten(&self) {
        let mut list = self.list.lock();
        let known = |ready: &Arc<LoadedKey>| {
            let here = list.iter().filter(|other| Arc::ptr_eq(&other.key, &ready.key)).count();
            Arc::strong_count(ready) > 1 || Arc::strong_count(&ready.key) > here
        };
        let kept = list.iter().filter(|ready| known(ready)).cloned().collect();
        let dropped = std::mem::replace(&mut *list, kept);
        // Freeing takes its time: not under the lock.
        drop(list);
        drop(dropped);
    }

    /// Drops the least recently used key of a device that no task holds; false when there is none.
    fn drop_unused(&self, device: usize) -> bool {
        let mut list = self.list.lock();
        let unused = list.iter().position(|ready| ready.device == device && Arc::strong_count(ready) == 1);
        let dropped = unused.map(|index| list.remove(index));
        drop(list);
        dropped.is_some()
    }
}
