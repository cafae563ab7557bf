//! From a text to a scenario, and from a faulty value back to its place in the text.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use interlock_settings::Position;
use ron::extensions::Extensions;
use ron::ser::PrettyConfig;
use ron::value::RawValue;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::error::MOST_SCENARIO_BYTES;
use super::{Scenario, ScenarioError, ScenarioFault};

/// The extensions with which scenarios are read and written: `cores: 16` without `Some(…)`, as in `plugins.ron`.
const EXTENSIONS: Extensions = Extensions::IMPLICIT_SOME;

/// A step on the way to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Field(&'static str),
    Item(usize),
}

impl Scenario {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// What is wrong, with the place of the value in the file.
    pub fn read(file: &Path) -> Result<Scenario, ScenarioError> {
        let failed = |fault| ScenarioError { file: Some(file.to_owned()), position: None, fault };
        let mut bytes = Vec::new();
        File::open(file)
            .and_then(|opened| opened.take(MOST_SCENARIO_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|error| failed(error.into()))?;
        if bytes.len() as u64 > MOST_SCENARIO_BYTES {
            return Err(failed(ScenarioFault::TooLong));
        }
        let text = String::from_utf8(bytes).map_err(|_| failed(ScenarioFault::NotText))?;
        Scenario::parse(&text, Some(file.to_owned()))
    }

    /// Reads and checks a text; `file` is its name in errors.
    ///
    /// # Errors
    /// As [`Scenario::read`].
    pub fn parse(text: &str, file: Option<PathBuf>) -> Result<Scenario, ScenarioError> {
        let options = ron::Options::default().with_default_extension(EXTENSIONS);
        let scenario: Scenario = options.from_str(text).map_err(|error| ScenarioError {
            file: file.clone(),
            position: Some(before_quote(text, Position::from(error.span.start))),
            fault: ScenarioFault::Syntax(error.code.to_string()),
        })?;
        scenario.faults_at().map_err(|(path, fault)| ScenarioError {
            file,
            position: Some(place(text, &path)),
            fault,
        })?;
        Ok(scenario)
    }

    /// Checks a scenario that a program has put together.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), ScenarioError> {
        self.faults_at().map_err(|(_, fault)| ScenarioError { file: None, position: None, fault })
    }

    /// The scenario as a text that [`Scenario::parse`] reads.
    pub fn to_ron(&self) -> String {
        let pretty = PrettyConfig::new().extensions(EXTENSIONS).separate_tuple_members(false);
        let options = ron::Options::default();
        options.to_string_pretty(self, pretty).expect("plain data is written") + "\n"
    }
}

/// A string begins with its quote; what is wrong with one is told of the first character behind.
fn before_quote(text: &str, position: Position) -> Position {
    let Position { line, column } = position;
    let line_text = text.lines().nth(line - 1).unwrap_or("");
    let before = column.checked_sub(2).and_then(|index| line_text.chars().nth(index));
    if before == Some('"') { Position { line, column: column - 1 } } else { position }
}

/// Where the value at the end of a path stands; where a field was left out, what it was left out of.
fn place(text: &str, path: &[Step]) -> Position {
    let mut part = text;
    for step in path {
        let options = ron::Options::default().with_default_extension(EXTENSIONS);
        match options.from_str_seed(part, Find(*step)) {
            Ok(Some(found)) => part = found.get_ron(),
            _ => break,
        }
    }
    let part = part.trim_start();
    Position::of_part(text, part)
}

/// Finds the text of one field or item, and passes over all others.
struct Find(Step);

impl<'de> DeserializeSeed<'de> for Find {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("something with parts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = map.next_key::<String>()? {
            if matches!(self.0, Step::Field(field) if field == name) {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let (mut found, mut index) = (None, 0);
        while let Some(item) = sequence.next_element::<&'de RawValue>()? {
            if self.0 == Step::Item(index) {
                found = Some(item);
            }
            index += 1;
        }
        Ok(found)
    }
}
