//! Standard output, where a write that fails is an error and not a panic.

use std::io::{self, Write};

use super::{CliError, Exit};

/// Writes text to standard output. A reader that has gone away wants no more: that is no error.
///
/// # Errors
/// [`Exit::Output`].
pub fn text(text: &str) -> Result<(), CliError> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::new(Exit::Output, format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard output; see [`text`].
///
/// # Errors
/// [`Exit::Output`].
pub fn line(line: impl std::fmt::Display) -> Result<(), CliError> {
    text(&format!("{line}\n"))
}

/// Writes a value as JSON to standard output; see [`text`].
///
/// # Errors
/// [`Exit::Output`].
pub fn json(value: &impl serde::Serialize) -> Result<(), CliError> {
    line(serde_json::to_string_pretty(value).expect("what is printed is plain data"))
}
