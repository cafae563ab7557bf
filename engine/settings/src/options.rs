//! Options of a policy: kept as the text they are, checked against the manifest's schema.

use std::fmt;
use std::path::PathBuf;

use interlock_policy_api::OptionDoc;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};

use crate::Position;

/// The names of option types a manifest may use, see [`interlock_policy_api::OptionType`].
pub const KINDS: [&str; 6] = ["bool", "u32", "u64", "i64", "f64", "string"];

/// Options of a policy as RON text. A library is handed the text verbatim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionsText {
    text: String,
    file: Option<(PathBuf, Position)>,
}

impl OptionsText {
    /// Options that come from no file, such as `(compute_permits: 2)`. An empty text means the defaults.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), file: None }
    }

    /// Options as they stand in `file`, from `start` on.
    pub fn in_file(text: &str, file: PathBuf, start: Position) -> Self {
        Self { text: text.to_owned(), file: Some((file, start)) }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Checks names and types against a schema.
    ///
    /// # Errors
    /// The first option that the schema does not have, that is of another type, or that is given twice.
    pub fn check(&self, schema: &[OptionDoc]) -> Result<OptionValues, OptionsError> {
        if self.text.trim().is_empty() {
            return Ok(OptionValues::default());
        }
        ron::Options::default().from_str_seed(&self.text, Schema(schema)).map_err(|error| OptionsError {
            file: self.file.as_ref().map(|(file, _)| file.clone()),
            position: Position::from(error.span.start)
                .within(self.file.as_ref().map_or(Position::START, |(_, start)| *start)),
            message: error.code.to_string(),
        })
    }
}

/// Why options were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionsError {
    /// The file the options stand in, if they came from one.
    pub file: Option<PathBuf>,
    /// Where: in the file, or in the text when it came from no file.
    pub position: Position,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl std::error::Error for OptionsError {}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}:{}: {}", file.display(), self.position, self.message),
            None => write!(f, "options, {}: {}", self.position, self.message),
        }
    }
}

/// One value, of the type its schema names.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// `bool`.
    Bool(bool),
    /// `u32`.
    U32(u32),
    /// `u64`.
    U64(u64),
    /// `i64`.
    I64(i64),
    /// `f64`.
    F64(f64),
    /// `string`.
    Text(String),
}

impl fmt::Display for OptionValue {
    /// As it is written in RON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::U32(value) => value.fmt(f),
            Self::U64(value) => value.fmt(f),
            Self::I64(value) => value.fmt(f),
            // With its point, also where there is nothing behind it.
            Self::F64(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "{value:?}"),
        }
    }
}

/// The options that were given, with their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptionValues(Vec<(String, OptionValue)>);

impl OptionValues {
    /// The value of an option, if it was given.
    pub fn get(&self, name: &str) -> Option<&OptionValue> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value)
    }

    /// All of them, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &OptionValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The value of a `u32` option, if it was given: what [`LockDoc::permits_option`] needs.
    ///
    /// [`LockDoc::permits_option`]: interlock_policy_api::LockDoc::permits_option
    pub fn permits(&self, name: &str) -> Option<u32> {
        match self.get(name)? {
            OptionValue::U32(permits) => Some(*permits),
            _ => None,
        }
    }
}

/// Reads a struct whose fields are only known at run time.
struct Schema<'s>(&'s [OptionDoc]);

impl<'de> DeserializeSeed<'de> for Schema<'_> {
    type Value = OptionValues;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<OptionValues, D::Error> {
        deserializer.deserialize_struct("", &[], self)
    }
}

impl<'de> Visitor<'de> for Schema<'_> {
    type Value = OptionValues;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("options such as (name: value)")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OptionValues, A::Error> {
        let mut values = OptionValues::default();
        while let Some(option) = map.next_key_seed(Name(self.0))? {
            if values.get(&option.name).is_some() {
                return Err(A::Error::custom(format!("option `{}` is given twice", option.name)));
            }
            let value = match option.kind.as_str() {
                "bool" => OptionValue::Bool(map.next_value()?),
                "u32" => OptionValue::U32(map.next_value()?),
                "u64" => OptionValue::U64(map.next_value()?),
                "i64" => OptionValue::I64(map.next_value()?),
                "f64" => OptionValue::F64(map.next_value()?),
                "string" => OptionValue::Text(map.next_value()?),
                kind => return Err(A::Error::custom(format!("the policy's schema has a type `{kind}`"))),
            };
            values.0.push((option.name.clone(), value));
        }
        Ok(values)
    }
}

/// Reads the name of an option and finds it in the schema.
struct Name<'s>(&'s [OptionDoc]);

impl<'de, 's> DeserializeSeed<'de> for Name<'s> {
    type Value = &'s OptionDoc;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'s OptionDoc, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'s> Visitor<'_> for Name<'s> {
    type Value = &'s OptionDoc;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of an option")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<&'s OptionDoc, E> {
        self.0.iter().find(|option| option.name == name).ok_or_else(|| {
            let known: Vec<_> = self.0.iter().map(|option| format!("`{}`", option.name)).collect();
            E::custom(if known.is_empty() {
                format!("unknown option `{name}`; this policy has no options")
            } else {
                format!("unknown option `{name}`; this policy has {}", known.join(", "))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Vec<OptionDoc> {
        KINDS
            .iter()
            .map(|kind| OptionDoc {
                name: format!("an_{kind}"),
                kind: (*kind).to_owned(),
                default: String::new(),
                doc: String::new(),
            })
            .collect()
    }

    fn refused(text: &str) -> OptionsError {
        OptionsText::new(text).check(&schema()).expect_err(text)
    }

    #[test]
    fn every_type_is_read() {
        let text =
            "(an_u32: 7, an_bool: true, an_u64: 5_000_000_000, an_i64: -3, an_f64: 0.5, an_string: \"x\")";
        let values = OptionsText::new(text).check(&schema()).expect("all options are good");
        assert_eq!(values.permits("an_u32"), Some(7));
        assert_eq!(values.get("an_bool"), Some(&OptionValue::Bool(true)));
        assert_eq!(values.get("an_u64"), Some(&OptionValue::U64(5_000_000_000)));
        assert_eq!(values.get("an_i64"), Some(&OptionValue::I64(-3)));
        assert_eq!(values.get("an_f64"), Some(&OptionValue::F64(0.5)));
        assert_eq!(values.get("an_string"), Some(&OptionValue::Text("x".into())));
        assert_eq!(values.get("absent"), None);
    }

    #[test]
    fn values_are_shown_as_they_are_read() {
        let text =
            "(an_u32: 7, an_bool: true, an_u64: 5000000000, an_i64: -3, an_f64: 1.0, an_string: \"x\\\"\")";
        let values = OptionsText::new(text).check(&schema()).expect("all options are good");
        let shown: Vec<String> = values.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(format!("({})", shown.join(", ")), text);
    }

    #[test]
    fn no_options_are_the_defaults() {
        for text in ["", "  ", "()", "( /* none */ )"] {
            assert_eq!(OptionsText::new(text).check(&schema()), Ok(OptionValues::default()), "{text:?}");
        }
    }

    #[test]
    fn an_unknown_option_is_named_with_its_place() {
        let error = refused("(an_u32: 1,\n  an_x: 2)");
        assert_eq!(error.position.line, 2);
        assert!((3..=7).contains(&error.position.column), "{error}");
        assert!(
            error.message.contains("unknown option `an_x`") && error.message.contains("`an_u64`"),
            "{error}"
        );
    }

    #[test]
    fn a_wrong_type_is_refused_where_it_stands() {
        for text in
            ["(an_u32: -1)", "(an_u32: 4294967296)", "(an_u32: \"1\")", "(an_bool: 1)", "(an_string: 3)"]
        {
            assert_eq!(refused(text).position.line, 1, "{text}");
        }
    }

    #[test]
    fn what_is_no_struct_is_refused() {
        for text in ["7", "(", "[1]", "{\"an_u32\": 1}", "(an_u32: 1, an_u32: 2)", "(an_u32: 1) x"] {
            refused(text);
        }
    }

    #[test]
    fn a_place_in_a_file_counts_from_the_files_start() {
        let start = Position { line: 10, column: 20 };
        let error = OptionsText::in_file("(nope: 1)", "plugins.ron".into(), start)
            .check(&schema())
            .expect_err("the option is unknown");
        assert_eq!(error.position.line, 10);
        assert!(error.position.column > 20, "{error}");
        assert!(error.to_string().starts_with("plugins.ron:10:"), "{error}");
    }
}
