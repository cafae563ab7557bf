//! `interlock policy new`: the crate of a policy, ready to be built.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::{CliError, Exit, print};
use crate::host::FALLBACK;

/// The files of the crate, with `@NAME@`, `@CRATE@`, `@TYPE@` and `@CHECKOUT@` for what differs.
const FILES: [(&str, &str); 5] = [
    ("Cargo.toml", include_str!("new/Cargo.toml.in")),
    ("README.md", include_str!("new/README.md.in")),
    ("plugins.ron", include_str!("new/plugins.ron.in")),
    ("src/lib.rs", include_str!("new/lib.rs.in")),
    ("tests/laws.rs", include_str!("new/laws.rs.in")),
];
/// The policies that ship beside the engine's own, each in a folder of this name.
const SHIPPED: [&str; 3] = ["single-lock", "two-lock", "vram-token"];
/// The folders of a checkout that the crate depends on.
const NEEDED: [&str; 2] = ["policy-api", "engine/conformance"];
/// The longest name.
const MOST_LETTERS: usize = 48;

#[derive(Debug, clap::Args)]
pub struct NewArgs {
    /// What the policy is called: lower-case letters, digits and '-'
    name: String,
    /// The folder to make [default: NAME]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// The checkout of Interlock whose policy-api the crate depends on [default: the one this program was built from]
    #[arg(long, value_name = "DIR")]
    checkout: Option<PathBuf>,
}

pub fn run(args: &NewArgs) -> Result<Exit, CliError> {
    check_name(&args.name)?;
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    if folder.symlink_metadata().is_ok() {
        return Err(CliError::new(Exit::Usage, format!("{}: is there already", folder.display()))
            .with_help("Give another name, or a folder by --path."));
    }
    let checkout = checkout(args.checkout.as_deref())?;
    write(&folder, &args.name, &checkout).map_err(|error| {
        CliError::new(Exit::Output, format!("{}: cannot be made: {error}", folder.display()))
    })?;
    print::text(&format!(
        "{folder}: the policy {name}\n\
         \n    cd {folder}\n    cargo build --release\n    interlock policy check target/release/libinterlock_{library}.so\n\
         \n{folder}/README.md says how to prove with it and how to seat it on a running engine.\n",
        folder = folder.display(),
        name = args.name,
        library = args.name.replace('-', "_"),
    ))?;
    Ok(Exit::Done)
}

/// A name that a package, a library and a type can be made of.
fn check_name(name: &str) -> Result<(), CliError> {
    if SHIPPED.contains(&name) {
        return Err(CliError::new(Exit::Usage, format!("{name:?} is a policy that ships with Interlock")).with_help(
            format!("Give yours a name of its own; policies/{name} of the checkout has the sources, to begin from."),
        ));
    }
    let words_are_good = name
        .split('-')
        .all(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()));
    let what = if name == FALLBACK {
        "is the engine's own"
    } else if name.len() > MOST_LETTERS {
        "is too long"
    } else if !words_are_good || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        "is no name for a policy"
    } else {
        return Ok(());
    };
    let help = "A name has lower-case letters, digits and single '-' between them, and starts with a letter: shortest-first.";
    Err(CliError::new(Exit::Usage, format!("{name:?} {what}")).with_help(help))
}

/// The checkout that was named, or the one that this program was built from.
fn checkout(named: Option<&Path>) -> Result<String, CliError> {
    let is_one = |folder: &Path| NEEDED.iter().all(|needed| folder.join(needed).join("Cargo.toml").is_file());
    let found = match named {
        Some(folder) if is_one(folder) => folder.to_owned(),
        Some(folder) => {
            let message = format!(
                "{}: no checkout of Interlock: there is no {}",
                folder.display(),
                NEEDED.join(" or no ")
            );
            return Err(CliError::new(Exit::Usage, message));
        }
        None => {
            let program = std::env::current_exe().unwrap_or_default();
            let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/"));
            let mut places = program.ancestors().skip(1).chain([built_from]);
            places.find(|folder| is_one(folder)).map(Path::to_owned).ok_or_else(|| {
                CliError::new(
                    Exit::Usage,
                    "the checkout of Interlock that this program was built from is not there any more",
                )
                .with_help("A policy depends on its folder policy-api: name a checkout by --checkout DIR.")
            })?
        }
    };
    let whole = fs::canonicalize(&found)
        .map_err(|error| CliError::new(Exit::Usage, format!("{}: {error}", found.display())))?;
    match whole.to_str() {
        Some(text) if !text.contains(['"', '\\']) && !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => {
            let message = format!("{}: has a name that cannot stand in a Cargo.toml", whole.display());
            Err(CliError::new(Exit::Usage, message))
        }
    }
}

/// Makes the folder whole or not at all: beside it first, then renamed.
fn write(folder: &Path, name: &str, checkout: &str) -> io::Result<()> {
    let parent = folder.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    let beside = tempfile::Builder::new().prefix(".interlock-policy-new-").tempdir_in(parent)?;
    let made = beside.path().join("crate");
    for (file, template) in FILES {
        let file = made.join(file);
        fs::create_dir_all(file.parent().unwrap_or(&made))?;
        fs::write(file, filled(template, name, checkout))?;
    }
    fs::write(made.join(".gitignore"), "/target\n/out\n")?;
    // The versions of all crates that the engine was built with, where they are known.
    let lock = Path::new(checkout).join("Cargo.lock");
    if lock.is_file() {
        fs::write(made.join("Cargo.lock"), fs::read(lock)?)?;
    }
    fs::rename(made, folder)
}

fn filled(template: &str, name: &str, checkout: &str) -> String {
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    // With an end that keeps it apart from the types of the API.
    let type_name = name.split('-').map(capital).collect::<String>() + "Policy";
    template
        .replace("@NAME@", name)
        .replace("@CRATE@", &name.replace('-', "_"))
        .replace("@TYPE@", &type_name)
        .replace("@CHECKOUT@", checkout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_make_no_crate_are_refused() {
        for name in ["", "-", "a-", "-a", "a--b", "1a", "A", "a_b", "a/b", "../a", "a b", "ä", FALLBACK] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(check_name(&"a".repeat(MOST_LETTERS + 1)).is_err());
        for name in ["a", "shortest-first", "fair2", "match", "a-1"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn names_of_policies_that_ship_are_refused() {
        let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies");
        for folder in fs::read_dir(policies).expect("they are there") {
            let name = folder.expect("an entry").file_name();
            assert!(check_name(&name.to_string_lossy()).is_err(), "{name:?}");
        }
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        for (file, template) in FILES {
            let text = filled(template, "shortest-first", "/src/interlock");
            assert!(!text.contains('@'), "{file}: {text}");
        }
        assert!(filled(FILES[3].1, "shortest-first", "/").contains("pub struct ShortestFirstPolicy {"));
    }
}
