//! The timeline as CSV: one line for each event.

use std::io::Write;

use parking_lot::Mutex;

use crate::pipeline::{Recorder, TimelineEvent};

/// Writes events as CSV, with a header line, in the fields and order of [`TimelineEvent`].
pub struct CsvTimeline<W: Write + Send> {
    state: Mutex<State<W>>,
}

struct State<W: Write> {
    writer: csv::Writer<W>,
    error: Option<csv::Error>,
}

impl<W: Write + Send> CsvTimeline<W> {
    /// A timeline that is written to `writer`. It is buffered: call [`CsvTimeline::finish`].
    pub fn new(writer: W) -> Self {
        let state = State { writer: csv::Writer::from_writer(writer), error: None };
        Self { state: Mutex::new(state) }
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// The first error of any write since the timeline began: lines after it are missing.
    pub fn finish(&self) -> Result<(), csv::Error> {
        let mut state = self.state.lock();
        match state.error.take() {
            Some(error) => Err(error),
            None => Ok(state.writer.flush()?),
        }
    }
}

impl<W: Write + Send> Recorder for CsvTimeline<W> {
    fn record(&self, event: &TimelineEvent) {
        let mut state = self.state.lock();
        if state.error.is_none()
            && let Err(error) = state.writer.serialize(event)
        {
            state.error = Some(error);
        }
    }
}
