//! A policy that can be seated: loaded from a file, or linked into the program.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use abi_stable::library::AbiHeaderRef;
use abi_stable::std_types::RResult;
use interlock_policy_api::ManifestDoc;
use interlock_policy_api::abi::PolicyModuleRef;

use libloading::os::unix::Library;

use super::isolation::{Image, IsolatedPolicy, Isolation, ProcessSettings};
use super::load::Facts;
use super::printable;
use super::{
    Config, FALLBACK, LoadError, LoadFault, LoadedPolicy, ManifestError, OptionsText, Sha256, Verified,
    inspect, manifest, resident,
};
use crate::interlock::{LockTable, PolicySource, SeatedPolicy};

/// A policy with its options, ready to make instances: one for each device.
#[derive(Clone)]
pub struct PolicyLibrary {
    facts: Arc<Facts>,
    code: Code,
    origin: Origin,
}

/// What a policy's instances are made from.
#[derive(Clone)]
enum Code {
    /// Code in this process.
    Here(PolicyModuleRef),
    /// A library that is loaded only in the instances' own processes.
    Apart(Image),
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
            Some(policy) => {
                let verified = Verified::configured(config, policy)?;
                match ProcessSettings::configured(config, policy.isolation) {
                    Ok(None) => Self::open(verified),
                    Ok(Some(settings)) => Self::isolate(verified, settings),
                    Err(fault) => Err(LoadError { file: verified.file, fault }),
                }
            }
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
        let module = resident::load(&verified).and_then(|resident| {
            let manifest = inspect::section_of(&verified.bytes)?;
            module_of(&resident.library, &verified.facts.manifest.entry, manifest)
        });
        let module = module.map_err(|fault| LoadError { file: verified.file.clone(), fault })?;
        let origin = Origin::File { path: verified.file, sha256: verified.sha256 };
        Ok(Self { facts: Arc::new(verified.facts), code: Code::Here(module), origin })
    }

    /// Takes a library that passed the checks, to be loaded in processes of its own, one for each instance. Nothing of it
    /// runs here, nor before [`PolicyLibrary::instantiate`].
    ///
    /// # Errors
    /// [`LoadFault::NoCopy`].
    pub fn isolate(verified: Verified, settings: ProcessSettings) -> Result<PolicyLibrary, LoadError> {
        let image = resident::sealed_copy(&verified.file, &verified.bytes)
            .map_err(LoadFault::NoCopy)
            .and_then(|library| {
                let manifest = std::str::from_utf8(inspect::section_of(&verified.bytes)?)
                    .map_err(|error| ManifestError::Malformed(error.to_string()))?;
                Ok(Image { library: Arc::new(library), manifest: manifest.into(), settings })
            });
        let image = image.map_err(|fault| LoadError { file: verified.file.clone(), fault })?;
        let origin = Origin::File { path: verified.file, sha256: verified.sha256 };
        Ok(Self { facts: Arc::new(verified.facts), code: Code::Apart(image), origin })
    }

    /// Loads the library at `path`, which was checked elsewhere, and whose section holds `manifest`: what a policy's own process
    /// does.
    pub(super) fn from_image(
        path: &Path,
        manifest: &[u8],
        options: &OptionsText,
    ) -> Result<PolicyLibrary, LoadFault> {
        let facts = Facts::check(manifest::read(manifest)?, None, options)?;
        // SAFETY: runs the library's constructors. This process is there for nothing else.
        let library = unsafe { resident::link(path) }?;
        let module = module_of(&library, &facts.manifest.entry, manifest)?;
        // Never unloaded: the process ends first.
        std::mem::forget(library);
        Ok(Self { facts: Arc::new(facts), code: Code::Here(module), origin: Origin::Linked })
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
        Ok(Self { facts: Arc::new(facts), code: Code::Here(module), origin: Origin::Linked })
    }

    /// The linked `serialized-fallback`: what the engine stands on when everything else fails.
    pub fn fallback() -> PolicyLibrary {
        let module = interlock_serialized_fallback::interlock_policy();
        Self::linked(module, &OptionsText::default()).expect("the linked fallback is good")
    }

    /// Makes an instance, for one device. With isolation this starts its process.
    ///
    /// # Errors
    /// [`LoadFault::Create`]: the policy refuses its options or panics. With isolation also what [`PolicyLibrary::open`]
    /// would have found, and [`LoadFault::NoProcess`] to [`LoadFault::EndedAtStart`].
    pub fn instantiate(&self) -> Result<LoadedPolicy, LoadError> {
        let made = match &self.code {
            Code::Here(module) => self.make(*module),
            Code::Apart(image) => IsolatedPolicy::start(image, self.name(), &self.facts.options)
                .map(|policy| LoadedPolicy::apart(policy, self)),
        };
        made.map_err(|fault| LoadError { file: self.file().to_owned(), fault })
    }

    fn make(&self, module: PolicyModuleRef) -> Result<LoadedPolicy, LoadFault> {
        match module.create()(self.facts.options.as_str().into()) {
            RResult::ROk(instance) if !instance.0.is_null() => {
                // SAFETY: `create` of the same module has just made the instance, and nobody else has it.
                Ok(unsafe { LoadedPolicy::here(instance, module.table(), self) })
            }
            RResult::ROk(_) => Err(LoadFault::Create { reason: "it made a null instance".to_owned() }),
            RResult::RErr(reason) => Err(LoadFault::Create { reason: printable(&reason) }),
        }
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

    /// Where its instances run.
    pub fn isolation(&self) -> Isolation {
        match &self.code {
            Code::Here(_) => Isolation::InProcess,
            Code::Apart(image) => image.settings.isolation(),
        }
    }

    /// Whether both make the same instances: the same code, options and place to run.
    pub fn is_same(&self, other: &PolicyLibrary) -> bool {
        self.name() == other.name()
            && self.origin == other.origin
            && self.isolation() == other.isolation()
            && self.facts.options.as_str() == other.facts.options.as_str()
    }

    /// The same policy with other options.
    ///
    /// # Errors
    /// The first option that the policy does not have or that is of another type, or a lock table that cannot be with them.
    pub fn with_options(&self, options: &OptionsText) -> Result<PolicyLibrary, LoadError> {
        let facts = Facts::check(self.facts.manifest.clone(), None, options)
            .map_err(|fault| LoadError { file: self.file().to_owned(), fault })?;
        Ok(Self { facts: Arc::new(facts), code: self.code.clone(), origin: self.origin.clone() })
    }

    /// The options that were given, each as it is written in RON.
    pub fn configured_options(&self) -> BTreeMap<String, String> {
        let values = self.facts.options.check(&self.facts.manifest.options).unwrap_or_default();
        values.iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect()
    }

    fn file(&self) -> &Path {
        match &self.origin {
            Origin::Linked => Path::new("(linked)"),
            Origin::File { path, .. } => path,
        }
    }
}

impl PolicySource for PolicyLibrary {
    fn name(&self) -> &str {
        PolicyLibrary::name(self)
    }

    fn locks(&self) -> &LockTable {
        PolicyLibrary::locks(self)
    }

    fn seat(&self) -> Result<Box<dyn SeatedPolicy>, String> {
        match self.instantiate() {
            Ok(policy) => Ok(Box::new(policy)),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl std::fmt::Debug for PolicyLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyLibrary")
            .field("name", &self.name())
            .field("origin", &self.origin)
            .field("isolation", &self.isolation())
            .finish_non_exhaustive()
    }
}

/// The root module of a loaded library, after abi_stable's checks.
///
/// `RootModule::load_from_*` is not used: it keeps one module for each type and process, so that a second library would
/// get the first one's.
fn module_of(library: &Library, entry: &str, manifest: &[u8]) -> Result<PolicyModuleRef, LoadFault> {
    // SAFETY: the symbol is a header of abi_stable's in every library with a manifest section that
    // `export_policy!` made. `AbiHeaderRef` is a pointer to the magic string that `upgrade` compares first.
    let header = unsafe { library.get::<AbiHeaderRef>(entry) }
        .map_err(|_| LoadFault::NoEntry { symbol: entry.to_owned() })?;
    let incompatible = |error: abi_stable::library::LibraryError| LoadFault::Incompatible(error.to_string());
    let header = header.upgrade().map_err(incompatible)?;
    let module = header.init_root_module::<PolicyModuleRef>().map_err(incompatible)?;
    if module.manifest()().as_str().as_bytes() != manifest {
        return Err(LoadFault::ManifestDiffers);
    }
    Ok(module)
}
