//! From a file to a library that may be loaded: every check that comes before `dlopen`.
//!
//! A library's constructors run inside `dlopen`, so that nothing that is decided afterwards protects
//! against a wrong file. The checks here work on bytes that were read once; the same bytes are hashed and, by
//! [`resident`](super::resident), loaded.

use std::path::{Path, PathBuf};

use interlock_policy_api::ManifestDoc;

use super::elf::ElfError;
use super::file::{FileError, LibraryFile};
use super::manifest::{self, ManifestError};
use super::signature::Signed;
use super::trust::{self, Demands, EvidenceError, TrustConfig};
use super::{Config, OptionsError, OptionsText, PolicyConfig, Sha256, inspect, library_places};
use crate::interlock::{LockTable, LockTableError, PolicyEnd};

/// Why a policy could not be had.
#[derive(Debug, thiserror::Error)]
#[error("{}{fault}", subject(.file, .fault))]
pub struct LoadError {
    /// The library; of a policy that is not configured, the configuration file, or nothing without one.
    pub file: PathBuf,
    /// What is wrong with it.
    pub fault: LoadFault,
}

/// What is wrong with a library.
///
/// The variants up to [`LoadFault::Options`] are found before anything of the library has run.
#[derive(Debug, thiserror::Error)]
pub enum LoadFault {
    /// There is no such policy.
    #[error("no policy is named \"{name}\"; there are {}", .known.join(", "))]
    UnknownPolicy {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// The file is in none of the places where it is looked for.
    #[error("not found; looked for {}", list(.places))]
    NotFound {
        /// The places.
        places: Vec<PathBuf>,
    },
    /// The file itself: unreadable, not regular, writable by others, in the wrong folder.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is no shared object for this machine, or damaged, or has no manifest.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// The manifest: malformed, another ABI, unknown capabilities.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The content is not what was pinned or signed, or neither was done.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The lock table.
    #[error(transparent)]
    Locks(#[from] LockTableError),
    /// The library holds another policy.
    #[error("holds the policy \"{found}\", not \"{wanted}\"; correct its name in plugins.ron")]
    WrongName {
        /// The name that was asked for.
        wanted: String,
        /// The name in the manifest.
        found: String,
    },
    /// An option is unknown or of the wrong type.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The system gave no memory file to load from.
    #[error("no sealed copy of the library could be made (memfd_create): {0}")]
    NoCopy(std::io::Error),
    /// The dynamic linker refused it.
    #[error("the dynamic linker refused it: {0}")]
    Linker(String),
    /// The symbol that the manifest names is not there.
    #[error("has no symbol {symbol}, which its manifest names as its entry")]
    NoEntry {
        /// The symbol.
        symbol: String,
    },
    /// abi_stable found another version of itself, or records of another layout.
    #[error("not compatible with this engine (abi_stable): {0}")]
    Incompatible(String),
    /// The running library says something else than the file did.
    #[error(
        "the manifest its code returns is not the one in its section {}",
        interlock_policy_api::manifest::SECTION
    )]
    ManifestDiffers,
    /// The policy did not want to be made.
    #[error("refused to start: {reason}")]
    Create {
        /// What the policy said.
        reason: String,
    },
    /// It runs in a process of its own, and there is no program for that.
    #[error(
        "runs in a process of its own (isolation), which this program does not offer; name an `interlock` program \
         by `policy_host` in plugins.ron"
    )]
    NoPolicyHost,
    /// It runs in a process of its own, and the program for that is missing, or others could have put it there.
    #[error("runs in a process of its own, and the program for that, {} (`policy_host` in plugins.ron): {fault}", .program.display())]
    PolicyHost {
        /// The program.
        program: PathBuf,
        /// What is wrong with it.
        fault: FileError,
    },
    /// Its process could not be started.
    #[error("its process could not be started ({program}): {error}")]
    NoProcess {
        /// The program.
        program: String,
        /// The system's word.
        error: std::io::Error,
    },
    /// The program for its process belongs to another version of the engine.
    #[error(
        "{program} is of another version than this engine and cannot host its policies; install the same one"
    )]
    OtherVersion {
        /// The program.
        program: String,
    },
    /// The system does not let its process be confined.
    #[error(
        "its process cannot be confined here ({what}); allow seccomp filters to it, or write \
         `isolation: UnfilteredProcess` to do without, after reading SECURITY.md"
    )]
    Unconfined {
        /// What could not be had.
        what: String,
    },
    /// Its process ended before the policy was ready.
    #[error("while it was loaded, {end}")]
    EndedAtStart {
        /// How.
        end: PolicyEnd,
    },
}

fn subject(file: &Path, fault: &LoadFault) -> String {
    match fault {
        LoadFault::UnknownPolicy { .. } if file.as_os_str().is_empty() => {
            "no plugins.ron in the working directory or beside the program (--config names one): ".to_owned()
        }
        LoadFault::UnknownPolicy { .. } => format!("{}: ", file.display()),
        _ => format!("policy library {}: ", file.display()),
    }
}

pub(super) fn list(places: &[PathBuf]) -> String {
    places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// A library that passed every check that can be made without running it.
pub struct Verified {
    pub(super) file: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) sha256: Sha256,
    pub(super) signed: Option<Signed>,
    pub(super) facts: Facts,
}

/// What is known of a policy, whether it was loaded or linked.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) manifest: ManifestDoc,
    pub(super) locks: LockTable,
    pub(super) options: OptionsText,
}

impl Facts {
    /// Checks lock table, name and options of a manifest.
    pub(super) fn check(
        manifest: ManifestDoc,
        wanted: Option<&str>,
        options: &OptionsText,
    ) -> Result<Facts, LoadFault> {
        LockTable::from_manifest(&manifest, |_| None)?;
        if let Some(wanted) = wanted.filter(|wanted| *wanted != manifest.name) {
            return Err(LoadFault::WrongName { wanted: wanted.to_owned(), found: manifest.name });
        }
        let values = options.check(&manifest.options)?;
        let locks = LockTable::from_manifest(&manifest, |option| values.permits(option))?;
        Ok(Facts { manifest, locks, options: options.clone() })
    }
}

impl Verified {
    /// Checks the library of a configured policy. Nothing of it runs.
    ///
    /// # Errors
    /// The first check that fails: [`LoadFault::NotFound`] to [`LoadFault::Options`].
    pub fn configured(config: &Config, policy: &PolicyConfig) -> Result<Verified, LoadError> {
        let places = library_places(config, &policy.library);
        let Some(file) = places.iter().find(|place| place.exists()) else {
            return Err(LoadError { file: policy.library.clone(), fault: LoadFault::NotFound { places } });
        };
        let demands = Demands::of(config, policy.sha256, policy.signature.as_deref());
        check(file, Some(&policy.name), &demands, &policy.options)
            .map_err(|fault| LoadError { file: file.to_owned(), fault })
    }

    /// Checks a library that no configuration names. Nothing of it runs.
    ///
    /// The order: the file (regular, owner, mode, each folder on the way to it), the SHA-256 where it is `pinned`, ELF (whole,
    /// this machine, a shared object), the manifest (there, well formed, ABI, capabilities), the lock table, the name where one is
    /// `wanted`, the options. A configured library has its signature checked after the SHA-256.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn file(
        file: &Path,
        wanted: Option<&str>,
        pinned: Option<Sha256>,
        options: &OptionsText,
    ) -> Result<Verified, LoadError> {
        let trust = TrustConfig::default();
        let demands = Demands { trust: &trust, base: Path::new(""), pinned, signature: None };
        check(file, wanted, &demands, options).map_err(|fault| LoadError { file: file.to_owned(), fault })
    }

    /// The manifest.
    pub fn manifest(&self) -> &ManifestDoc {
        &self.facts.manifest
    }

    /// The SHA-256 of the bytes that were checked and will be loaded.
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }

    /// The signature, where one was asked for or checked.
    pub fn signed(&self) -> Option<&Signed> {
        self.signed.as_ref()
    }
}

fn check(
    file: &Path,
    wanted: Option<&str>,
    demands: &Demands<'_>,
    options: &OptionsText,
) -> Result<Verified, LoadFault> {
    let library = LibraryFile::read(file)?;
    library.check_trusted(demands.trust, demands.base)?;
    let evidence = trust::evidence(&library, demands)?;
    let manifest = manifest::read(inspect::section_of(&library.bytes)?)?;
    let facts = Facts::check(manifest, wanted, options)?;
    let (sha256, signed) = (evidence.sha256, evidence.signed);
    Ok(Verified { file: library.path, bytes: library.bytes, sha256, signed, facts })
}
