//! Writes what a library's SHA-256 is into `plugins.ron`, and leaves every other letter of it alone.
//!
//! The text is edited at the place that the parser gives for the entry; the result is parsed again, and has to be the same
//! configuration but for the pin. The file is then replaced by a new one as a whole, if it is still what was read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ron::value::RawValue;
use rustix::fs::{FlockOperation, Gid, Uid, fchown, flock};
use serde::Deserialize;

use super::config::ron_options;
use super::{
    Config, ConfigError, FALLBACK, LoadError, LoadFault, OptionsText, PolicyConfig, Position, Sha256,
    Verified,
};

/// A pin, as it is and as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The policy.
    pub policy: String,
    /// The library that was found for it.
    pub library: PathBuf,
    /// What `plugins.ron` says.
    pub old: Option<Sha256>,
    /// What the library has.
    pub new: Sha256,
}

impl Pin {
    /// The line for the policy's entry in `plugins.ron`.
    pub fn line(&self) -> String {
        line(self.new)
    }
}

fn line(sha256: Sha256) -> String {
    format!("sha256: \"{sha256}\"")
}

/// Why no pin was written. The file is then as it was.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// There is no configuration to write into.
    #[error("no plugins.ron in the working directory or beside the program; --config names one")]
    NoConfig,
    /// The policy is part of the engine.
    #[error("\"{policy}\" is linked into the engine and has no library to pin")]
    Linked {
        /// The policy.
        policy: String,
    },
    /// There is no such policy, or its library would be refused for another reason than its pin.
    #[error(transparent)]
    Library(#[from] LoadError),
    /// The text is such that only a person should edit it.
    #[error("{}: the entry of \"{policy}\" cannot be edited safely: {why}", .file.display())]
    Text {
        /// The configuration.
        file: PathBuf,
        /// The policy.
        policy: String,
        /// What is unusual.
        why: String,
    },
    /// Somebody else changed the file in the meantime, or is about to.
    #[error("{}: was changed by somebody else in the meantime; nothing was written, run it again", .file.display())]
    Changed {
        /// The configuration.
        file: PathBuf,
    },
    /// The file is not to be written.
    #[error("{}: is read-only (mode {mode:04o}); nothing was written", .file.display())]
    ReadOnly {
        /// The configuration.
        file: PathBuf,
        /// Permission bits.
        mode: u32,
    },
    /// The file cannot be written.
    #[error("{}: cannot be replaced, and is as it was: {error}", .file.display())]
    Unwritable {
        /// The configuration.
        file: PathBuf,
        /// The system's word.
        error: io::Error,
    },
}

/// What the pins of these policies have to be; of all that have a library, when `policies` is `None`. The libraries pass every
/// other check.
///
/// # Errors
/// A policy is unknown or linked, or its library would be refused.
pub fn pins(config: &Config, policies: Option<&[String]>) -> Result<Vec<Pin>, PinError> {
    let file = config.file.clone().ok_or(PinError::NoConfig)?;
    let entry = |name: &String| match config.policy(name) {
        Some(entry) => Ok(entry),
        None if name == FALLBACK => Err(PinError::Linked { policy: name.clone() }),
        None => {
            let fault = LoadFault::UnknownPolicy { name: name.clone(), known: config.names() };
            Err(LoadError { file: file.clone(), fault }.into())
        }
    };
    let entries: Vec<&PolicyConfig> = match policies {
        Some(names) => names.iter().map(entry).collect::<Result<_, _>>()?,
        None => config.policies.iter().collect(),
    };
    let before = Config { trust: config.trust.before_pinning(), ..config.clone() };
    let pin = |entry: &PolicyConfig| {
        let verified = Verified::configured(&before, &PolicyConfig { sha256: None, ..entry.clone() })?;
        let (library, new) = (verified.file, verified.sha256);
        Ok(Pin { policy: entry.name.clone(), library, old: entry.sha256, new })
    };
    entries.into_iter().map(pin).collect()
}

/// The text of `plugins.ron` with these policies pinned.
///
/// # Errors
/// [`PinError::Text`]: there is no such entry, or the text is not what the edit expects; it may still be a good configuration.
pub fn with_pins(text: &str, file: &Path, pins: &[(&str, Sha256)]) -> Result<String, PinError> {
    let mut text = text.to_owned();
    for (policy, sha256) in pins {
        let refused =
            |why: String| PinError::Text { file: file.to_owned(), policy: (*policy).to_owned(), why };
        let before = Config::parse(&text, file).map_err(|error| refused(error.to_string()))?;
        let after = edited(&text, policy, *sha256).map_err(|why| refused(why.to_owned()))?;
        let mut expected = without_positions(before);
        let Some(entry) = expected.policies.iter_mut().find(|entry| entry.name == *policy) else {
            return Err(refused("there is none".to_owned()));
        };
        entry.sha256 = Some(*sha256);
        let found = Config::parse(&after, file).map(without_positions);
        match found {
            Ok(found) if found == expected => text = after,
            Ok(_) => return Err(refused("more than the pin would change".to_owned())),
            Err(error) => return Err(refused(format!("the text would not be read any more: {error}"))),
        }
    }
    Ok(text)
}

/// The places of entries move when something is put in before them.
fn without_positions(mut config: Config) -> Config {
    for policy in &mut config.policies {
        policy.position = Position::START;
        policy.options = OptionsText::new(policy.options.as_str());
    }
    config
}

/// The parts of the file that matter here, as they stand.
#[derive(Deserialize)]
#[serde(rename = "Config")]
struct Entries<'a> {
    #[serde(borrow, default)]
    policies: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
#[serde(rename = "Policy")]
struct Entry<'a> {
    #[serde(borrow)]
    name: &'a RawValue,
    #[serde(borrow, default)]
    sha256: Option<&'a RawValue>,
}

/// The edit itself.
fn edited(text: &str, policy: &str, sha256: Sha256) -> Result<String, &'static str> {
    let unusual = "it is written in an unusual way";
    let entries: Entries<'_> = ron_options().from_str(text).map_err(|_| unusual)?;
    let is_it = |entry: &&Entry<'_>| {
        ron_options().from_str::<String>(entry.name.get_ron()).is_ok_and(|name| name == policy)
    };
    let entry = entries.policies.iter().find(is_it).ok_or("there is none")?;
    let span = |raw: &RawValue| {
        let start = (raw.get_ron().as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
        let start = after_trivia(text, start)?;
        Some(start..after_string(text, start)?)
    };
    let mut edited = text.to_owned();
    if let Some(old) = entry.sha256 {
        edited.replace_range(span(old).ok_or(unusual)?, &format!("\"{sha256}\""));
        return Ok(edited);
    }
    let name = span(entry.name).ok_or(unusual)?;
    let (at, inserted) = match own_line(text, name.start, name.end) {
        Some(OwnLine { next, indent, newline }) => (next, format!("{indent}{},{newline}", line(sha256))),
        None => (name.end, format!(", {}", line(sha256))),
    };
    edited.insert_str(at, &inserted);
    Ok(edited)
}

/// Where to put a line of its own.
struct OwnLine<'a> {
    next: usize,
    indent: &'a str,
    newline: &'a str,
}

/// The place after the line `name: "…",` where the name has a line to itself, perhaps with a comment.
fn own_line(text: &str, start: usize, end: usize) -> Option<OwnLine<'_>> {
    let before = &text[..start];
    let line = &before[before.rfind('\n')? + 1..];
    let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
    let key = line.trim().strip_suffix(':')?.trim_end();
    let length = text[end..].find('\n')?;
    let rest = text[end..end + length].trim().strip_prefix(',')?.trim_start();
    if key != "name" || !(rest.is_empty() || rest.starts_with("//")) {
        return None;
    }
    let newline = if text[..end + length].ends_with('\r') { "\r\n" } else { "\n" };
    Some(OwnLine { next: end + length + 1, indent, newline })
}

/// Past blanks and comments; `None` if a comment has no end.
fn after_trivia(text: &str, mut at: usize) -> Option<usize> {
    loop {
        let rest = text.get(at..)?;
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        if trimmed.starts_with("//") {
            at += trimmed.find('\n')? + 1;
        } else if trimmed.starts_with("/*") {
            at += comment_length(trimmed)?;
        } else {
            return Some(at);
        }
    }
}

/// How long a comment `/* … */` is, with those inside it.
fn comment_length(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        let rest = text.get(at..)?;
        let (change, length) = match rest.as_bytes() {
            [b'/', b'*', ..] => (1, 2),
            [b'*', b'/', ..] => (-1, 2),
            _ => (0, rest.chars().next()?.len_utf8()),
        };
        at += length;
        depth = depth.checked_add_signed(change)?;
        if depth == 0 {
            return Some(at);
        }
    }
}

/// Past the string that begins here, plain or raw; `None` if something else does.
fn after_string(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    if let Some(raw) = rest.strip_prefix('r') {
        let marks = raw.len() - raw.trim_start_matches('#').len();
        let inner = raw[marks..].strip_prefix('"')?;
        let close = format!("\"{}", "#".repeat(marks));
        return Some(at + 1 + marks + 1 + inner.find(&close)? + close.len());
    }
    let mut escaped = false;
    for (offset, letter) in rest.strip_prefix('"')?.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 1 + offset + 1),
            _ => (),
        }
    }
    None
}

/// Writes pins into the file that `config` came from. Those that are right already change nothing.
///
/// A symbolic link is followed. The file keeps its mode and owner.
///
/// # Errors
/// The text cannot be edited, the file is read-only, cannot be replaced, or is not what was read any more.
pub fn write_pins(config: &Config, pins: &[Pin]) -> Result<(), PinError> {
    let file = config.file.as_deref().ok_or(PinError::NoConfig)?;
    let unwritable = |error| PinError::Unwritable { file: file.to_owned(), error };
    let changed = || PinError::Changed { file: file.to_owned() };
    let wanted: Vec<(&str, Sha256)> = pins
        .iter()
        .filter(|pin| pin.old != Some(pin.new))
        .map(|pin| (pin.policy.as_str(), pin.new))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let target = fs::canonicalize(file).map_err(unwritable)?;
    let mut opened = writable(file, &target)?;
    let mut before = String::new();
    opened.read_to_string(&mut before).map_err(unwritable)?;
    // The pins are those of this text's libraries.
    match Config::parse(&before, file) {
        Ok(read) if read == *config => (),
        Ok(_) | Err(ConfigError { .. }) => return Err(changed()),
    }
    let after = with_pins(&before, file, &wanted)?;
    let replacement = replacement(&target, &opened, &after).map_err(unwritable)?;
    // Nobody who asks for the lock wrote since, and whoever does not ask is seen here.
    let same = |metadata: fs::Metadata| Ok(metadata.ino() == opened.metadata()?.ino());
    let untouched = fs::metadata(&target).and_then(same).map_err(unwritable)?
        && fs::read(&target).map_err(unwritable)? == before.as_bytes();
    if !untouched {
        return Err(changed());
    }
    replacement.persist(&target).map_err(|error| unwritable(error.error))?;
    // The file is whole either way; whether it is the new one after a power failure is up to the folder.
    let folder = target.parent().unwrap_or(Path::new("/"));
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::warn!("{}: the new file may be lost if the power fails now: {error}", file.display());
    }
    Ok(())
}

/// Opens the configuration for writing and locks it.
fn writable(file: &Path, target: &Path) -> Result<File, PinError> {
    let unwritable = |error| PinError::Unwritable { file: file.to_owned(), error };
    let mode = fs::metadata(target).map_err(unwritable)?.permissions().mode() & 0o7777;
    // Root can write it all the same, but somebody did not want it written.
    if mode & 0o222 == 0 {
        return Err(PinError::ReadOnly { file: file.to_owned(), mode });
    }
    let opened = OpenOptions::new().read(true).write(true).open(target).map_err(unwritable)?;
    flock(&opened, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| PinError::Changed { file: file.to_owned() })?;
    Ok(opened)
}

/// A file beside `target`, whole, with the owner and the mode of `original`.
fn replacement(target: &Path, original: &File, text: &str) -> io::Result<tempfile::NamedTempFile> {
    let metadata = original.metadata()?;
    let folder = target.parent().unwrap_or(Path::new("/"));
    let mut new = tempfile::Builder::new().prefix(".plugins.ron.").tempfile_in(folder)?;
    new.write_all(text.as_bytes())?;
    let own = new.as_file().metadata()?;
    if (own.uid(), own.gid()) != (metadata.uid(), metadata.gid()) {
        fchown(new.as_file(), Some(Uid::from_raw(metadata.uid())), Some(Gid::from_raw(metadata.gid())))?;
    }
    new.as_file().set_permissions(metadata.permissions())?;
    new.as_file().sync_all()?;
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(text: &str) -> String {
        let sha256 = Sha256::of(b"abc");
        let after = with_pins(text, Path::new("plugins.ron"), &[("b", sha256)]).expect(text);
        after.replace(&line(sha256), "PIN")
    }

    #[test]
    fn a_pin_goes_where_a_person_would_put_it() {
        for (before, after) in [
            ("(policies: [(name: \"b\")])", "(policies: [(name: \"b\", PIN)])"),
            ("(policies: [(name: \"b\",)])", "(policies: [(name: \"b\", PIN,)])"),
            (
                "(policies: [\n  (\n    name: \"b\", // b\n    options: (),\n  ),\n])",
                "(policies: [\n  (\n    name: \"b\", // b\n    PIN,\n    options: (),\n  ),\n])",
            ),
            (
                "(policies: [\n\t(\r\n\t\tname: \"b\",\r\n\t),\n])",
                "(policies: [\n\t(\r\n\t\tname: \"b\",\r\n\t\tPIN,\r\n\t),\n])",
            ),
            (
                "(policies: [\n (options: (),\n name: r#\"b\"# /* \"c\" */\n)])",
                "(policies: [\n (options: (),\n name: r#\"b\"#, PIN /* \"c\" */\n)])",
            ),
            (
                "(policies: [(name: /* \"a\" /* , */ */ \"\\u{62}\" // x, y\n)])",
                "(policies: [(name: /* \"a\" /* , */ */ \"\\u{62}\", PIN // x, y\n)])",
            ),
        ] {
            assert_eq!(pinned(before), after);
        }
    }

    #[test]
    fn an_old_pin_is_replaced_where_it_stands() {
        let old = Sha256::of(b"old");
        for (before, after) in [
            ("\"OLD\"", "PIN"),
            ("Some(\"OLD\")", "sha256: Some(\"NEW\")"),
            ("/* was */ r##\"OLD\"## // since\n", "sha256: /* was */ \"NEW\" // since\n"),
        ] {
            let text = |sha256: &str| format!("(policies: [(name: \"a\"), (name: \"b\", {sha256})])");
            let after = text(after).replace("NEW", &Sha256::of(b"abc").to_string());
            let after = after.replace(&line(Sha256::of(b"abc")), "PIN");
            assert_eq!(pinned(&text(&format!("sha256: {before}")).replace("OLD", &old.to_string())), after);
        }
    }

    #[test]
    fn what_cannot_be_edited_is_left_to_a_person() {
        for text in ["()", "(policies: [(name: \"a\")])", "(policies: [(name: \"b\", sha256: None)])"] {
            let refused = with_pins(text, Path::new("plugins.ron"), &[("b", Sha256::of(b"abc"))]);
            assert!(matches!(refused, Err(PinError::Text { .. })), "{text}: {refused:?}");
        }
    }
}
