//! A library's file: opened once, read once, and asked who could have changed it.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The largest library that is read, in bytes.
pub const MAX_LIBRARY_BYTES: u64 = 256 << 20;

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Why a file was refused for what it is or who may write it.
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
    #[error("owned by user {owner}; a library must belong to root or to the user who runs it ({user})")]
    ForeignOwner {
        /// Who owns it.
        owner: u32,
        /// Who runs the program.
        user: u32,
    },
    /// Somebody else could put another file in its place.
    #[error("its folder {} (mode {mode:04o}) lets everybody replace it; run `chmod o-w` on the folder", .folder.display())]
    FolderWritableByAll {
        /// The folder.
        folder: PathBuf,
        /// Permission bits of the folder.
        mode: u32,
    },
}

/// A file as it was when it was read. What is checked, hashed and loaded are these bytes.
pub(super) struct LibraryFile {
    /// The path without symbolic links.
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    metadata: Metadata,
}

impl LibraryFile {
    /// Reads a file of bounded size.
    pub(super) fn read(path: &Path) -> Result<Self, FileError> {
        let path = path.canonicalize()?;
        // Opening a pipe would block for a writer, were it not for NONBLOCK.
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
        let file: File = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(&path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(FileError::NotRegular);
        }
        if metadata.len() > MAX_LIBRARY_BYTES {
            return Err(FileError::TooLong);
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        file.take(MAX_LIBRARY_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_LIBRARY_BYTES {
            return Err(FileError::TooLong);
        }
        Ok(Self { path, bytes, metadata })
    }

    /// Permission bits, as in `chmod`.
    pub(super) fn mode(&self) -> u32 {
        self.metadata.mode() & 0o7777
    }

    /// The user who owns the file.
    pub(super) fn owner(&self) -> u32 {
        self.metadata.uid()
    }

    /// Nobody but root and the user who runs this could have written the file or put it there.
    pub(super) fn check_trusted(&self) -> Result<(), FileError> {
        let user = rustix::process::geteuid().as_raw();
        let (owner, group) = (self.owner(), self.metadata.gid());
        if owner != 0 && owner != user {
            return Err(FileError::ForeignOwner { owner, user });
        }
        let mode = self.mode();
        if writable_by_others(mode, || is_private_group(owner, group)) {
            return Err(FileError::WritableByOthers { mode });
        }
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let mode = folder.metadata()?.mode() & 0o7777;
        if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
            return Err(FileError::FolderWritableByAll { folder: folder.to_owned(), mode });
        }
        Ok(())
    }
}

/// A group that has nobody but the owner in it gives nobody else the right to write.
fn writable_by_others(mode: u32, private_group: impl FnOnce() -> bool) -> bool {
    mode & OTHERS_WRITE != 0 || (mode & GROUP_WRITES != 0 && !private_group())
}

/// Whether `group` is the user's own group, as systems with a umask of 002 have it: everything cargo builds
/// there is group-writable. Such a group has the user's number and no other members. Never for root.
fn is_private_group(owner: u32, group: u32) -> bool {
    owner != 0
        && owner == group
        && std::fs::read_to_string("/etc/group").is_ok_and(|groups| has_no_members(&groups, group))
}

/// Whether the table of groups (`group(5)`) lists the group, without further members.
fn has_no_members(groups: &str, group: u32) -> bool {
    let number = group.to_string();
    let mut listed = groups.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        (fields.next() == Some(number.as_str())).then(|| fields.next().unwrap_or_default().trim().is_empty())
    });
    listed.next() == Some(true) && listed.all(|alone| alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_must_not_write() {
        for (mode, private, refused) in [
            (0o755, false, false),
            (0o600, false, false),
            (0o775, false, true),
            (0o775, true, false),
            (0o757, true, true),
            (0o777, false, true),
        ] {
            assert_eq!(writable_by_others(mode, || private), refused, "{mode:o} {private}");
        }
    }

    #[test]
    fn a_group_is_private_when_it_is_listed_without_members() {
        let groups = "root:x:0:\nann:x:1000:\nbob:x:1001:ann\nshort:x:1002\n";
        assert!(has_no_members(groups, 1000));
        assert!(!has_no_members(groups, 1001));
        assert!(has_no_members(groups, 1002));
        assert!(!has_no_members(groups, 1003));
        assert!(!has_no_members("a:x:7:\nb:x:7:eve\n", 7));
        assert!(!is_private_group(0, 0));
    }

    #[test]
    fn a_folder_is_no_library() {
        assert!(matches!(LibraryFile::read(Path::new("/")), Err(FileError::NotRegular)));
    }
}
