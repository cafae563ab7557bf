//! From `core: Cuda(...)` to an opened core: the file is checked as a policy's is before any of it runs.

use std::path::PathBuf;

use interlock_core_api::{OpenOptions, Residency};

use super::core_config::{CudaConfig, SrsResidency};
use super::elf::{ElfError, SharedObject};
use super::file::{FileError, LibraryFile};
use super::trust::{self, Demands, EvidenceError};
use super::{ByteSize, Config, library_places, resident};
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
    /// Unreadable, not regular, writable by others, in the wrong folder.
    #[error("core library {}: {fault}", .file.display())]
    File {
        /// The library.
        file: PathBuf,
        /// What is wrong with it.
        fault: FileError,
    },
    /// Not a shared object for this machine, truncated or damaged.
    #[error("core library {}: {fault}", .file.display())]
    Elf {
        /// The library.
        file: PathBuf,
        /// What is wrong with it.
        fault: ElfError,
    },
    /// The content is not what was pinned or signed, or neither was done.
    #[error("core library {}: {fault}", .file.display())]
    Evidence {
        /// The library.
        file: PathBuf,
        /// What is wrong with it.
        fault: EvidenceError,
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
    /// Whether all is well but for the driver or the card: then the CPU core can stand in.
    pub fn is_no_card(&self) -> bool {
        matches!(
            self,
            Self::Load(LoadCoreError { fault: LoadCoreFault::NoDriver | LoadCoreFault::NoDevice(_), .. })
        )
    }
}

/// Checks, loads and opens the CUDA core, for so many tasks at once on each device as `config` has workers.
///
/// # Errors
/// The first check that fails; then what the library says.
pub fn open_cuda_core(config: &Config, cuda: &CudaConfig) -> Result<LoadedCore, CoreLibraryError> {
    let places = library_places(config, &cuda.library);
    let Some(file) = places.iter().find(|place| place.exists()) else {
        return Err(CoreLibraryError::NotFound { library: cuda.library.clone(), places });
    };
    let demands = Demands::of(config, cuda.sha256, cuda.signature.as_deref());
    let checked = LibraryFile::read(file)
        .and_then(|library| library.check_trusted(demands.trust, demands.base).map(|()| library))
        .map_err(|fault| CoreLibraryError::File { file: file.clone(), fault })?;
    trust::evidence(&checked, &demands)
        .map_err(|fault| CoreLibraryError::Evidence { file: file.clone(), fault })?;
    // The dynamic linker maps what the headers say, and a file that is too short ends the process.
    SharedObject::parse(&checked.bytes)
        .map_err(|fault| CoreLibraryError::Elf { file: file.clone(), fault })?;
    let image = resident::image(&checked.path, &checked.bytes)
        .map_err(|error| CoreLibraryError::NoCopy { file: file.clone(), error })?;
    let bytes = |size: Option<ByteSize>| size.map_or(0, |size| size.0);
    let options = OpenOptions {
        devices: cuda.devices.clone().into(),
        vram_limit: bytes(cuda.vram_limit),
        key_memory: bytes(cuda.key_memory),
        residency: match cuda.srs {
            SrsResidency::Auto => Residency::AUTO,
            SrsResidency::Resident => Residency::RESIDENT,
            SrsResidency::Streamed => Residency::STREAMED,
        },
        tasks_at_once: config.workers_per_device as u32,
        measure_steps: false,
    };
    Ok(LoadedCore::open_image("cuda", &checked.path, &image, &options)?)
}
