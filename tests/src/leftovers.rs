//! What this process has that it may have forgotten: child processes and open files.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long somebody else may take to close what they have open for a moment: another test, a thread that writes a file.
const PATIENCE: Duration = Duration::from_secs(10);

/// The processes whose parent is this one, dead ones that nobody waited for included.
///
/// # Panics
/// When there is no `/proc`.
pub fn children() -> Vec<u32> {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").expect("there is /proc").filter_map(|entry| {
        let id: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let parent: u32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        (parent == own).then_some(id)
    });
    processes.collect()
}

/// The files, sockets and pipes that are open, by number and by what the number stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptors(BTreeSet<(u32, PathBuf)>);

impl Descriptors {
    /// Those that are open now.
    ///
    /// # Panics
    /// When there is no `/proc`.
    pub fn now() -> Self {
        let own = PathBuf::from(format!("/proc/{}/fd", std::process::id()));
        let open = fs::read_dir("/proc/self/fd").expect("there is /proc").filter_map(|entry| {
            let entry = entry.ok()?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            // One that is closed before it is looked at is not left open.
            Some((number, fs::read_link(entry.path()).ok()?))
        });
        // The folder that is being read is open as well.
        Self(open.filter(|(_, target)| *target != own).collect())
    }

    /// Those that are open now and were not at `self`. Waits for what is open for a moment only: what is left is there for good.
    ///
    /// # Panics
    /// When there is no `/proc`.
    pub fn left_since(&self) -> Vec<PathBuf> {
        let until = Instant::now() + PATIENCE;
        loop {
            let now = Self::now();
            let left: Vec<_> = now.0.difference(&self.0).map(|(_, target)| target.clone()).collect();
            if left.is_empty() || Instant::now() >= until {
                return left;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_open_is_found_and_what_is_closed_is_not() {
        let before = Descriptors::now();
        let file = tempfile::NamedTempFile::new().expect("there is a folder for it");
        let opened: Vec<_> = Descriptors::now().0.difference(&before.0).cloned().collect();
        assert!(opened.iter().any(|(_, target)| target == file.path()), "{opened:?}");
        drop(file);
        assert_eq!(before.left_since(), Vec::<PathBuf>::new());
    }
}
