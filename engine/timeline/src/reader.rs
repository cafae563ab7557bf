//! From a file to events, each with its line. Nothing here knows what the events mean.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, DeserializeError, ErrorKind, StringRecord};
use interlock_arbiter::{TimelineEvent, TimelineKind};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;

use crate::error::{Place, Problem, ReadError};

const EVENT: &str = "event";
/// Columns that every timeline has had from the beginning.
const COLUMNS: [&str; 13] = [
    "at_ns",
    "event",
    "core",
    "device",
    "worker",
    "job",
    "partition",
    "task",
    "stage",
    "duration_ns",
    "bytes",
    "locks",
    "detail",
];

/// Reads a timeline, one event at a time. Columns that it does not know are passed over.
///
/// Its memory is that of one line.
pub struct Reader<R> {
    file: PathBuf,
    csv: csv::Reader<Ending<R>>,
    header: StringRecord,
    record: StringRecord,
}

/// An event and the line it stands in.
pub type Line = (u64, TimelineEvent);

impl<R: Read> Reader<R> {
    /// A reader of `source`, which errors will call `file`.
    ///
    /// # Errors
    /// The header cannot be read or lacks a column.
    pub fn new(file: &Path, source: R) -> Result<Self, ReadError> {
        let source = Ending { inner: BufReader::with_capacity(1 << 16, source), last: b'\n' };
        let mut csv = csv::ReaderBuilder::new().buffer_capacity(1 << 16).from_reader(source);
        let header = csv.byte_headers().cloned().map_err(|error| csv_error(file, error, None))?;
        let header = text_header(file, &header)?;
        if let Some(missing) = COLUMNS.into_iter().find(|column| !header.iter().any(|name| name == *column)) {
            let place = Place { line: Some(1), column: None };
            return Err(ReadError::new(file, place, Problem::NotATimeline { missing }));
        }
        Ok(Self { file: file.to_owned(), csv, header, record: StringRecord::new() })
    }

    /// An error about the event of `line`.
    pub(crate) fn error(&self, line: u64, column: Option<&str>, problem: Problem) -> ReadError {
        ReadError::new(&self.file, Place { line: Some(line), column: column.map(str::to_owned) }, problem)
    }

    fn read(&mut self) -> Result<Option<Line>, ReadError> {
        let more = self.csv.read_record(&mut self.record);
        let line = self.record.position().map_or(self.csv.position().line(), csv::Position::line);
        // A broken end explains whatever else is wrong with the last line, so that is looked at first.
        if self.csv.is_done() && self.csv.get_ref().last != b'\n' {
            return Err(self.error(line, None, Problem::Truncated));
        }
        match more {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(csv_error(&self.file, error, Some((&self.header, &self.record)))),
        }
        let event = self
            .record
            .deserialize(Some(&self.header))
            .map_err(|error| csv_error(&self.file, error, Some((&self.header, &self.record))))?;
        Ok(Some((line, event)))
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Line, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// A header that is not text is no timeline's.
fn text_header(file: &Path, header: &ByteRecord) -> Result<StringRecord, ReadError> {
    StringRecord::from_byte_record(header.clone()).map_err(|_| {
        ReadError::new(
            file,
            Place { line: Some(1), column: None },
            Problem::NotATimeline { missing: COLUMNS[0] },
        )
    })
}

fn csv_error(file: &Path, error: csv::Error, line: Option<(&StringRecord, &StringRecord)>) -> ReadError {
    let mut place = Place { line: error.position().map(csv::Position::line), column: None };
    let problem = match error.into_kind() {
        ErrorKind::Io(error) => Problem::Io(error),
        ErrorKind::Utf8 { .. } => Problem::NotText,
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            Problem::Columns { expected: expected_len, found: len }
        }
        ErrorKind::Deserialize { err, .. } => {
            let (column, found) = line.and_then(|line| culprit(&err, line)).unzip();
            let found = found.unwrap_or_default();
            let unknown = column.as_deref() == Some(EVENT);
            place.column = column;
            if unknown {
                Problem::UnknownEvent(found)
            } else {
                Problem::Value { found, message: err.kind().to_string() }
            }
        }
        other => Problem::Value { found: String::new(), message: format!("{other:?}") },
    };
    ReadError::new(file, place, problem)
}

/// Name and value of the column that could not be deserialized.
fn culprit(
    error: &DeserializeError,
    (header, record): (&StringRecord, &StringRecord),
) -> Option<(String, String)> {
    let of = |index: usize| Some((header.get(index)?.to_owned(), record.get(index)?.to_owned()));
    if let Some(index) = error.field() {
        return of(usize::try_from(index).ok()?);
    }
    // The two columns of names: of their values csv does not say where they are.
    let index_of = |column: &str| header.iter().position(|name| name == column);
    let event = index_of(EVENT)?;
    let value: StrDeserializer<'_, serde::de::value::Error> = record.get(event)?.into_deserializer();
    if TimelineKind::deserialize(value).is_err() { of(event) } else { of(index_of("stage")?) }
}

/// Passes bytes on, and remembers the last one: a file that breaks off does not end with a line's end.
struct Ending<R> {
    inner: BufReader<R>,
    last: u8,
}

impl<R: Read> Read for Ending<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if let Some(last) = buffer[..read].last() {
            self.last = *last;
        }
        Ok(read)
    }
}
