//! The exported functions. Nothing happens here but the crossing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use abi_stable::export_root_module;
use abi_stable::prefix_type::PrefixTypeTrait;
use abi_stable::std_types::{RResult, RSlice, RString, RVec};
use interlock_core_api::{
    CoreHandle, CoreModule, CoreModuleRef, DeviceRecord, Fault as FaultRecord, FaultKind, KeyHandle, KeyView,
    OpenOptions, Outcome, PlanRecord, Residency, ScalarLimbs, StepRecord, SumsRecord, TaskHandle,
    UsageRecord,
};

use crate::fault::Fault;
use crate::gpu::Gpu;
use crate::key::{Key, Registry, Room, shape_of, validate};
use crate::notices::Notices;
use crate::plan::Shape;
use crate::task::Task;

/// The opened devices.
struct Core {
    gpus: Vec<Arc<Gpu>>,
    residency: Residency,
    registry: Arc<Registry>,
    notices: Arc<Notices>,
}

impl Core {
    fn gpu(&self, device: u32) -> Result<&Arc<Gpu>, Fault> {
        let missing = || Fault::Input(format!("device number {device} of {}", self.gpus.len()));
        self.gpus.get(device as usize).ok_or_else(missing)
    }

    /// The sizes of a key: one answer for all devices. The largest has the most runs, and so the largest workspace;
    /// the smallest must hold the key.
    fn shape(&self, key: &KeyView<'_>) -> Result<Shape, Fault> {
        let least = |bytes: fn(&Gpu) -> u64| self.gpus.iter().map(|gpu| bytes(gpu)).min().unwrap_or(0);
        let room = Room {
            keys: least(|gpu| gpu.keys_capacity),
            tasks: least(Gpu::capacity),
            multiprocessors: self.gpus.iter().map(|gpu| gpu.multiprocessors).max().unwrap_or(0),
        };
        shape_of(key, self.residency, room)
    }
}

/// Runs `call`; a panic becomes a fault, because it must never cross the boundary.
fn caught<T>(call: impl FnOnce() -> Result<T, Fault>) -> Outcome<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => RResult::ROk(value),
        Ok(Err(fault)) => RResult::RErr(fault.into()),
        Err(payload) => {
            let message = payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            // A payload may panic when it is dropped: leak it.
            std::mem::forget(payload);
            let message = format!("the core panicked: {message}").into();
            RResult::RErr(FaultRecord { kind: FaultKind::PANIC, bytes: 0, message })
        }
    }
}

/// As [`caught`], for what cannot fail.
fn caught_or<T>(fallback: T, call: impl FnOnce() -> T) -> T {
    match caught(|| Ok(call())) {
        RResult::ROk(value) => value,
        RResult::RErr(_) => fallback,
    }
}

extern "C" fn open(options: &OpenOptions) -> Outcome<CoreHandle> {
    caught(|| {
        let notices = Arc::new(Notices::default());
        let gpu = |&ordinal: &u32| {
            Gpu::open(ordinal, options, notices.clone()).map(Arc::new).map_err(|fault| match fault {
                // That is no one device's fault.
                Fault::NoDevice(_) => fault,
                fault => Fault::Opening { ordinal, fault: Box::new(fault) },
            })
        };
        let gpus = options.devices.iter().map(gpu).collect::<Result<Vec<_>, _>>()?;
        if gpus.is_empty() {
            return Err(Fault::Input("no device is asked for: `devices` is empty".to_owned()));
        }
        let core = Core { gpus, residency: options.residency, registry: Arc::default(), notices };
        Ok(CoreHandle(Box::into_raw(Box::new(core)).cast()))
    })
}

unsafe extern "C" fn drop_core(core: CoreHandle) {
    // SAFETY: the pointer came out of `Box::into_raw` in `open`, and the host drops once.
    caught_or((), || drop(unsafe { Box::from_raw(core.0.cast::<Core>()) }));
}

unsafe extern "C" fn devices(core: CoreHandle) -> RVec<DeviceRecord> {
    caught_or(RVec::new(), || {
        // SAFETY: the host keeps the contract of `CoreModule`.
        let core = unsafe { &*core.0.cast::<Core>() };
        let record = |gpu: &Arc<Gpu>| DeviceRecord {
            name: gpu.name.as_str().into(),
            capacity_bytes: gpu.capacity(),
            uuid: gpu.uuid.as_str().into(),
        };
        core.gpus.iter().map(record).collect()
    })
}

unsafe extern "C" fn plan(core: CoreHandle, key: &KeyView<'_>) -> Outcome<PlanRecord> {
    caught(|| {
        // SAFETY: the host keeps the contract of `CoreModule`.
        let core = unsafe { &*core.0.cast::<Core>() };
        let shape = core.shape(key)?;
        Ok(PlanRecord {
            staged_bytes: shape.staged_bytes(),
            compute_extra: shape.compute_bytes(),
            host_bytes: shape.host_bytes(),
        })
    })
}

unsafe extern "C" fn load_key(core: CoreHandle, device: u32, key: &KeyView<'_>) -> Outcome<KeyHandle> {
    caught(|| {
        // SAFETY: the host keeps the contract of `CoreModule`.
        let core = unsafe { &*core.0.cast::<Core>() };
        let gpu = core.gpu(device)?.clone();
        validate(key)?;
        let shape = core.shape(key)?;
        // SAFETY: the host keeps what the view shows in place until it has dropped the key.
        let key = Arc::new(unsafe { Key::load(gpu, &core.registry, key, shape)? });
        Ok(KeyHandle(Box::into_raw(Box::new(key)).cast()))
    })
}

unsafe extern "C" fn drop_key(key: KeyHandle) {
    // SAFETY: the pointer came out of `Box::into_raw` in `load_key`, and the host drops once.
    caught_or((), || drop(unsafe { Box::from_raw(key.0.cast::<Arc<Key>>()) }));
}

unsafe extern "C" fn new_task(key: KeyHandle, witness: RSlice<'_, ScalarLimbs>) -> Outcome<TaskHandle> {
    caught(|| {
        // SAFETY: the host keeps the contract of `CoreModule`.
        let key = unsafe { &*key.0.cast::<Arc<Key>>() };
        let task = Task::new(key.clone(), witness.as_slice())?;
        Ok(TaskHandle(Box::into_raw(Box::new(task)).cast()))
    })
}

/// # Safety
/// The handle is live, and no other call of its task runs.
unsafe fn task_of<'a>(task: TaskHandle) -> &'a mut Task {
    // SAFETY: the caller's; the pointer came out of `Box::into_raw` in `new_task`.
    unsafe { &mut *task.0.cast::<Task>() }
}

unsafe extern "C" fn stage(task: TaskHandle) -> Outcome<()> {
    // SAFETY: the host keeps the contract of `CoreModule`.
    caught(|| unsafe { task_of(task) }.stage())
}

unsafe extern "C" fn compute(task: TaskHandle) -> Outcome<()> {
    // SAFETY: the host keeps the contract of `CoreModule`.
    caught(|| unsafe { task_of(task) }.compute())
}

unsafe extern "C" fn finish(task: TaskHandle) -> Outcome<SumsRecord> {
    // SAFETY: the host keeps the contract of `CoreModule`.
    caught(|| unsafe { task_of(task) }.finish())
}

unsafe extern "C" fn steps(task: TaskHandle) -> RVec<StepRecord> {
    // SAFETY: the host keeps the contract of `CoreModule`.
    caught_or(RVec::new(), || unsafe { task_of(task) }.steps().to_vec().into())
}

unsafe extern "C" fn drop_task(task: TaskHandle) {
    // SAFETY: the pointer came out of `Box::into_raw` in `new_task`, and the host drops once.
    caught_or((), || drop(unsafe { Box::from_raw(task.0.cast::<Task>()) }));
}

unsafe extern "C" fn usage(core: CoreHandle, device: u32) -> UsageRecord {
    caught_or(UsageRecord::default(), || {
        // SAFETY: the host keeps the contract of `CoreModule`.
        let core = unsafe { &*core.0.cast::<Core>() };
        let (held_bytes, peak_bytes) = core.gpu(device).map_or((0, 0), |gpu| gpu.usage());
        UsageRecord { held_bytes, peak_bytes }
    })
}

unsafe extern "C" fn notices(core: CoreHandle) -> RVec<RString> {
    // SAFETY: the host keeps the contract of `CoreModule`.
    caught_or(RVec::new(), || unsafe { &*core.0.cast::<Core>() }.notices.take())
}

/// The library's root module.
#[export_root_module]
fn interlock_core() -> CoreModuleRef {
    CoreModule {
        open,
        drop_core,
        devices,
        plan,
        load_key,
        drop_key,
        new_task,
        stage,
        compute,
        finish,
        steps,
        drop_task,
        usage,
        notices,
    }
    .leak_into_prefix()
}
