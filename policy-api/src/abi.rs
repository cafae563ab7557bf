//! The boundary itself: the root module and the table of functions.
//!
//! Nothing here is for policy authors; [`export_policy!`](crate::export_policy) fills it in and the host reads it.
//!
//! # How records may grow
//!
//! Records cross as untyped pointers, so that appending a field does not change a layout that
//! abi_stable checks. A host loads a library only when the major versions match and the library's minor
//! version is not above its own: the host's records are then at least as long as the library's, and
//! the library reads or writes the prefix it knows. Arrays carry their stride ([`Strided`](crate::Strided)).

use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::package_version_strings;
use abi_stable::sabi_types::VersionStrings;
use abi_stable::std_types::{RResult, RStr, RString, RVec, Tuple2};

/// Major version of the ABI. A host loads libraries of its own major version only.
pub const ABI_MAJOR: u32 = 1;
/// Minor version of the ABI: grows with each appended field, function, flag or stage.
pub const ABI_MINOR: u32 = 0;

/// What a function of the table returned.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct Status(pub u32);

impl Status {
    /// The call ended well.
    pub const OK: Status = Status(0);
    /// The policy panicked; what it wrote is worth nothing.
    pub const PANICKED: Status = Status(1);
}

/// An instance of a policy, as the host holds it: a pointer it never looks behind.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct Instance(pub *mut ());

// SAFETY: `Policy: Send`, and the host calls an instance from one thread at a time.
unsafe impl Send for Instance {}

/// The hot path. All functions are called from one thread at a time per instance.
///
/// # Safety
/// Every pointer must be valid for the call and point to the record its name says, of this or a later
/// minor version; `Instance` must come from [`PolicyModule::create`] of the same library and must
/// not have been destroyed.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PolicyTableRef)))]
#[sabi(missing_field(panic))]
pub struct PolicyTable {
    /// `(instance, &Request, &View, &mut Verdict)`.
    pub decide: unsafe extern "C" fn(Instance, *const (), *const (), *mut ()) -> Status,
    /// `(instance, &Request, &View, &mut i64)`.
    pub rank: unsafe extern "C" fn(Instance, *const (), *const (), &mut i64) -> Status,
    /// `(instance, &Request, &Strided<DeviceView>, &mut device)`.
    pub place: unsafe extern "C" fn(Instance, *const (), *const (), &mut u32) -> Status,
    /// `(instance, &Observation)`.
    pub observe: unsafe extern "C" fn(Instance, *const ()) -> Status,
    /// The policy's counters.
    pub stats: unsafe extern "C" fn(Instance, &mut RVec<Tuple2<RString, u64>>) -> Status,
    /// Ends an instance.
    #[sabi(last_prefix_field)]
    pub destroy: unsafe extern "C" fn(Instance) -> Status,
}

/// The root module of a policy library.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PolicyModuleRef)))]
#[sabi(missing_field(panic))]
pub struct PolicyModule {
    /// The manifest: the same bytes as in the ELF section.
    pub manifest: extern "C" fn() -> RStr<'static>,
    /// Makes an instance from options written as RON. The error is a sentence for people.
    pub create: extern "C" fn(options: RStr<'_>) -> RResult<Instance, RString>,
    /// The hot path.
    #[sabi(last_prefix_field)]
    pub table: PolicyTableRef,
}

impl RootModule for PolicyModuleRef {
    abi_stable::declare_root_module_statics! {PolicyModuleRef}
    const BASE_NAME: &'static str = "interlock_policy";
    const NAME: &'static str = "interlock_policy";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// abi_stable compares the package's version by semver's rules, the host compares the ABI's: were they
    /// two numbers, a release of the package could shut out libraries whose ABI is unchanged.
    #[test]
    fn the_package_has_the_version_of_the_abi() {
        assert_eq!(env!("CARGO_PKG_VERSION_MAJOR"), ABI_MAJOR.to_string());
        assert_eq!(env!("CARGO_PKG_VERSION_MINOR"), ABI_MINOR.to_string());
    }
}
