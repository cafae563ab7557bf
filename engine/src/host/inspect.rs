//! What a library says about itself, read without running a line of it.

use std::path::{Path, PathBuf};

use interlock_policy_api::ManifestDoc;
use interlock_policy_api::manifest::SECTION;
use serde::{Serialize, Serializer};

use super::elf::SharedObject;
use super::file::LibraryFile;
use super::manifest::{self, MAX_MANIFEST_BYTES};
use super::{LoadError, LoadFault, Sha256};

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
    /// Why the file would not be loaded as it stands, if it would not: owner, mode, folder.
    pub distrust: Option<String>,
    /// Names of the hooks it has beyond `decide`.
    pub hooks: Vec<&'static str>,
    /// The manifest.
    pub manifest: ManifestDoc,
}

fn octal<S: Serializer>(mode: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{mode:04o}"))
}

/// Reads a library's manifest from its ELF section. Nothing of the library runs.
///
/// # Errors
/// The file cannot be read, is no shared object for this machine, has no manifest, or one that this engine
/// does not understand. Who may write the file is no error here, see [`Inspection::distrust`].
pub fn inspect(path: &Path) -> Result<Inspection, LoadError> {
    let failed = |fault| LoadError { file: path.to_owned(), fault };
    let file = LibraryFile::read(path).map_err(|error| failed(error.into()))?;
    let manifest = manifest_of(&file.bytes).map_err(failed)?;
    Ok(Inspection {
        size: file.bytes.len() as u64,
        sha256: Sha256::of(&file.bytes),
        mode: file.mode(),
        owner: file.owner(),
        distrust: file.check_trusted().err().map(|error| error.to_string()),
        hooks: manifest.capabilities.names(),
        file: file.path,
        manifest,
    })
}

/// The section that holds the manifest, as bytes.
pub(super) fn section_of(library: &[u8]) -> Result<&[u8], LoadFault> {
    Ok(SharedObject::parse(library)?.section(SECTION, MAX_MANIFEST_BYTES)?)
}

/// The manifest in a library's bytes.
fn manifest_of(library: &[u8]) -> Result<ManifestDoc, LoadFault> {
    Ok(manifest::read(section_of(library)?)?)
}
