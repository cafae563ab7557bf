//! A library's file: opened once, read once, and asked who could have changed it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::trust::TrustConfig;
use super::walk::{Way, Writers};
use super::writers::{self, Trusted};

/// The largest library that is read, in bytes.
pub const MAX_LIBRARY_BYTES: u64 = 256 << 20;

/// Why a file was refused for what it is, for where it is, or for who may write it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be opened or read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// A folder, a device, a pipe.
    #[error("not a regular file")]
    NotRegular,
    /// Longer than any library.
    #[error("longer than {MAX_LIBRARY_BYTES} bytes, which is the most that is loaded")]
    TooLong,
    /// Somebody else could change it.
    #[error("mode {mode:04o} lets others than its owner write it; run `chmod go-w` on it")]
    WritableByOthers {
        /// Permission bits.
        mode: u32,
    },
    /// Somebody else owns it.
    #[error("owned by user {owner}, but only root and the user who runs this ({user}) are trusted; {}", advice(*.owner))]
    ForeignOwner {
        /// Who owns it.
        owner: u32,
        /// Who runs the program.
        user: u32,
    },
    /// Somebody else could put another file in its place, or another folder on the way to it.
    #[error(
        "the folder {} (mode {mode:04o}) on the way to it lets others replace what is in it; run `chmod go-w` on the folder",
        .folder.display()
    )]
    FolderWritableByOthers {
        /// The folder.
        folder: PathBuf,
        /// Permission bits of the folder.
        mode: u32,
    },
    /// Somebody else owns a folder, or a link in a folder that all may write, on the way to it.
    #[error(
        "{} on the way to it is owned by user {owner}, but only root and the user who runs this ({user}) are trusted; {}",
        .step.display(), advice(*.owner)
    )]
    ForeignStep {
        /// The folder or link.
        step: PathBuf,
        /// Who owns it.
        owner: u32,
        /// Who runs the program.
        user: u32,
    },
    /// It is in none of the folders that libraries may come from.
    #[error("{} lies outside the folders that libraries may come from ({}: `trust: (folders: …)` in plugins.ron)", .path.display(), super::load::list(.folders))]
    OutsideFolders {
        /// The file, without links.
        path: PathBuf,
        /// The folders.
        folders: Vec<PathBuf>,
    },
}

/// What to do about an owner.
fn advice(owner: u32) -> String {
    format!(
        "`chown` it, run this as user {owner}, or name plugins.ron by --config and write `trust: (owners: [{owner}])` there"
    )
}

/// A file as it was when it was read. What is checked, hashed and loaded are these bytes.
pub(super) struct LibraryFile {
    /// The path without symbolic links.
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    way: Way,
    writers: Writers,
}

impl LibraryFile {
    /// Reads a file of bounded size.
    pub(super) fn read(path: &Path) -> Result<Self, FileError> {
        let way = Way::of(path)?;
        let file = way.open()?.ok_or(FileError::NotRegular)?;
        let writers = Writers::of_file(&file)?;
        let bytes = bounded(file, MAX_LIBRARY_BYTES)?.ok_or(FileError::TooLong)?;
        Ok(Self { path: way.path(), bytes, way, writers })
    }

    /// Permission bits, as in `chmod`.
    pub(super) fn mode(&self) -> u32 {
        self.writers.mode
    }

    /// The user who owns the file.
    pub(super) fn owner(&self) -> u32 {
        self.writers.owner
    }

    /// Nobody but root, the user who runs this and the owners that are trusted could have written the file or put it where it
    /// is, and that is in a folder which libraries may come from. Relative folders start from `base`.
    pub(super) fn check_trusted(&self, trust: &TrustConfig, base: &Path) -> Result<(), FileError> {
        let trusted = Trusted::with(&trust.owners);
        writers::check_file(&self.writers, &trusted)?;
        writers::check_way(&self.way, &trusted)?;
        let Some(folders) = &trust.folders else { return Ok(()) };
        let folders: Vec<PathBuf> = folders.iter().map(|folder| base.join(folder)).collect();
        let is_in = |folder: &PathBuf| {
            let end = Way::of(folder).ok().and_then(|way| way.end_folder());
            end.is_some_and(|folder| self.way.lies_in(folder))
        };
        if folders.iter().any(is_in) {
            return Ok(());
        }
        Err(FileError::OutsideFolders { path: self.path.clone(), folders })
    }
}

/// All of a file, or `None` if it is longer than `most` bytes.
pub(super) fn bounded(file: File, most: u64) -> io::Result<Option<Vec<u8>>> {
    let length = file.metadata()?.len();
    if length > most {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_no_library() {
        assert!(matches!(LibraryFile::read(Path::new("/")), Err(FileError::NotRegular)));
    }
}
