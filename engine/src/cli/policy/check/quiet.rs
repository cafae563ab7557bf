//! The first panic of a policy in this process is shown, and no other.
//!
//! A library has a standard library of its own, whose panic hook cannot be changed from here: it writes to standard error. So
//! standard error is a pipe while such a policy is checked.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};

use rustix::stdio::dup2_stderr;

/// What the message of a panic has in its first line; the next one says why.
const MARK: &[u8] = b"panicked at ";

/// Lets the first panic through to standard error, without a backtrace; what comes after it is dropped, but counted.
pub struct FirstPanic {
    /// The standard error there was.
    before: OwnedFd,
    reader: Option<JoinHandle<u64>>,
}

impl FirstPanic {
    /// From here on.
    ///
    /// # Errors
    /// There is no descriptor or no thread to be had.
    pub fn only() -> io::Result<Self> {
        let before = io::stderr().as_fd().try_clone_to_owned()?;
        let shown = std::fs::File::from(before.try_clone()?);
        let (from, to) = io::pipe()?;
        let reader = thread::Builder::new()
            .name("first-panic".to_owned())
            .spawn(move || pass(BufReader::new(from), shown))?;
        dup2_stderr(&to)?;
        Ok(Self { before, reader: Some(reader) })
    }
}

impl Drop for FirstPanic {
    fn drop(&mut self) {
        // The reader comes to its end when nobody writes to the pipe any more.
        if dup2_stderr(&self.before).is_err() {
            return;
        }
        let panics = self.reader.take().and_then(|reader| reader.join().ok()).unwrap_or(0);
        if panics > 1 {
            eprintln!("note: the policy panicked {panics} times while it was asked; the first one is shown");
        }
    }
}

/// Copies all up to the first panic and its reason. Returns how many panics there were.
fn pass(mut from: impl BufRead, mut to: impl Write) -> u64 {
    let mut panics = 0;
    let mut reason_is_next = false;
    let mut line = Vec::new();
    while matches!(from.read_until(b'\n', &mut line), Ok(1..)) {
        let is_panic = line.windows(MARK.len()).any(|part| part == MARK);
        panics += u64::from(is_panic);
        if panics == 0 || reason_is_next || (is_panic && panics == 1) {
            // Where nothing can be shown, the check goes on all the same.
            let _ = to.write_all(&line);
        }
        reason_is_next = is_panic && panics == 1;
        line.clear();
    }
    panics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_panic_and_what_came_before_it_is_passed_on() {
        let panic = "\nthread 'a' (1) panicked at src/lib.rs:1:2:\nwhy\nstack backtrace:\n   0: f\n";
        let text = format!("a warning\n{panic}{panic}{panic}");
        let mut shown = Vec::new();
        assert_eq!(pass(text.as_bytes(), &mut shown), 3);
        let shown = String::from_utf8(shown).expect("text");
        assert_eq!(shown, "a warning\n\nthread 'a' (1) panicked at src/lib.rs:1:2:\nwhy\n");
        assert_eq!(pass(&b"no end"[..], &mut Vec::new()), 0);
    }
}
