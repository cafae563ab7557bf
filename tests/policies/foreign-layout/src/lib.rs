//! A library with a good manifest whose root module is not the one the engine knows, for tests:
//! what a fork of the ABI that kept its version number would look like.

use abi_stable::StableAbi;
use abi_stable::library::{
    __call_root_module_loader as call_root_module_loader, CheckTypeLayout, LibHeader, RootModule,
    RootModuleResult,
};
use abi_stable::prefix_type::PrefixTypeTrait;
use abi_stable::sabi_types::VersionStrings;
use abi_stable::std_types::RVec;
use interlock_policy_api::Manifest;
use interlock_policy_api::manifest::{encode, encoded_len};

/// The foreign root module.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PolicyModuleRef)))]
#[sabi(missing_field(panic))]
pub struct PolicyModule {
    /// Not what the engine expects first.
    #[sabi(last_prefix_field)]
    pub names: extern "C" fn() -> RVec<u8>,
}

impl RootModule for PolicyModuleRef {
    abi_stable::declare_root_module_statics! {PolicyModuleRef}
    const BASE_NAME: &'static str = "interlock_policy";
    const NAME: &'static str = "interlock_policy";
    // That of the ABI, so that the layout is what is found wrong.
    const VERSION_STRINGS: VersionStrings = VersionStrings::new("1.0.0");
}

const ENTRY: &str = "interlock_policy__foreign_layout";
const MANIFEST: Manifest = Manifest::new("foreign-layout", "0.1.0", "another root module, for tests");

#[used]
#[unsafe(link_section = ".interlock.manifest")]
static SECTION: [u8; encoded_len(&MANIFEST, ENTRY)] = encode(&MANIFEST, ENTRY);

extern "C" fn names() -> RVec<u8> {
    RVec::new()
}

fn module() -> PolicyModuleRef {
    PolicyModule { names }.leak_into_prefix()
}

extern "C" fn constructor() -> RootModuleResult {
    call_root_module_loader(module)
}

/// The entry that the manifest names.
#[unsafe(export_name = "interlock_policy__foreign_layout")]
// SAFETY: the constructor's module comes from `module`, whose type is named here.
pub static HEADER: LibHeader =
    unsafe { LibHeader::from_constructor::<PolicyModuleRef>(constructor, CheckTypeLayout::Yes) };
