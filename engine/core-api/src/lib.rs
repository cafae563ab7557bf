//! The boundary between the engine and a proving core that it loads from a dynamic library.
//!
//! A core library exports one [`CoreModule`]: a few `extern "C"` functions over plain records and slices.
//! The engine opens the library, makes a core, uploads keys and drives tasks stage by stage. Blinding
//! factors never cross the boundary: a task ends with the five sums of points of a Groth16 proof
//! ([`SumsRecord`]), and the engine makes the proof of them.
//!
//! # Numbers
//! | type | bytes | form |
//! |---|---|---|
//! | [`ScalarLimbs`] | 32 | an element of the scalar field, Montgomery form with R = 2^256, little-endian limbs |
//! | [`G1Limbs`] | 96 | x, y: base field elements in Montgomery form with R = 2^384; infinity is all zero |
//! | [`G2Limbs`] | 192 | x, y over the quadratic extension, c0 before c1; infinity is all zero |
//!
//! These are the forms of `blst_fr`, `blst_p1_affine` and `blst_p2_affine`.
//!
//! # Rules
//! - No function lets a panic out: it becomes a [`Fault`] of kind [`FaultKind::PANIC`].
//! - Layouts are checked by abi_stable when the library is opened; there is no other version number.
//! - A core may be called from any thread, a task from one thread at a time.

#![deny(missing_docs)]

use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::package_version_strings;
use abi_stable::sabi_types::VersionStrings;
use abi_stable::std_types::{RResult, RSlice, RString, RVec};

/// An element of the scalar field.
pub type ScalarLimbs = [u64; 4];
/// A point of G1 in affine coordinates.
pub type G1Limbs = [u64; 12];
/// A point of G2 in affine coordinates.
pub type G2Limbs = [u64; 24];

/// The name of the exported symbol that holds the library's header.
pub const ENTRY: &str = "interlock_core";

/// What a [`Fault`] is about.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct FaultKind(pub u32);

impl FaultKind {
    /// Memory of a device or of the host could not be had; [`Fault::bytes`] says how much.
    pub const OUT_OF_MEMORY: FaultKind = FaultKind(1);
    /// A device, or the driver, reported an error.
    pub const DEVICE: FaultKind = FaultKind(2);
    /// Something that was passed in makes no sense: a fault of the caller.
    pub const INPUT: FaultKind = FaultKind(3);
    /// A stage was called out of order: a fault of the caller.
    pub const ORDER: FaultKind = FaultKind(4);
    /// The core panicked; the task is only good for dropping.
    pub const PANIC: FaultKind = FaultKind(5);
    /// A device has been lost: no later call for it in this process can succeed.
    pub const DEVICE_LOST: FaultKind = FaultKind(6);
    /// There is no device at all: see [`CoreModule::open`].
    pub const NO_DEVICE: FaultKind = FaultKind(7);
}

/// Why a call failed.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, StableAbi)]
pub struct Fault {
    /// What it is about.
    pub kind: FaultKind,
    /// Bytes that could not be had; 0 for other kinds.
    pub bytes: u64,
    /// A sentence for people.
    pub message: RString,
}

/// How to open a core.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct OpenOptions {
    /// Ordinals of the devices to use, in the order in which the engine numbers them.
    pub devices: RVec<u32>,
    /// The most device bytes that the core may hold on each device, keys and tasks together. 0: what is free.
    pub vram_limit: u64,
    /// How many of these bytes are for keys; tasks get the rest. 0: the core chooses.
    pub key_memory: u64,
    /// Where the points and matrices of keys are.
    pub residency: Residency,
    /// Tasks that are expected to be under way on a device at once; host memory for their copies is made ready
    /// with the first key.
    pub tasks_at_once: u32,
    /// Whether tasks measure the device time of their steps.
    pub measure_steps: bool,
}

impl Default for OpenOptions {
    /// The first device, all that is free on it, a quarter of that for keys, two tasks at once.
    fn default() -> Self {
        Self {
            devices: RVec::from(vec![0]),
            vram_limit: 0,
            key_memory: 0,
            residency: Residency::AUTO,
            tasks_at_once: 2,
            measure_steps: false,
        }
    }
}

/// Where the points and matrices of a key are while tasks use them.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct Residency(pub u32);

impl Residency {
    /// On the device if [`OpenOptions::key_memory`] is enough for the key, else streamed.
    pub const AUTO: Residency = Residency(0);
    /// On the device; a key that does not fit is refused.
    pub const RESIDENT: Residency = Residency(1);
    /// In host memory; each task streams them through a small buffer of its own.
    pub const STREAMED: Residency = Residency(2);
}

/// One device of a core.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct DeviceRecord {
    /// What people call it.
    pub name: RString,
    /// Bytes that tasks may hold at once.
    pub capacity_bytes: u64,
    /// By which its driver's other libraries know it, such as `GPU-` and 32 hexadecimal digits in groups; empty where it has
    /// none.
    pub uuid: RString,
}

/// A sparse matrix in compressed sparse row form.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct CsrView<'a> {
    /// Where each row starts in `columns`; one more entry than there are rows.
    pub row_starts: RSlice<'a, u32>,
    /// Variable of each entry.
    pub columns: RSlice<'a, u32>,
    /// Index of each entry's coefficient in [`KeyView::coefficients`].
    pub coefficients: RSlice<'a, u32>,
}

/// Which scalars the `h` points of a key expect.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct BasisCode(pub u32);

impl BasisCode {
    /// The coefficients of `h(X) = (a(X) b(X) - c(X)) / (X^n - 1)`, the last one left out.
    pub const MONOMIAL: BasisCode = BasisCode(0);
    /// `a b - c` at `shift * root^i`, with `c` the product `a b` on the domain.
    pub const ODD_COSET: BasisCode = BasisCode(1);
}

/// A circuit and its proving key, as the engine holds them.
///
/// Valid for the call it is passed to; what [`CoreModule::load_key`] was given stays valid, in place and
/// unchanged, until [`CoreModule::drop_key`] returns.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct KeyView<'a> {
    /// The matrices A, B, C of the constraints; the rows `input_i * 0 = 0` that follow are implied.
    pub a: CsrView<'a>,
    /// See `a`.
    pub b: CsrView<'a>,
    /// See `a`.
    pub c: CsrView<'a>,
    /// Distinct coefficients; entry 0 is one, entry 1 is minus one.
    pub coefficients: RSlice<'a, ScalarLimbs>,
    /// Public inputs, the constant one included.
    pub num_inputs: u64,
    /// All variables.
    pub num_variables: u64,
    /// Logarithm of the domain's size to base 2.
    pub log_domain: u32,
    /// What `h_points` mean.
    pub h_basis: BasisCode,
    /// The root of unity whose powers are the domain, in the order of the constraints.
    pub root: ScalarLimbs,
    /// The coset's shift: `shift * root^i` are not in the domain.
    pub shift: ScalarLimbs,
    /// Points for the quotient polynomial.
    pub h_points: RSlice<'a, G1Limbs>,
    /// Points for the private variables.
    pub l_points: RSlice<'a, G1Limbs>,
    /// Points of the `a` query.
    pub a_points: RSlice<'a, G1Limbs>,
    /// Variable of each point of the `a` query.
    pub a_variables: RSlice<'a, u32>,
    /// Points of the `b` query in G1.
    pub b_g1_points: RSlice<'a, G1Limbs>,
    /// Points of the `b` query in G2.
    pub b_g2_points: RSlice<'a, G2Limbs>,
    /// Variable of each point of the `b` query.
    pub b_variables: RSlice<'a, u32>,
}

/// What one task needs, in bytes: see the engine's `Plan`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct PlanRecord {
    /// Device bytes from the start of staging until the end of Compute.
    pub staged_bytes: u64,
    /// Device bytes that Compute needs on top.
    pub compute_extra: u64,
    /// Host bytes from Prepare to Finish, the witness included.
    pub host_bytes: u64,
}

/// The five sums of points of a proof, each `sum scalar_i * point_i` of one query.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct SumsRecord {
    /// Over the quotient's scalars.
    pub h: G1Limbs,
    /// Over the private variables.
    pub l: G1Limbs,
    /// Over the variables of the `a` query.
    pub a: G1Limbs,
    /// Over the variables of the `b` query, in G1.
    pub b_g1: G1Limbs,
    /// Over the variables of the `b` query, in G2.
    pub b_g2: G2Limbs,
}

/// When the device did a step of a task, where the core measures it.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct StepRecord {
    /// The step.
    pub name: RString,
    /// When it began, in milliseconds since the device was opened, by the device's clock.
    pub start_milliseconds: f32,
    /// Its time on the device.
    pub milliseconds: f32,
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
        pub struct $name(pub *mut ());

        // SAFETY: what is behind the pointer may be used from any thread; see the rules of the crate.
        unsafe impl Send for $name {}
    )*};
}

handles! {
    /// A core. Never null.
    CoreHandle;
    /// A key that a core has made ready on one device. Never null.
    KeyHandle;
    /// A task. Never null.
    TaskHandle;
}

// SAFETY: cores and keys may be used from several threads at once; see the rules of the crate.
unsafe impl Sync for CoreHandle {}
// SAFETY: as above.
unsafe impl Sync for KeyHandle {}

/// What a fallible call returns.
pub type Outcome<T> = RResult<T, Fault>;

/// The root module of a core library.
///
/// # Safety
/// Handles must come from the same module and must not have been dropped. A key must outlive its
/// tasks, and a core its keys.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = CoreModuleRef)))]
#[sabi(missing_field(panic))]
pub struct CoreModule {
    /// Opens the devices. [`FaultKind::NO_DEVICE`] when there is a driver but no device.
    pub open: extern "C" fn(&OpenOptions) -> Outcome<CoreHandle>,
    /// Ends a core.
    pub drop_core: unsafe extern "C" fn(CoreHandle),
    /// The devices, in the order of [`OpenOptions::devices`].
    pub devices: unsafe extern "C" fn(CoreHandle) -> RVec<DeviceRecord>,
    /// What a task for a key needs. Does not look at points, only at their number; the answer for a key never changes.
    pub plan: for<'a> unsafe extern "C" fn(CoreHandle, &KeyView<'a>) -> Outcome<PlanRecord>,
    /// Makes a key ready on a device: checks it, and uploads what is to be resident. Not on a task's path.
    pub load_key: for<'a> unsafe extern "C" fn(CoreHandle, u32, &KeyView<'a>) -> Outcome<KeyHandle>,
    /// Frees a key.
    pub drop_key: unsafe extern "C" fn(KeyHandle),
    /// A task for a full assignment. Copies the assignment to where it can be uploaded from.
    pub new_task: for<'a> unsafe extern "C" fn(KeyHandle, RSlice<'a, ScalarLimbs>) -> Outcome<TaskHandle>,
    /// Reserves the staged bytes and starts the upload; returns when it is done.
    pub stage: unsafe extern "C" fn(TaskHandle) -> Outcome<()>,
    /// Reserves the rest and runs the kernels; returns when they are done. Stages first if need be.
    pub compute: unsafe extern "C" fn(TaskHandle) -> Outcome<()>,
    /// The sums. Call it once `compute` has returned.
    pub finish: unsafe extern "C" fn(TaskHandle) -> Outcome<SumsRecord>,
    /// Device time of each step of `compute`, when the core was told to measure it; empty otherwise.
    pub steps: unsafe extern "C" fn(TaskHandle) -> RVec<StepRecord>,
    /// Frees a task, at any point.
    pub drop_task: unsafe extern "C" fn(TaskHandle),
    /// Device bytes that tasks hold now, and the most they have held at once, on one device.
    pub usage: unsafe extern "C" fn(CoreHandle, u32) -> UsageRecord,
    /// What the operator should hear, each sentence once: taken out by the call.
    #[sabi(last_prefix_field)]
    pub notices: unsafe extern "C" fn(CoreHandle) -> RVec<RString>,
}

/// Device bytes that tasks hold, those of keys not among them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, StableAbi)]
pub struct UsageRecord {
    /// Now.
    pub held_bytes: u64,
    /// The most at once so far.
    pub peak_bytes: u64,
}

impl RootModule for CoreModuleRef {
    abi_stable::declare_root_module_statics! {CoreModuleRef}
    const BASE_NAME: &'static str = "interlock_core";
    const NAME: &'static str = "interlock_core";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}
