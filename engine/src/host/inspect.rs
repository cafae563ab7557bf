//! What a library says about itself, read without running a line of it.

use std::path::{Path, PathBuf};

use interlock_policy_api::ManifestDoc;
use interlock_policy_api::manifest::SECTION;
use serde::{Serialize, Serializer};

use super::elf::SharedObject;
use super::file::LibraryFile;
use super::manifest::{self, MAX_MANIFEST_BYTES};
use super::signature::{self, SignatureError, Signed};
use super::trust::Demands;
use super::{Config, LoadError, LoadFault, Sha256};

/// What is known of a library from its bytes alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// The file, without symbolic links.
    pub file: PathBuf,
    /// Size of the file in bytes.
    pub size: u64,
    /// SHA-256 of the file: what a pin in `plugins.ron` has to be.
    pub sha256: Sha256,
    /// Permission bits, shown in octal.
    #[serde(serialize_with = "octal")]
    pub mode: u32,
    /// The user who owns the file.
    pub owner: u32,
    /// Why the file would not be loaded as it stands, if it would not: owner, mode, folders.
    pub distrust: Option<String>,
    /// The signature that lies beside it.
    pub signature: SignatureStatus,
    /// Names of the hooks it has beyond `decide`.
    pub hooks: Vec<&'static str>,
    /// The manifest.
    pub manifest: ManifestDoc,
}

/// What is to be said about a library's signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum SignatureStatus {
    /// There is none beside the library.
    None,
    /// A key that the configuration trusts made it.
    Holds(Signed),
    /// It does not hold, or no trusted key made it.
    Refused {
        /// Why, for people.
        error: String,
    },
}

fn octal<S: Serializer>(mode: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{mode:04o}"))
}

/// Reads a library's manifest from its ELF section. Nothing of the library runs. Owners, folders and keys are trusted as
/// `config` says.
///
/// # Errors
/// The file cannot be read, is no shared object for this machine, has no manifest, or one that this engine
/// does not understand. Who may write the file and who signed it is no error here, see [`Inspection::distrust`] and
/// [`Inspection::signature`].
pub fn inspect(path: &Path, config: &Config) -> Result<Inspection, LoadError> {
    let failed = |fault| LoadError { file: path.to_owned(), fault };
    let file = LibraryFile::read(path).map_err(|error| failed(error.into()))?;
    let manifest = manifest_of(&file.bytes).map_err(failed)?;
    let Demands { trust, base, .. } = Demands::of(config, None, None);
    Ok(Inspection {
        size: file.bytes.len() as u64,
        sha256: Sha256::of(&file.bytes),
        mode: file.mode(),
        owner: file.owner(),
        distrust: file.check_trusted(trust, base).err().map(|error| error.to_string()),
        signature: signature_of(&file, config)
            .unwrap_or_else(|error| SignatureStatus::Refused { error: error.to_string() }),
        hooks: manifest.capabilities.names(),
        file: file.path,
        manifest,
    })
}

fn signature_of(file: &LibraryFile, config: &Config) -> Result<SignatureStatus, SignatureError> {
    let Demands { trust, base, .. } = Demands::of(config, None, None);
    let beside = signature::beside(&file.path);
    let Some(text) = signature::read(&beside)? else { return Ok(SignatureStatus::None) };
    let keys = signature::trusted_keys(trust, base)?;
    signature::verify(&file.bytes, &text, &beside, &keys).map(SignatureStatus::Holds)
}

/// The section that holds the manifest, as bytes.
pub(super) fn section_of(library: &[u8]) -> Result<&[u8], LoadFault> {
    Ok(SharedObject::parse(library)?.section(SECTION, MAX_MANIFEST_BYTES)?)
}

/// The manifest in a library's bytes.
fn manifest_of(library: &[u8]) -> Result<ManifestDoc, LoadFault> {
    Ok(manifest::read(section_of(library)?)?)
}
