//! The plug-in host: finds policies, checks them, loads them, and asks them.
//!
//! | module | what it does |
//! |---|---|
//! | [`config`] | reads `plugins.ron` |
//! | `find` | finds `plugins.ron` and the libraries it names |
//! | `walk`, `writers` | the way to a file, and who could have changed it |
//! | `signature`, `trust` | what a library has to show: pin, signature, folder |
//! | `file`, `elf`, `manifest` | one kind of check each, on bytes, nothing of the library running |
//! | `load` | all checks in their order: [`Verified`] |
//! | `inspect`, `list` | what is known without running anything |
//! | `pin` | writes a pin into `plugins.ron` |
//! | `resident` | `dlopen`, from a sealed copy of the checked bytes |
//! | `library` | from a loaded library to its root module: [`PolicyLibrary`] |
//! | `core_library` | the same care for the library of a proving core |
//! | `policy` | an instance in its seat: [`LoadedPolicy`] |
//! | [`isolation`] | the same in a process of its own |
//!
//! ```
//! use interlock_engine::host::{Config, PolicyLibrary};
//!
//! let config = Config::default();
//! let library = PolicyLibrary::configured(&config, &config.policy)?;
//! let policy = library.instantiate()?;
//! assert_eq!(policy.library().name(), "serialized-fallback");
//! # Ok::<(), interlock_engine::host::LoadError>(())
//! ```

pub mod config;
mod core_config;
mod core_library;
mod elf;
mod file;
mod find;
mod inspect;
pub mod isolation;
mod library;
mod list;
mod load;
mod manifest;
mod pin;
mod policy;
mod printable;
mod resident;
mod sha256;
mod signature;
mod trust;
mod walk;
mod writers;

pub use config::{
    Config, ConfigError, ConfigFault, ControlSocket, FALLBACK, Limits, PolicyConfig, TRIAL_DECISIONS,
};
pub use core_config::{CoreConfig, CudaConfig, SrsResidency};
pub use core_library::{CoreLibraryError, open_cuda_core};
pub use elf::ElfError;
pub use file::{FileError, MAX_LIBRARY_BYTES};
pub use find::{CONFIG_FILE, find_config, library_places};
pub use inspect::{Inspection, SignatureStatus, inspect};
pub use interlock_settings::{
    ByteSize, ByteSizeError, OptionValue, OptionValues, OptionsError, OptionsText, Position,
};
pub use isolation::{Isolation, ProcessSettings};
pub use library::{Origin, PolicyLibrary};
pub use list::{PolicyEntry, PolicyStatus, list};
pub use load::{LoadError, LoadFault, Verified};
pub use manifest::ManifestError;
pub use pin::{Pin, PinError, pins, with_pins, write_pins};
pub use policy::LoadedPolicy;
pub(crate) use printable::{printable, without_controls};
pub use resident::{ResidentLibrary, resident_libraries, resident_list};
pub use sha256::{Sha256, Sha256Error};
pub use signature::{KeyFileError, KeyId, KeySource, SignatureError, Signed, TrustedKey};
pub use trust::{EvidenceError, Requirement, TrustConfig};
