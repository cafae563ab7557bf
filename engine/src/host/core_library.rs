//! From `core: Cuda(...)` to an opened core: the file is checked as a policy's is before any of it runs.

use std::path::{Path, PathBuf};

use interlock_core_api::OpenOptions;

use super::file::{FileError, LibraryFile};
use super::{ByteSize, Config, Sha256, library_places, resident};
use crate::core::loaded::{LoadCoreError, LoadCoreFault, LoadedCore};

/// Why a core's library was refused.
#[derive(Debug, thiserror::Error)]
pub enum CoreLibraryError {
    /// The file is in none of the places where it is looked for.
    #[error("core library {}: not found; looked for {}", .library.display(), super::load::list(.places))]
    NotFound {
        /// The library as written.
        library: PathBuf,
        /// The places.
        places: Vec<PathBuf>,
    },
    /// Unreadable, not regular, writable by others.
    #[error("core library {}: {fault}", .file.display())]
    File {
        /// The library.
        file: PathBuf,
        /// What is wrong with it.
        fault: FileError,
    },
    /// The SHA-256 is not the one that was pinned.
    #[error("core library {}: sha256 is {found}, plugins.ron pins {pinned}; if the new file is right, change the pin", .file.display())]
    WrongHash {
        /// The library.
        file: PathBuf,
        /// What the configuration says.
        pinned: Sha256,
        /// What the file has.
        found: Sha256,
    },
    /// The system gave no memory file to load from.
    #[error("core library {}: no sealed copy of it could be made (memfd_create): {error}", .file.display())]
    NoCopy {
        /// The library.
        file: PathBuf,
        /// The system's word.
        error: std::io::Error,
    },
    /// It could not be loaded, or could not open its devices.
    #[error(transparent)]
    Load(#[from] LoadCoreError),
}

impl CoreLibraryError {
    /// Whether all is well but for the driver: then the CPU core can stand in.
    pub fn is_no_driver(&self) -> bool {
        matches!(self, Self::Load(LoadCoreError { fault: LoadCoreFault::NoDriver, .. }))
    }
}

/// Checks, loads and opens the CUDA core.
///
/// `vram_limit` and `key_memory` are those of [`CoreConfig::Cuda`](super::CoreConfig::Cuda).
///
/// # Errors
/// The first check that fails; then what the library says.
pub fn open_cuda_core(
    config: &Config,
    library: &Path,
    pinned: Option<Sha256>,
    devices: &[u32],
    vram_limit: Option<ByteSize>,
    key_memory: ByteSize,
) -> Result<LoadedCore, CoreLibraryError> {
    let places = library_places(config, library);
    let Some(file) = places.iter().find(|place| place.exists()) else {
        return Err(CoreLibraryError::NotFound { library: library.to_owned(), places });
    };
    let checked = LibraryFile::read(file).and_then(|library| library.check_trusted().map(|()| library));
    let checked = checked.map_err(|fault| CoreLibraryError::File { file: file.clone(), fault })?;
    let found = Sha256::of(&checked.bytes);
    if let Some(pinned) = pinned.filter(|pinned| *pinned != found) {
        return Err(CoreLibraryError::WrongHash { file: file.clone(), pinned, found });
    }
    let image = resident::image(&checked.path, &checked.bytes)
        .map_err(|error| CoreLibraryError::NoCopy { file: file.clone(), error })?;
    let options = OpenOptions {
        devices: devices.to_vec().into(),
        vram_limit: vram_limit.map_or(0, |limit| limit.0),
        spare_bytes: key_memory.0,
        measure_steps: false,
    };
    Ok(LoadedCore::open_image("cuda", &checked.path, &image, &options)?)
}
