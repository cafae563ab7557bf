//! What this process has that it may have forgotten: child processes and open files.

use std::fs;

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

/// How many descriptors are open.
///
/// # Panics
/// When there is no `/proc`.
pub fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("there is /proc").count()
}
