//! The way to a file, gone folder by folder, so that what was looked at is what was gone through.
//!
//! Resolving a path first and asking about its folders afterwards leaves a gap: somebody may put another folder in
//! between. Here each folder is opened in the one before it, without following links, and asked by its descriptor; links
//! are read and followed by hand. Whoever could change where the path leads shows in [`Way::steps`]: the owner and the
//! mode of each folder gone through, those that hold a link too, up to the root.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, getxattr, openat, readlinkat};
use rustix::io::Errno;

/// As many links as the kernel follows in one path.
const MAX_LINKS: usize = 40;

/// The way that a path leads.
pub(super) struct Way {
    /// Every folder gone through and every link followed, in order.
    pub steps: Vec<Step>,
    /// The folders that the end lies in, the root first; the end itself last, if it is a folder.
    folders: Vec<Folder>,
    /// The last component, when it is no folder.
    end: Option<End>,
}

/// One thing on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub path: PathBuf,
    pub kind: StepKind,
    pub id: FileId,
    pub writers: Writers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    Folder,
    Link,
}

/// What tells a file from all others of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// What says who may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writers {
    pub owner: u32,
    pub group: u32,
    /// Permission bits, as in `chmod`.
    pub mode: u32,
    /// Whether an access control list may let in more users than the mode tells. Looked up only where the group may write:
    /// elsewhere the mode bounds the list.
    pub listed: bool,
}

struct Folder {
    opened: OwnedFd,
    step: Step,
}

struct End {
    opened: OwnedFd,
    name: OsString,
}

impl Way {
    /// Goes the way of `path`, to its end, links included.
    pub fn of(path: &Path) -> io::Result<Way> {
        let mut way = Way { steps: Vec::new(), folders: Vec::new(), end: None };
        let mut left: VecDeque<OsString> = VecDeque::new();
        let mut links = 0;
        push_front(&mut left, &std::path::absolute(path)?);
        while let Some(name) = left.pop_front() {
            if way.end.is_some() {
                return Err(Errno::NOTDIR.into());
            }
            if name == "/" {
                way.folders.clear();
                way.enter(openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?, "/".into())?;
                continue;
            }
            if name == ".." {
                // The root is its own parent.
                way.folders.truncate(way.folders.len().saturating_sub(1).max(1));
                let back = way.folder().step.clone();
                way.steps.push(back);
                continue;
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let folder = way.folder();
            // As a folder first: that is what has an automounter mount what belongs there.
            let opened = match openat(&folder.opened, &name, flags | OFlags::DIRECTORY, Mode::empty()) {
                Err(Errno::NOTDIR) => openat(&folder.opened, &name, flags, Mode::empty())?,
                opened => opened?,
            };
            let stat = fstat(&opened)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let path = folder.step.path.join(&name);
                    way.enter(opened, path)?;
                }
                FileType::Symlink => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::LOOP.into());
                    }
                    let target = readlinkat(&opened, "", Vec::new())?;
                    let path = folder.step.path.join(&name);
                    way.steps.push(Step::new(path, StepKind::Link, &opened, &stat));
                    push_front(&mut left, Path::new(&OsString::from_vec(target.into_bytes())));
                }
                _ => way.end = Some(End { opened, name }),
            }
        }
        Ok(way)
    }

    fn enter(&mut self, opened: OwnedFd, path: PathBuf) -> io::Result<()> {
        let step = Step::new(path, StepKind::Folder, &opened, &fstat(&opened)?);
        self.steps.push(step.clone());
        self.folders.push(Folder { opened, step });
        Ok(())
    }

    /// The folder that the way has come to. There is one from the first component on, which is the root.
    fn folder(&self) -> &Folder {
        self.folders.last().expect("an absolute path begins with the root")
    }

    /// The path without links.
    pub fn path(&self) -> PathBuf {
        match &self.end {
            Some(end) => self.folder().step.path.join(&end.name),
            None => self.folder().step.path.clone(),
        }
    }

    /// Opens what is at the end for reading: `None` if that is no regular file. What is opened is what the way led to, even
    /// if another file has its name by now.
    pub fn open(&self) -> io::Result<Option<File>> {
        let Some(end) = &self.end else { return Ok(None) };
        let is_file = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let expected = fstat(&end.opened)?;
        if !is_file(expected) {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(&self.folder().opened, &end.name, flags, Mode::empty())?;
        let found = fstat(&opened)?;
        if FileId::of(&found) != FileId::of(&expected) {
            return Err(io::Error::other("another file was put in its place while it was opened"));
        }
        Ok(is_file(found).then(|| opened.into()))
    }

    /// The folder at the end, if it is one.
    pub fn end_folder(&self) -> Option<FileId> {
        self.end.is_none().then(|| self.folder().step.id)
    }

    /// Whether the end lies in this folder, or in one below it.
    pub fn lies_in(&self, folder: FileId) -> bool {
        self.folders.iter().any(|passed| passed.step.id == folder)
    }
}

/// Puts the components of a path before those that are left to go.
fn push_front(left: &mut VecDeque<OsString>, path: &Path) {
    let components = path.components().filter(|component| *component != Component::CurDir);
    for component in components.rev() {
        left.push_front(component.as_os_str().to_owned());
    }
}

impl Step {
    fn new(path: PathBuf, kind: StepKind, opened: &OwnedFd, stat: &Stat) -> Step {
        let mut writers = Writers::of(opened.as_raw_fd(), stat);
        // The mode of a link means nothing: it cannot be written.
        writers.listed &= kind == StepKind::Folder;
        Step { path, kind, id: FileId::of(stat), writers }
    }
}

impl FileId {
    fn of(stat: &Stat) -> FileId {
        FileId { device: stat.st_dev, inode: stat.st_ino }
    }
}

impl Writers {
    /// Of an open file.
    pub fn of_file(file: &File) -> io::Result<Writers> {
        Ok(Self::of(file.as_raw_fd(), &fstat(file)?))
    }

    fn of(descriptor: i32, stat: &Stat) -> Writers {
        let mode = stat.st_mode & 0o7777;
        let listed = mode & 0o020 != 0 && has_list(descriptor);
        Writers { owner: stat.st_uid, group: stat.st_gid, mode, listed }
    }
}

/// Whether the file of a descriptor has an access control list, or whether that cannot be told.
fn has_list(descriptor: i32) -> bool {
    // A descriptor of a folder opened as a mere place has no attributes; its entry in /proc does.
    let found = getxattr(format!("/proc/self/fd/{descriptor}"), "system.posix_acl_access", &mut [0_u8; 1]);
    !matches!(found, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_leads_where_the_system_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        fs::create_dir_all(root.join("a/b")).expect("folders");
        fs::write(root.join("a/b/file"), "there").expect("a file");
        symlink("b/file", root.join("a/near")).expect("a link");
        symlink(root.join("a/b"), root.join("far")).expect("a link");
        symlink("../../a/near", root.join("a/b/up")).expect("a link");
        for path in ["a/b/file", "a/near", "far/file", "far/../near", "far/up", "a/./b//file", "a/../a/near"]
        {
            let path = root.join(path);
            let way = Way::of(&path).expect("it is there");
            assert_eq!(way.path(), fs::canonicalize(&path).expect("it is there"), "{path:?}");
            let file = way.open().expect("it can be opened").expect("it is a file");
            assert_eq!(io::read_to_string(file).expect("it can be read"), "there");
            let inner = Way::of(&root.join("far")).expect("it is there").end_folder().expect("a folder");
            assert!(way.lies_in(inner), "{path:?}");
        }
        assert_eq!(Way::of(Path::new("/../..")).expect("the root").path(), Path::new("/"));
    }

    #[test]
    fn folders_of_links_are_gone_through_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = fs::canonicalize(folder.path()).expect("it is there");
        fs::create_dir_all(root.join("of-link")).expect("a folder");
        fs::create_dir_all(root.join("of-file")).expect("a folder");
        fs::write(root.join("of-file/file"), "").expect("a file");
        symlink("../of-file/file", root.join("of-link/link")).expect("a link");
        let way = Way::of(&root.join("of-link/link")).expect("it is there");
        let passed =
            |path: &str, kind| way.steps.iter().any(|it| it.path == root.join(path) && it.kind == kind);
        assert!(passed("of-link", StepKind::Folder) && passed("of-file", StepKind::Folder));
        assert!(passed("of-link/link", StepKind::Link));
        let link_folder =
            Way::of(&root.join("of-link")).expect("it is there").end_folder().expect("a folder");
        assert!(!way.lies_in(link_folder), "the file itself is elsewhere");
    }

    #[test]
    fn a_path_that_leads_nowhere_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        symlink("loop", folder.path().join("loop")).expect("a link");
        symlink("gone", folder.path().join("broken")).expect("a link");
        fs::write(folder.path().join("file"), "").expect("a file");
        for (path, error) in [
            ("loop", Errno::LOOP),
            ("broken", Errno::NOENT),
            ("nothing", Errno::NOENT),
            ("file/below", Errno::NOTDIR),
            ("file/..", Errno::NOTDIR),
        ] {
            let found = Way::of(&folder.path().join(path)).err().expect(path);
            assert_eq!(found.raw_os_error(), Some(error.raw_os_error()), "{path}");
        }
    }

    #[test]
    fn a_folder_or_a_device_is_no_file() {
        assert!(Way::of(Path::new("/")).expect("there").open().expect("asked").is_none());
        assert!(Way::of(Path::new("/dev/null")).expect("there").open().expect("asked").is_none());
    }

    /// Between the way and the opening, the file is replaced.
    #[test]
    fn another_file_in_its_place_is_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, other] = ["file", "other"].map(|name| folder.path().join(name));
        fs::write(&file, "right").expect("a file");
        fs::write(&other, "wrong").expect("a file");
        let way = Way::of(&file).expect("it is there");
        fs::rename(&other, &file).expect("replaced");
        assert!(way.open().is_err());
        fs::remove_file(&file).expect("removed");
        symlink("/etc/passwd", &file).expect("a link");
        assert!(way.open().is_err());
    }

    /// Between the way and the opening, the file's folder is replaced: the one that was asked is the one that is used.
    #[test]
    fn another_folder_in_the_way_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let [good, evil] = ["good", "evil"].map(|name| folder.path().join(name));
        for (folder, text) in [(&good, "right"), (&evil, "wrong")] {
            fs::create_dir(folder).expect("a folder");
            fs::write(folder.join("file"), text).expect("a file");
        }
        let way = Way::of(&good.join("file")).expect("it is there");
        fs::rename(&good, folder.path().join("moved")).expect("moved");
        fs::rename(&evil, &good).expect("replaced");
        let file = way.open().expect("it can be opened").expect("it is a file");
        assert_eq!(io::read_to_string(file).expect("it can be read"), "right");
    }
}
