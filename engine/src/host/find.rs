//! Where `plugins.ron` and the libraries it names are looked for.

use std::path::{Path, PathBuf};

use super::{Config, ConfigError};

/// The name of the configuration file.
pub const CONFIG_FILE: &str = "plugins.ron";

/// Finds and reads the configuration: `explicit` if given, else `plugins.ron` in the working directory,
/// else beside the running program. With none of them the built-in defaults hold.
///
/// A file that is found must be one that only root, the user, or who owns the program could have put there:
/// it says what code is run. A file that is named may be anybody's; the log warns.
///
/// # Errors
/// The first of the files that exists (or the explicit one) cannot be read or is refused.
pub fn find_config(explicit: Option<&Path>) -> Result<Config, ConfigError> {
    if let Some(file) = explicit {
        return Config::read(file);
    }
    let beside_program = program_folder().map(|folder| folder.join(CONFIG_FILE));
    let places = [Some(PathBuf::from(CONFIG_FILE)), beside_program];
    match places.into_iter().flatten().find(|file| file.exists()) {
        Some(file) => Config::read_found(&file),
        None => Ok(Config::default()),
    }
}

/// The places where a library of this name is looked for, in order.
///
/// An absolute path is itself. A path with a slash starts from the folder of `plugins.ron`. A bare file name
/// is looked for in that folder, then in the folder of the running program, then in `target/release`
/// under the folder of `plugins.ron`: a fresh clone works after `cargo build --release`.
pub fn library_places(config: &Config, library: &Path) -> Vec<PathBuf> {
    let folder = config.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    if library.components().count() > 1 || library.is_absolute() {
        return vec![folder.join(library)];
    }
    let mut places = vec![folder.join(library)];
    places.extend(program_folder().map(|program| program.join(library)));
    places.push(folder.join("target/release").join(library));
    places
}

fn program_folder() -> Option<PathBuf> {
    std::env::current_exe().ok()?.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(file: &str) -> Config {
        Config { file: Some(file.into()), ..Config::default() }
    }

    #[test]
    fn a_path_is_taken_from_the_configurations_folder() {
        let config = config("conf/plugins.ron");
        assert_eq!(library_places(&config, Path::new("lib/a.so")), [PathBuf::from("conf/lib/a.so")]);
        assert_eq!(library_places(&config, Path::new("/lib/a.so")), [PathBuf::from("/lib/a.so")]);
        assert_eq!(library_places(&config, Path::new("./a.so")), [PathBuf::from("conf/./a.so")]);
    }

    #[test]
    fn a_bare_name_is_looked_for() {
        let places = library_places(&config("conf/plugins.ron"), Path::new("a.so"));
        let program = program_folder().expect("the test runs from a file").join("a.so");
        assert_eq!(places, ["conf/a.so".into(), program, PathBuf::from("conf/target/release/a.so")]);
    }

    #[test]
    fn an_explicit_file_must_be_there() {
        let error = find_config(Some(Path::new("/no/such/plugins.ron"))).expect_err("there is none");
        assert!(error.to_string().starts_with("/no/such/plugins.ron: cannot be read"), "{error}");
    }
}
