//! Where sockets are: a folder of the user, one socket for each engine, named by its process.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::ControlError;
use super::stream::{connect, own_uid};

const SUFFIX: &str = "sock";
/// How long another engine may take to open its socket in the same folder.
const LOCK_LIMIT: Duration = Duration::from_secs(2);
/// How long to try to reach whoever may listen at a socket that is there already.
const PROBE_LIMIT: Duration = Duration::from_millis(100);

/// The folder of this user's sockets: `$XDG_RUNTIME_DIR/interlock`, else `interlock-UID` in the folder for temporary files.
pub fn default_folder() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    match runtime {
        Some(runtime) => runtime.join("interlock"),
        None => std::env::temp_dir().join(format!("interlock-{}", own_uid())),
    }
}

/// The socket of an engine in the default folder.
pub fn socket_of(pid: u32) -> PathBuf {
    default_folder().join(pid.to_string()).with_extension(SUFFIX)
}

/// The sockets in the default folder, by process; also those whose engine is gone.
///
/// # Errors
/// The folder belongs to somebody else or is open to others.
pub fn sockets() -> Result<Vec<PathBuf>, ControlError> {
    let folder = default_folder();
    match check_own(&folder) {
        Err(ControlError::Folder { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(()) => Ok(sockets_in(&folder)),
    }
}

fn sockets_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut sockets: Vec<_> = entries.filter(|path| pid_of(path).is_some()).collect();
    sockets.sort_by_key(|path| pid_of(path));
    sockets
}

fn pid_of(path: &Path) -> Option<u32> {
    path.extension().filter(|suffix| *suffix == SUFFIX)?;
    path.file_stem()?.to_str()?.parse().ok()
}

/// A listening socket with its file, which goes away with the value.
pub struct Bound {
    path: PathBuf,
    identity: (u64, u64),
    pub listener: UnixListener,
}

impl Bound {
    /// Opens the socket of this process in the default folder, which is made when it is not there. Files of engines that
    /// are gone are removed.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn in_default_folder() -> Result<Self, ControlError> {
        let folder = default_folder();
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(ControlError::Folder { folder, error });
            }
            _ => check_own(&folder)?,
        }
        let _lock = lock(&folder)?;
        for socket in sockets_in(&folder) {
            // Whoever does answer stays; what cannot be removed is no reason not to go on.
            let _ = remove_stale(&socket);
        }
        Self::bind(socket_of(std::process::id()))
    }

    /// Opens the socket at `path`. Its folder has to be there; a stale socket is removed.
    ///
    /// # Errors
    /// [`ControlError`], also when anything else stands there, or somebody answers.
    pub fn at(path: &Path) -> Result<Self, ControlError> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        check_shared(folder)?;
        let _lock = lock(folder)?;
        remove_stale(path)?;
        Self::bind(path.to_owned())
    }

    fn bind(path: PathBuf) -> Result<Self, ControlError> {
        let failed = |error| ControlError::Socket { path: path.clone(), error };
        // Whoever connects before the mode is set is turned away by its user id.
        let listener = UnixListener::bind(&path).map_err(failed)?;
        let identity = fs::set_permissions(&path, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::symlink_metadata(&path))
            .map(|metadata| (metadata.dev(), metadata.ino()));
        match identity {
            Ok(identity) => Ok(Self { path, identity, listener }),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(failed(error))
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let still_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if still_ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(socket = %self.path.display(), %error, "the control socket could not be removed");
        }
    }
}

/// Removes a socket that nobody listens at.
fn remove_stale(path: &Path) -> Result<(), ControlError> {
    let failed = |error| ControlError::Socket { path: path.to_owned(), error };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ControlError::Taken { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    match connect(path, PROBE_LIMIT) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        _ => Err(ControlError::Taken { path: path.to_owned() }),
    }
}

/// Keeps others from looking for stale sockets while one is opened. The lock goes with the value.
fn lock(folder: &Path) -> Result<File, ControlError> {
    let failed = |error| ControlError::Folder { folder: folder.to_owned(), error };
    let file = File::open(folder).map_err(failed)?;
    let until = Instant::now() + LOCK_LIMIT;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(error) if error == rustix::io::Errno::AGAIN && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(failed(error.into())),
        }
    }
}

/// A folder that only this user may use.
fn check_own(folder: &Path) -> Result<(), ControlError> {
    let distrust =
        |reason: String| ControlError::Distrusted { folder: folder.to_owned(), reason: reason.into() };
    let found = fs::symlink_metadata(folder)
        .map_err(|error| ControlError::Folder { folder: folder.to_owned(), error })?;
    if !found.is_dir() {
        return Err(distrust("is no folder".into()));
    }
    if found.uid() != own_uid() {
        return Err(distrust(format!("belongs to user {}", found.uid())));
    }
    match found.mode() & 0o777 {
        mode if mode & 0o077 != 0 => {
            Err(distrust(format!("is open to others (mode {mode:04o}); `chmod 700` it")))
        }
        _ => Ok(()),
    }
}

/// A folder in which nobody else can put something in a socket's place.
fn check_shared(folder: &Path) -> Result<(), ControlError> {
    let distrust =
        |reason: String| ControlError::Distrusted { folder: folder.to_owned(), reason: reason.into() };
    let found =
        fs::metadata(folder).map_err(|error| ControlError::Folder { folder: folder.to_owned(), error })?;
    if found.uid() != own_uid() && found.uid() != 0 {
        return Err(distrust(format!("belongs to user {}", found.uid())));
    }
    // In a folder with the sticky bit, only the owner of a file removes it.
    if found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0 {
        return Err(distrust(format!("can be written by others (mode {:04o})", found.mode() & 0o7777)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    #[test]
    fn a_socket_is_there_for_its_user_only_and_goes_with_the_value() {
        let folder = folder();
        let path = folder.path().join("engine.sock");
        let bound = Bound::at(&path).expect("the folder is ours");
        let found = fs::symlink_metadata(&path).expect("it is there");
        assert!(found.file_type().is_socket());
        assert_eq!(found.mode() & 0o777, 0o600);
        assert!(matches!(Bound::at(&path), Err(ControlError::Taken { .. })));
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced_and_anything_else_stays() {
        let folder = folder();
        let path = folder.path().join("engine.sock");
        drop(UnixListener::bind(&path).expect("bound"));
        assert!(path.exists(), "the listener left its file behind");
        drop(Bound::at(&path).expect("nobody listens"));
        fs::write(&path, "a file").expect("written");
        assert!(matches!(Bound::at(&path), Err(ControlError::Taken { .. })));
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "a file");
    }

    #[test]
    fn another_ones_socket_is_not_removed_at_the_end() {
        let folder = folder();
        let path = folder.path().join("engine.sock");
        let bound = Bound::at(&path).expect("the folder is ours");
        fs::remove_file(&path).expect("it is there");
        let other = Bound::at(&path).expect("nothing is there");
        drop(bound);
        assert!(path.exists());
        drop(other);
    }

    #[test]
    fn folders_that_others_can_write_are_refused() {
        let folder = folder();
        let at = |mode| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("ours");
            Bound::at(&folder.path().join("engine.sock")).map(drop)
        };
        assert!(matches!(at(0o777), Err(ControlError::Distrusted { .. })));
        assert!(matches!(at(0o770), Err(ControlError::Distrusted { .. })));
        at(0o755).expect("others can only look");
        at(0o1777).expect("as /tmp is");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o750)).expect("ours");
        assert!(matches!(check_own(folder.path()), Err(ControlError::Distrusted { .. })));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("ours");
        check_own(folder.path()).expect("it is ours alone");
    }

    #[test]
    fn names_are_processes() {
        assert_eq!(pid_of(Path::new("/run/12.sock")), Some(12));
        for other in ["/run/12", "/run/x.sock", "/run/12.socket", "/run/.sock"] {
            assert_eq!(pid_of(Path::new(other)), None, "{other}");
        }
    }
}
