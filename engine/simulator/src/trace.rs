//! Events as a trace that Perfetto opens: a span for each stage and each wait, by worker.

use std::io::{self, Write};
use std::sync::Mutex;

use interlock_arbiter::{Recorder, TimelineEvent, TimelineKind};
use serde::Serialize;

/// Process numbers of the trace: devices by their index, and synthesis.
const SYNTHESIS: u32 = u32::MAX;

/// Writes what happens in the JSON that Perfetto and Chrome read, with virtual times.
pub struct ChromeTrace<W: Write + Send> {
    state: Mutex<State<W>>,
}

struct State<W> {
    writer: W,
    begun: bool,
    error: Option<io::Error>,
}

/// One span, in the names of the trace format. Times are microseconds.
#[derive(Serialize)]
struct Span<'a> {
    name: &'a str,
    ph: &'static str,
    ts: f64,
    dur: f64,
    pid: u32,
    tid: u32,
    args: Arguments<'a>,
}

#[derive(Serialize)]
struct Arguments<'a> {
    job: Option<u64>,
    partition: Option<u32>,
    task: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    locks: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
}

impl<W: Write + Send> ChromeTrace<W> {
    /// A trace that is written to `writer`, which should be buffered. Call [`ChromeTrace::finish`] at the end.
    pub fn new(writer: W) -> Self {
        Self { state: Mutex::new(State { writer, begun: false, error: None }) }
    }

    /// Writes the end and what is buffered.
    ///
    /// # Errors
    /// The first error of any write since the trace began: spans after it are missing.
    pub fn finish(self) -> io::Result<W> {
        let State { mut writer, begun, error } =
            self.state.into_inner().unwrap_or_else(|state| state.into_inner());
        match error {
            Some(error) => return Err(error),
            None => writer.write_all(if begun { b"\n]\n" } else { b"[]\n" })?,
        }
        writer.flush()?;
        Ok(writer)
    }
}

impl<W: Write + Send> Recorder for ChromeTrace<W> {
    fn record(&self, event: &TimelineEvent) {
        let name = match (event.event, event.stage) {
            (TimelineKind::Entered, Some(_)) => "gate",
            (TimelineKind::Ended | TimelineKind::Failed, Some(stage)) => stage.name().unwrap_or("unknown"),
            (TimelineKind::Synthesized, _) => "synthesis",
            (TimelineKind::Verified, _) => "verify",
            _ => return,
        };
        let duration_ns = event.duration_ns.unwrap_or(0);
        let span = Span {
            name,
            ph: "X",
            ts: event.at_ns.saturating_sub(duration_ns) as f64 / 1e3,
            dur: duration_ns as f64 / 1e3,
            pid: event.device.unwrap_or(SYNTHESIS),
            tid: event.worker.unwrap_or(0),
            args: Arguments {
                job: event.job,
                partition: event.partition,
                task: event.task,
                locks: &event.locks,
                detail: &event.detail,
            },
        };
        let mut state = self.state.lock().unwrap_or_else(|state| state.into_inner());
        if state.error.is_none()
            && let Err(error) = state.write(&span)
        {
            state.error = Some(error);
        }
    }
}

impl<W: Write> State<W> {
    fn write(&mut self, span: &Span<'_>) -> io::Result<()> {
        self.writer.write_all(if self.begun { b",\n" } else { b"[\n" })?;
        self.begun = true;
        serde_json::to_writer(&mut self.writer, span)?;
        Ok(())
    }
}
