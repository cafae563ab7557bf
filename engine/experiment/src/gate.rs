//! Conditions on the figures of an experiment, for a build that is to fail when one holds.

use std::collections::BTreeMap;

use cel::{Context, Program, Value};

/// A condition in CEL, the Common Expression Language, such as `B.proofs_per_s < 0.97 * A.proofs_per_s`: arms are A, B, C, … in the order in which they
/// were named, and each has its figures as fields.
pub struct Gate {
    text: String,
    program: Program,
}

/// Why a condition has no answer.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// It is no expression.
    #[error("\"{text}\" is no condition: {message}")]
    Syntax {
        /// The condition.
        text: String,
        /// What is wrong with it.
        message: String,
    },
    /// It names what is not there, or compares what cannot be compared.
    #[error("\"{text}\" cannot be worked out: {message}; there are {known}")]
    Unknown {
        /// The condition.
        text: String,
        /// What is wrong with it.
        message: String,
        /// Names that can be used.
        known: String,
    },
    /// It is a number, say.
    #[error(
        "\"{text}\" is neither true nor false; compare figures with <, <=, >, >=, == or !=, as in B.proofs_per_s < 0.97 * A.proofs_per_s"
    )]
    NotBool {
        /// The condition.
        text: String,
    },
}

/// The figures of the arms by name: `figures["A"]["proofs_per_s"]`.
pub type Figures = BTreeMap<String, BTreeMap<String, f64>>;

impl Gate {
    /// Reads a condition.
    ///
    /// # Errors
    /// [`GateError::Syntax`].
    pub fn parse(text: &str) -> Result<Gate, GateError> {
        match Program::compile(text) {
            Ok(program) => Ok(Gate { text: text.to_owned(), program }),
            Err(error) => Err(GateError::Syntax { text: text.to_owned(), message: error.to_string() }),
        }
    }

    /// The condition as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the condition holds.
    ///
    /// # Errors
    /// A name that is not there, or an expression that is neither true nor false.
    pub fn holds(&self, figures: &Figures) -> Result<bool, GateError> {
        let unknown =
            |message: String| GateError::Unknown { text: self.text.clone(), message, known: known(figures) };
        let mut context = Context::default();
        for (arm, figures) in figures {
            let figures: std::collections::HashMap<String, Value> =
                figures.iter().map(|(name, figure)| (name.clone(), Value::Float(*figure))).collect();
            context.add_variable_from_value(arm.clone(), figures);
        }
        match self.program.execute(&context) {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err(GateError::NotBool { text: self.text.clone() }),
            Err(error) => Err(unknown(error.to_string())),
        }
    }
}

fn known(figures: &Figures) -> String {
    let arms: Vec<&str> = figures.keys().map(String::as_str).collect();
    let names: Vec<&str> =
        figures.values().next().map_or(Vec::new(), |figures| figures.keys().map(String::as_str).collect());
    format!("the arms {}, each with {}", arms.join(", "), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let arm = |proofs: f64, skips: f64| {
            BTreeMap::from([("proofs_per_s".to_owned(), proofs), ("skips".to_owned(), skips)])
        };
        Figures::from([("A".to_owned(), arm(10.0, 0.0)), ("B".to_owned(), arm(9.6, 3.0))])
    }

    fn holds(text: &str) -> Result<bool, GateError> {
        Gate::parse(text)?.holds(&figures())
    }

    #[test]
    fn conditions_are_worked_out() {
        for (text, expected) in [
            ("B.proofs_per_s < 0.97 * A.proofs_per_s", true),
            ("B.proofs_per_s < 0.95 * A.proofs_per_s", false),
            ("B.skips > 2.0 || A.skips > 2.0", true),
            ("B.skips > 2", true),
            ("A.proofs_per_s - B.proofs_per_s > 1.0", false),
            ("!(A.proofs_per_s >= 10.0)", false),
        ] {
            assert_eq!(holds(text).expect(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for text in ["", "B.proofs_per_s <", "1 +* 2", "((("] {
            assert!(matches!(holds(text), Err(GateError::Syntax { .. })), "{text}");
        }
        for text in ["C.proofs_per_s < 1.0", "A.proofs < 1.0", "A < 3.0"] {
            let error = holds(text).expect_err(text);
            assert!(matches!(error, GateError::Unknown { .. }), "{text}: {error}");
            assert!(error.to_string().contains("A, B, each with proofs_per_s, skips"), "{error}");
        }
        assert!(matches!(holds("A.proofs_per_s * 2.0"), Err(GateError::NotBool { .. })));
    }
}
