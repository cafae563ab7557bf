//! What is shown while a check runs.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use interlock_conformance::Progress;

/// How often a line on a terminal is written anew.
const ON_A_TERMINAL: Duration = Duration::from_millis(200);
/// How often a line is written elsewhere.
const ELSEWHERE: Duration = Duration::from_secs(5);

/// Does `work`, and says on standard error how far `progress` is until it is done: in one line on a terminal, in a line every few
/// seconds elsewhere. It keeps to the standard error there was when it began.
///
/// # Errors
/// There is no descriptor to be had.
pub fn watch<T>(progress: &Progress, work: impl FnOnce() -> T) -> io::Result<T> {
    let mut out = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let is_terminal = out.is_terminal();
    let every = if is_terminal { ON_A_TERMINAL } else { ELSEWHERE };
    let (working, done) = mpsc::channel::<()>();
    Ok(thread::scope(|threads| {
        threads.spawn(move || {
            // Where nothing can be shown, the check goes on all the same.
            while done.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let _ =
                    if is_terminal { write!(out, "\r{progress}\x1b[K") } else { writeln!(out, "{progress}") };
            }
            if is_terminal {
                let _ = write!(out, "\r\x1b[K");
            }
        });
        let _working = working;
        work()
    }))
}
