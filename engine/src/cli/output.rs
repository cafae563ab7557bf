//! Output files: written whole or not at all, and named after what they are of.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{CliError, Exit};

/// What a run has to say for itself.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Write a trace that Perfetto opens
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write a CSV file with a line for each event
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,
}

/// Writes a file whole or not at all: into a temporary file beside it, then renamed over it. A symbolic
/// link is followed.
///
/// # Errors
/// [`Exit::Output`], with the path, also when something other than a regular file stands there: it
/// would be replaced. The folder is made when it is not there.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut tempfile::NamedTempFile>) -> io::Result<()>,
) -> Result<(), CliError> {
    write_unnamed(path, write).map_err(|error| unwritable(path, &error))
}

fn write_unnamed(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut tempfile::NamedTempFile>) -> io::Result<()>,
) -> io::Result<()> {
    let path = &identity(path);
    if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(io::Error::other("not a regular file stands there"));
    }
    let folder = folder_of(path);
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().permissions(permissions()).tempfile_in(folder)?;
    let mut writer = BufWriter::new(&mut file);
    write(&mut writer)?;
    writer.flush()?;
    drop(writer);
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// The one path of a file that may have several: links are followed as far as there is something.
fn identity(path: &Path) -> PathBuf {
    let beside = || Some(fs::canonicalize(folder_of(path)).ok()?.join(path.file_name()?));
    fs::canonicalize(path).ok().or_else(beside).unwrap_or_else(|| path.to_owned())
}

/// Checks that a command's outputs are different files, and none of them one of its inputs.
///
/// # Errors
/// [`Exit::Usage`], with the path.
pub fn check_distinct<'a>(
    outputs: impl IntoIterator<Item = &'a Path>,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), CliError> {
    let mut taken: HashMap<PathBuf, &str> =
        inputs.into_iter().map(|input| (identity(input), "is an input")).collect();
    for output in outputs {
        if let Some(what) = taken.insert(identity(output), "is another output") {
            let message = format!("{}: this output {what} too", output.display());
            return Err(CliError::new(Exit::Usage, message).with_help("Give each file a path of its own."));
        }
    }
    Ok(())
}

/// Whether a file can be written there, before there is anything to write: [`write_whole`] will, unless something changes meanwhile.
///
/// # Errors
/// [`Exit::Output`], as of [`write_whole`].
pub fn check_writable(path: &Path) -> Result<(), CliError> {
    let try_out = || {
        let path = &identity(path);
        if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Err(io::Error::other("not a regular file stands there"));
        }
        fs::create_dir_all(folder_of(path))?;
        tempfile::tempfile_in(folder_of(path)).map(drop)
    };
    try_out().map_err(|error| unwritable(path, &error))
}

/// A file that is written as things happen, and so not whole until they have.
///
/// # Errors
/// [`Exit::Output`], with the path. The folder is made when it is not there.
pub fn create(path: &Path) -> Result<File, CliError> {
    let made = fs::create_dir_all(folder_of(path)).and_then(|()| File::create(path));
    made.map_err(|error| unwritable(path, &error))
}

/// Why an output is not there, or not whole.
pub fn unwritable(path: &Path, error: &dyn std::error::Error) -> CliError {
    CliError::new(Exit::Output, format!("{}: cannot be written: {error}", path.display()))
        .with_help("Check that the folder can be written and the disk is not full.")
}

/// What `File::create` would give; temporary files are private otherwise.
fn permissions() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o666)
}

/// The output file of each item: `base` itself for a single one, `base` with the item's name before the extension
/// for several (`proof.json` becomes `proof.a.json`).
///
/// # Errors
/// [`Exit::Usage`] when two items have the same name.
pub fn names(base: &Path, items: &[String]) -> Result<Vec<PathBuf>, CliError> {
    if items.len() == 1 {
        return Ok(vec![base.to_owned()]);
    }
    let mut seen = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        if let Some(first) = seen.insert(item, index) {
            let message = format!(
                "inputs {first} and {index} are both named \"{item}\": their outputs would be one file"
            );
            return Err(
                CliError::new(Exit::Usage, message).with_help("Rename one, or prove them in two runs.")
            );
        }
    }
    let stem = base.file_stem().unwrap_or_default().to_string_lossy();
    let name = |item: &String| match base.extension() {
        Some(extension) => format!("{stem}.{item}.{}", extension.to_string_lossy()),
        None => format!("{stem}.{item}"),
    };
    Ok(items.iter().map(|item| base.with_file_name(name(item))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn one_output_keeps_its_name_and_several_are_named_after_their_inputs() {
        let base = Path::new("out/proof.json");
        assert_eq!(names(base, &strings(&["a"])).expect("one"), [base]);
        let several = names(base, &strings(&["a", "b.c"])).expect("two");
        assert_eq!(several, [Path::new("out/proof.a.json"), Path::new("out/proof.b.c.json")]);
        assert!(names(base, &strings(&["a", "b", "a"])).is_err());
    }

    #[test]
    fn a_failed_write_leaves_what_was_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sub/file");
        write_whole(&path, |writer| writer.write_all(b"old")).expect("written");
        let failed = write_whole(&path, |writer| {
            writer.write_all(b"new")?;
            Err(io::Error::other("disk gone"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).expect("still there"), b"old");
        assert_eq!(fs::read_dir(folder.path().join("sub")).expect("a folder").count(), 1);
    }
}
