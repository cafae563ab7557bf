//! A core's library whose root module is not the one the engine knows, for tests: what one that was built from
//! other sources looks like.

use abi_stable::StableAbi;
use abi_stable::export_root_module;
use abi_stable::library::RootModule;
use abi_stable::prefix_type::PrefixTypeTrait;
use abi_stable::sabi_types::VersionStrings;
use abi_stable::std_types::RVec;

/// The foreign root module.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = CoreModuleRef)))]
#[sabi(missing_field(panic))]
pub struct CoreModule {
    /// Not what the engine expects first.
    #[sabi(last_prefix_field)]
    pub open: extern "C" fn() -> RVec<u8>,
}

impl RootModule for CoreModuleRef {
    abi_stable::declare_root_module_statics! {CoreModuleRef}
    const BASE_NAME: &'static str = "interlock_core";
    const NAME: &'static str = "interlock_core";
    // That of the boundary, so that the layout is what is found wrong.
    const VERSION_STRINGS: VersionStrings = VersionStrings::new("0.1.0");
}

extern "C" fn open() -> RVec<u8> {
    RVec::new()
}

/// The library's root module.
#[export_root_module]
fn module() -> CoreModuleRef {
    CoreModule { open }.leak_into_prefix()
}
