//! Logs on standard error, and spans as a trace that Perfetto opens.

use std::fs::File;
use std::io::IsTerminal;

use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// Keeps the trace open; dropping it writes the rest.
pub struct TraceGuard {
    _flush: Option<FlushGuard>,
}

/// Starts logging for the whole program: warnings and worse on standard error unless `RUST_LOG` says
/// otherwise, with colours on a terminal only; and all spans and events into `trace`, in the JSON that Perfetto and Chrome read.
///
/// Call it once; a second call changes nothing and gives a guard of nothing.
pub fn start_logging(trace: Option<File>) -> TraceGuard {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let colours = std::io::stderr().is_terminal();
    let log =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours).with_target(false);
    let (layer, flush) = match trace {
        None => (None, None),
        Some(file) => {
            let (layer, flush) = ChromeLayerBuilder::new().writer(file).include_args(true).build();
            (Some(layer.with_filter(LevelFilter::INFO)), Some(flush))
        }
    };
    match tracing_subscriber::registry().with(layer).with(log.with_filter(filter)).try_init() {
        Ok(()) => TraceGuard { _flush: flush },
        Err(_) => TraceGuard { _flush: None },
    }
}
