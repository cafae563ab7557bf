//! SIGINT and SIGTERM: stop taking work, finish what runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::cli::{CliError, Exit};
use crate::pipeline::StopHandle;

/// Listens until it is dropped.
pub struct StopOnSignal {
    handle: Handle,
    seen: Arc<AtomicBool>,
}

/// Stops the engine at the first signal; ends the program at the second.
pub fn stop_on_signal(engine: StopHandle) -> Result<StopOnSignal, CliError> {
    let failed = |error| CliError::new(Exit::Config, format!("signals cannot be listened to: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let handle = signals.handle();
    let seen = Arc::new(AtomicBool::new(false));
    let flag = seen.clone();
    let listen = move || {
        for signal in signals.forever() {
            if flag.swap(true, Ordering::SeqCst) {
                // What shells report for a program that a signal ended.
                std::process::exit(128 + signal);
            }
            eprintln!("stopping: finishing what runs (again to end at once)");
            engine.stop();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map_err(failed)?;
    Ok(StopOnSignal { handle, seen })
}

impl StopOnSignal {
    /// Whether a signal came.
    pub fn interrupted(&self) -> bool {
        self.seen.load(Ordering::SeqCst)
    }
}

impl Drop for StopOnSignal {
    fn drop(&mut self) {
        self.handle.close();
    }
}
