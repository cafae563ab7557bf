//! Events as a trace that Perfetto opens: a span for each stage and each wait, by worker.

use std::io::{self, Write};
use std::sync::Mutex;

use interlock_arbiter::{Recorder, TimelineEvent, TimelineKind};
use serde::Serialize;

/// Synthesis is a process of the trace, as each device is by its index: more than there are devices.
const SYNTHESIS: u32 = 100_000;

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

/// The name of a process of the trace.
#[derive(Serialize)]
struct ProcessName<'a> {
    name: &'static str,
    ph: &'static str,
    pid: u32,
    args: Named<'a>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
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
        match (event.event, event.stage) {
            (TimelineKind::Engine, _) => self.write(&ProcessName::new(SYNTHESIS, "synthesis")),
            (TimelineKind::Device, _) => {
                self.write(&ProcessName::new(event.device.unwrap_or(0), &event.detail));
            }
            (TimelineKind::Entered, Some(_)) => self.write(&Span::of("gate", event)),
            (TimelineKind::Ended | TimelineKind::Failed, Some(stage)) => {
                self.write(&Span::of(stage.name().unwrap_or("unknown"), event));
            }
            (TimelineKind::Synthesized, _) => self.write(&Span::of("synthesis", event)),
            (TimelineKind::Verified, _) => self.write(&Span::of("verify", event)),
            _ => {}
        }
    }
}

impl<W: Write + Send> ChromeTrace<W> {
    fn write(&self, entry: &impl Serialize) {
        let mut state = self.state.lock().unwrap_or_else(|state| state.into_inner());
        if state.error.is_none()
            && let Err(error) = state.write(entry)
        {
            state.error = Some(error);
        }
    }
}

impl<'a> ProcessName<'a> {
    fn new(pid: u32, name: &'a str) -> Self {
        Self { name: "process_name", ph: "M", pid, args: Named { name } }
    }
}

impl<'a> Span<'a> {
    /// The time that ends with an event.
    fn of(name: &'a str, event: &'a TimelineEvent) -> Self {
        let duration_ns = event.duration_ns.unwrap_or(0);
        Self {
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
        }
    }
}

impl<W: Write> State<W> {
    fn write(&mut self, entry: &impl Serialize) -> io::Result<()> {
        self.writer.write_all(if self.begun { b",\n" } else { b"[\n" })?;
        self.begun = true;
        serde_json::to_writer(&mut self.writer, entry)?;
        Ok(())
    }
}
