//! Who could have put a file where it is: the check that OpenSSH calls `StrictModes`, on every folder up to the root.
//!
//! Trusted are root, the user who runs this program, the owners that the operator names, and who owns the running program's
//! own file and the folders on the way to it: they could have given us another program. That makes a checkout work that
//! was mounted into a container with its owner.
//!
//! In a folder with the sticky bit, such as `/tmp`, nobody can replace what belongs to another: there it is the entry's owner
//! that counts.

use std::fs;
use std::path::Path;
use std::sync::{Once, OnceLock};

use super::FileError;
use super::walk::{FileId, Step, StepKind, Way, Writers};

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// The users whose files are believed.
pub(super) struct Trusted<'a> {
    user: u32,
    named: &'a [u32],
    program: &'static Program,
}

impl<'a> Trusted<'a> {
    /// Root, the user who runs this, who owns the program, and those `named`.
    pub fn with(named: &'a [u32]) -> Self {
        Self { user: rustix::process::geteuid().as_raw(), named, program: Program::running() }
    }

    fn owns(&self, owner: u32) -> bool {
        owner == 0
            || owner == self.user
            || self.named.contains(&owner)
            || self.program.owners.contains(&owner)
    }
}

/// Who could have replaced the program that runs.
struct Program {
    owners: Vec<u32>,
    folders: Vec<FileId>,
    warned: Once,
}

impl Program {
    const fn none() -> Program {
        Program { owners: Vec::new(), folders: Vec::new(), warned: Once::new() }
    }

    fn running() -> &'static Program {
        static RUNNING: OnceLock<Program> = OnceLock::new();
        RUNNING.get_or_init(|| Self::of(&std::env::current_exe().unwrap_or_default()).unwrap_or(Self::none()))
    }

    /// `None` if the program is not there any more.
    fn of(file: &Path) -> Option<Program> {
        let way = Way::of(file).ok()?;
        let own = Writers::of_file(&way.open().ok()??).ok()?;
        let folders: Vec<&Step> = way.steps.iter().filter(|step| step.kind == StepKind::Folder).collect();
        let owners = folders.iter().map(|step| step.writers.owner).chain([own.owner]).collect();
        Some(Program { owners, folders: folders.iter().map(|step| step.id).collect(), warned: Once::new() })
    }

    /// Everybody is more than anyone means. Said once.
    fn warn_of_everybody(&self, folder: &Path, mode: u32) {
        self.warned.call_once(|| {
            tracing::warn!(
                folder = %folder.display(),
                mode = format!("{mode:04o}"),
                "everybody may replace what lies in a folder above this program: the program itself, and each library there; \
                 run `chmod o-w` on it"
            );
        });
    }
}

/// Only trusted users could have written the file.
pub(super) fn check_file(writers: &Writers, trusted: &Trusted<'_>) -> Result<(), FileError> {
    if !trusted.owns(writers.owner) {
        return Err(FileError::ForeignOwner { owner: writers.owner, user: trusted.user });
    }
    if writers.mode & OTHERS_WRITE != 0 || group_writes(writers) {
        return Err(FileError::WritableByOthers { mode: writers.mode });
    }
    Ok(())
}

/// Only trusted users could have made the way lead there.
pub(super) fn check_way(way: &Way, trusted: &Trusted<'_>) -> Result<(), FileError> {
    // A link belongs to who made it; nobody else can make one in a folder that only trusted users write.
    let mut in_open_folder = false;
    for step in &way.steps {
        let (owner, mode) = (step.writers.owner, step.writers.mode);
        let counts = step.kind == StepKind::Folder || in_open_folder;
        if counts && !trusted.owns(owner) {
            return Err(FileError::ForeignStep { step: step.path.clone(), owner, user: trusted.user });
        }
        if step.kind == StepKind::Link {
            continue;
        }
        let others = mode & OTHERS_WRITE != 0;
        let open = others || group_writes(&step.writers);
        in_open_folder = open;
        if !open || mode & STICKY != 0 {
            continue;
        }
        // Whoever may replace the program needs no library.
        if !trusted.program.folders.contains(&step.id) {
            return Err(FileError::FolderWritableByOthers { folder: step.path.clone(), mode });
        }
        if others {
            trusted.program.warn_of_everybody(&step.path, mode);
        }
    }
    Ok(())
}

/// Only trusted users could have put this program there.
pub(super) fn check_program(program: &Path, owners: &[u32]) -> Result<(), FileError> {
    let way = Way::of(program)?;
    let file = way.open()?.ok_or(FileError::NotRegular)?;
    let trusted = Trusted::with(owners);
    check_file(&Writers::of_file(&file)?, &trusted)?;
    check_way(&way, &trusted)
}

/// Whether the group may write, and has somebody else than the owner in it.
fn group_writes(writers: &Writers) -> bool {
    writers.mode & GROUP_WRITES != 0 && (writers.listed || !is_private_group(writers.owner, writers.group))
}

/// Whether `group` is the user's own group, as systems with a umask of 002 have it: everything cargo builds
/// there is group-writable. Such a group has the user's number and no other members. Never for root.
fn is_private_group(owner: u32, group: u32) -> bool {
    owner != 0
        && owner == group
        && fs::read_to_string("/etc/group").is_ok_and(|groups| has_no_members(&groups, group))
        && fs::read_to_string("/etc/passwd").is_ok_and(|users| has_no_users(&users, group, owner))
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

/// Whether the table of users (`passwd(5)`) has nobody else than `owner` in the group from the start.
fn has_no_users(users: &str, group: u32, owner: u32) -> bool {
    let (owner, group) = (owner.to_string(), group.to_string());
    users.lines().all(|line| {
        let mut fields = line.split(':').skip(2);
        fields.next() == Some(owner.as_str()) || fields.next() != Some(group.as_str())
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    const USER: u32 = 1_000;
    const OTHER: u32 = 4_242;

    fn trusted(named: &[u32]) -> Trusted<'_> {
        static NONE: Program = Program::none();
        Trusted { user: USER, named, program: &NONE }
    }

    fn writers(owner: u32, mode: u32) -> Writers {
        Writers { owner, group: 77, mode, listed: false }
    }

    #[test]
    fn others_must_not_write_the_file() {
        for (mode, refused) in
            [(0o755, false), (0o600, false), (0o775, true), (0o757, true), (0o777, true), (0o602, true)]
        {
            assert_eq!(check_file(&writers(USER, mode), &trusted(&[])).is_err(), refused, "{mode:o}");
        }
    }

    #[test]
    fn the_file_belongs_to_root_or_the_user_or_one_who_was_named() {
        for (owner, named, good) in
            [(0, &[][..], true), (USER, &[], true), (OTHER, &[], false), (OTHER, &[7, OTHER], true)]
        {
            assert_eq!(
                check_file(&writers(owner, 0o755), &trusted(named)).is_ok(),
                good,
                "{owner} {named:?}"
            );
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
    fn nobody_else_begins_in_a_private_group() {
        let users = "root:x:0:0::/root:\nann:x:1000:1000::/:\nbob:x:1001:1000::/:\neve:x:1002:1002\n\n";
        assert!(!has_no_users(users, 1000, 1000));
        assert!(has_no_users(users, 1002, 1002));
        assert!(has_no_users(users, 1003, 1003));
    }

    /// A way of made-up folders: name, owner, mode.
    fn check(steps: &[(&str, StepKind, u32, u32)], trusted: &Trusted<'_>) -> Result<(), FileError> {
        let mut way = Way::of(Path::new("/")).expect("there is a root");
        let id = way.steps[0].id;
        way.steps = steps
            .iter()
            .map(|&(path, kind, owner, mode)| Step {
                path: path.into(),
                kind,
                id,
                writers: writers(owner, mode),
            })
            .collect();
        check_way(&way, trusted)
    }

    #[test]
    fn every_folder_counts_up_to_the_root() {
        use StepKind::{Folder, Link};
        let nobody = trusted(&[]);
        let good = [("/", Folder, 0, 0o755), ("/a", Folder, USER, 0o755), ("/a/b", Folder, 0, 0o750)];
        assert!(check(&good, &nobody).is_ok());
        for place in 0..good.len() {
            for mode in [0o777, 0o775, 0o757, 0o2775] {
                let mut steps = good;
                steps[place].3 = mode;
                let refused = check(&steps, &nobody).expect_err("somebody may write");
                assert!(
                    matches!(&refused, FileError::FolderWritableByOthers { folder, mode: found }
                        if folder == Path::new(steps[place].0) && *found == mode),
                    "{refused}"
                );
                steps[place].3 = mode | STICKY;
                assert!(check(&steps, &nobody).is_ok(), "{mode:o} with the sticky bit");
            }
            let mut steps = good;
            steps[place].2 = OTHER;
            let refused = check(&steps, &nobody).expect_err("somebody owns it");
            assert!(matches!(refused, FileError::ForeignStep { owner: OTHER, user: USER, .. }));
            assert!(check(&steps, &trusted(&[OTHER])).is_ok());
        }
        // Anybody can put a link into /tmp.
        let link = |owner, mode| [("/tmp", Folder, 0, mode), ("/tmp/link", Link, owner, 0o777)];
        assert!(check(&link(OTHER, 0o1777), &nobody).is_err());
        assert!(check(&link(USER, 0o1777), &nobody).is_ok());
        assert!(check(&link(OTHER, 0o755), &nobody).is_ok());
    }

    #[test]
    fn who_could_replace_the_program_is_trusted() {
        let mut program =
            Program::of(&std::env::current_exe().expect("a test has a file")).expect("it is there");
        let root = fs::metadata("/").expect("there is a root");
        assert!(program.owners.contains(&root.uid()) && program.folders.len() > 1);
        program.owners.push(OTHER);
        let by_owner = Trusted { user: USER, named: &[], program: Box::leak(Box::new(program)) };
        assert!(check_file(&writers(OTHER, 0o755), &by_owner).is_ok());
        assert!(check_file(&writers(OTHER + 1, 0o755), &by_owner).is_err());
        // The steps of `check` have the root's identity, which is on the program's way.
        for mode in [0o775, 0o777] {
            assert!(check(&[("/", StepKind::Folder, 0, mode)], &by_owner).is_ok());
            assert!(check(&[("/", StepKind::Folder, 0, mode)], &trusted(&[])).is_err());
        }
        assert!(Program::of(Path::new("/no/such/program (deleted)")).is_none());
    }

    /// A list may give another user the right to write, and shows as the group's right in the mode.
    #[test]
    fn an_access_control_list_is_no_private_group() {
        let writers = Writers { owner: USER, group: USER, mode: 0o664, listed: true };
        assert!(check_file(&writers, &trusted(&[])).is_err());
    }

    #[test]
    fn a_real_way_is_checked() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("open/inner");
        fs::create_dir_all(&inner).expect("folders");
        fs::write(inner.join("file"), "").expect("a file");
        symlink(inner.join("file"), folder.path().join("link")).expect("a link");
        let trusted = Trusted::with(&[]);
        let check =
            |path: &str| check_way(&Way::of(&folder.path().join(path)).expect("it is there"), &trusted);
        assert!(check("link").is_ok(), "{:?}", check("link"));
        let open = folder.path().join("open");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("the folder is ours");
        for path in ["link", "open/inner/file", "open/inner"] {
            let refused = check(path).expect_err("the grandparent is open");
            assert!(matches!(refused, FileError::FolderWritableByOthers { mode: 0o777, .. }), "{refused}");
        }
    }
}
