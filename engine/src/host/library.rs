//! A policy that can be seated: loaded from a file, or linked into the program.

use std::path::Path;
use std::sync::Arc;

use abi_stable::library::AbiHeaderRef;
use abi_stable::std_types::RResult;
use interlock_policy_api::ManifestDoc;
use interlock_policy_api::abi::PolicyModuleRef;

use super::load::Facts;
use super::resident::{self, Resident};
use super::{
    Config, FALLBACK, LoadError, LoadFault, LoadedPolicy, OptionsText, Sha256, Verified, inspect, manifest,
};
use crate::interlock::LockTable;

/// A policy with its options, ready to make instances: one for each device.
#[derive(Clone)]
pub struct PolicyLibrary {
    facts: Arc<Facts>,
    module: PolicyModuleRef,
    origin: Origin,
}

/// Where a policy's code came from.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// It is part of the program.
    Linked,
    /// It was loaded from this file.
    File {
        /// The file, without symbolic links.
        path: std::path::PathBuf,
        /// Its SHA-256.
        sha256: Sha256,
    },
}

impl PolicyLibrary {
    /// The policy that a configuration knows under `name`.
    ///
    /// # Errors
    /// There is none of that name, a check fails, or the loaded library is not what it said.
    pub fn configured(config: &Config, name: &str) -> Result<PolicyLibrary, LoadError> {
        match config.policy(name) {
            Some(policy) => Self::open(Verified::configured(config, policy)?),
            None if name == FALLBACK => Ok(Self::fallback()),
            None => {
                let fault = LoadFault::UnknownPolicy { name: name.to_owned(), known: config.names() };
                Err(LoadError { file: config.file.clone().unwrap_or_default(), fault })
            }
        }
    }

    /// Loads a library that passed the checks. Its code runs from here on.
    ///
    /// # Errors
    /// The dynamic linker, abi_stable or the comparison of manifests refuse it: [`LoadFault::NoCopy`] to
    /// [`LoadFault::ManifestDiffers`]. The library may then stay in the process, unused.
    pub fn open(verified: Verified) -> Result<PolicyLibrary, LoadError> {
        let module = resident::load(&verified).and_then(|resident| module_of(&resident, &verified));
        let module = module.map_err(|fault| LoadError { file: verified.file.clone(), fault })?;
        let origin = Origin::File { path: verified.file, sha256: verified.sha256 };
        Ok(Self { facts: Arc::new(verified.facts), module, origin })
    }

    /// A policy that is linked into the program; `module` is what its crate's `interlock_policy()` returns.
    ///
    /// # Errors
    /// The manifest, the lock table or the options are refused, as for a library.
    pub fn linked(module: PolicyModuleRef, options: &OptionsText) -> Result<PolicyLibrary, LoadError> {
        let json = module.manifest()().as_str().as_bytes();
        let facts = manifest::read(json)
            .map_err(LoadFault::from)
            .and_then(|manifest| Facts::check(manifest, None, options))
            .map_err(|fault| LoadError { file: Path::new("(linked)").to_owned(), fault })?;
        Ok(Self { facts: Arc::new(facts), module, origin: Origin::Linked })
    }

    /// The linked `serialized-fallback`: what the engine stands on when everything else fails.
    pub fn fallback() -> PolicyLibrary {
        let module = interlock_serialized_fallback::interlock_policy();
        Self::linked(module, &OptionsText::default()).expect("the linked fallback is good")
    }

    /// Makes an instance, for one device.
    ///
    /// # Errors
    /// [`LoadFault::Create`]: the policy refuses its options or panics.
    pub fn instantiate(&self) -> Result<LoadedPolicy, LoadError> {
        let made = self.module.create()(self.facts.options.as_str().into());
        let fault = match made {
            RResult::ROk(instance) if !instance.0.is_null() => {
                // SAFETY: `create` of the same module has just made the instance, and nobody else has it.
                return Ok(unsafe { LoadedPolicy::new(instance, self) });
            }
            RResult::ROk(_) => LoadFault::Create { reason: "it made a null instance".to_owned() },
            RResult::RErr(reason) => LoadFault::Create { reason: reason.into_string() },
        };
        Err(LoadError { file: self.file().to_owned(), fault })
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.facts.manifest.name
    }

    /// What the policy says about itself.
    pub fn manifest(&self) -> &ManifestDoc {
        &self.facts.manifest
    }

    /// The lock table, with permits as the options say.
    pub fn locks(&self) -> &LockTable {
        &self.facts.locks
    }

    /// Where the code came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(super) fn module(&self) -> PolicyModuleRef {
        self.module
    }

    fn file(&self) -> &Path {
        match &self.origin {
            Origin::Linked => Path::new("(linked)"),
            Origin::File { path, .. } => path,
        }
    }
}

impl std::fmt::Debug for PolicyLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyLibrary")
            .field("name", &self.name())
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// The root module of a loaded library, after abi_stable's checks.
///
/// `RootModule::load_from_*` is not used: it keeps one module for each type and process, so that a second library would
/// get the first one's.
fn module_of(resident: &Resident, verified: &Verified) -> Result<PolicyModuleRef, LoadFault> {
    let symbol = &verified.facts.manifest.entry;
    // SAFETY: the symbol is a header of abi_stable's in every library with a manifest section that
    // `export_policy!` made. `AbiHeaderRef` is a pointer to the magic string that `upgrade` compares first.
    let header = unsafe { resident.library.get::<AbiHeaderRef>(symbol) }
        .map_err(|_| LoadFault::NoEntry { symbol: symbol.clone() })?;
    let incompatible = |error: abi_stable::library::LibraryError| LoadFault::Incompatible(error.to_string());
    let header = header.upgrade().map_err(incompatible)?;
    let module = header.init_root_module::<PolicyModuleRef>().map_err(incompatible)?;
    if module.manifest()().as_str().as_bytes() != inspect::section_of(&verified.bytes)? {
        return Err(LoadFault::ManifestDiffers);
    }
    Ok(module)
}
