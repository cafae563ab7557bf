//! A library whose section holds another manifest than its code returns, for tests.

use interlock_policy_api::__private::{
    CheckTypeLayout, Exported, LibHeader, RStr, RootModuleResult, call_root_module_loader, leak,
};
use interlock_policy_api::abi::PolicyModuleRef;
use interlock_policy_api::manifest::{encode, encoded_len};
use interlock_policy_api::{Manifest, NoOptions, Policy};

/// The policy: all defaults.
#[derive(Debug)]
pub struct TwoFaced;

impl Policy for TwoFaced {
    type Options = NoOptions;

    const MANIFEST: Manifest = Manifest::new("two-faced", "0.1.0", "what the code says");

    fn new(_options: NoOptions) -> Result<Self, String> {
        Ok(Self)
    }
}

const ENTRY: &str = "interlock_policy__two_faced";
const IN_THE_FILE: Manifest = Manifest { description: "what the file says", ..TwoFaced::MANIFEST };

#[used]
#[unsafe(link_section = ".interlock.manifest")]
static SECTION: [u8; encoded_len(&IN_THE_FILE, ENTRY)] = encode(&IN_THE_FILE, ENTRY);

static IN_THE_CODE: [u8; encoded_len(&TwoFaced::MANIFEST, ENTRY)] = encode(&TwoFaced::MANIFEST, ENTRY);

extern "C" fn manifest() -> RStr<'static> {
    std::str::from_utf8(&IN_THE_CODE).expect("the encoder copies whole strings").into()
}

fn module() -> PolicyModuleRef {
    leak(Exported::<TwoFaced>::module(manifest))
}

extern "C" fn constructor() -> RootModuleResult {
    call_root_module_loader(module)
}

/// The entry that the manifest names.
#[unsafe(export_name = "interlock_policy__two_faced")]
// SAFETY: the constructor's module comes from `module`, whose type is named here.
pub static HEADER: LibHeader =
    unsafe { LibHeader::from_constructor::<PolicyModuleRef>(constructor, CheckTypeLayout::Yes) };
