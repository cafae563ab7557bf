//! Errors as people see them: what, where, what to do; and the exit code that goes with each.

use std::error::Error;
use std::process::ExitCode;

use crate::circuit::WitnessError;
use crate::circuit::recorder::RecordError;
use crate::format::FormatError;
use crate::host::{ConfigError, LoadError};
use crate::pipeline::{EngineError, TaskError};
use crate::proof::VerifyError;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All that was asked for is done.
    Done = 0,
    /// A proof could not be made, or does not verify.
    NotProved = 1,
    /// The arguments make no sense together. (clap's own errors exit with 2 as well.)
    Usage = 2,
    /// An input file is bad.
    Input = 3,
    /// The configuration or a policy is bad.
    Config = 4,
    /// An output could not be written.
    Output = 5,
    /// No running engine could be reached.
    Engine = 6,
    /// A condition of `--fail-if` holds.
    Condition = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// An error on its way to the terminal.
#[derive(Debug)]
pub struct CliError {
    /// The exit code.
    pub exit: Exit,
    error: Box<dyn Error + Send + Sync>,
    help: Option<String>,
}

impl CliError {
    /// An error with an exit code.
    pub fn new(exit: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit, error: error.into(), help: None }
    }

    /// With a sentence that says what to do.
    #[must_use]
    pub fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The error with its causes, on one line.
    pub fn message(&self) -> String {
        chain(&*self.error)
    }

    /// Prints the error with its causes and the help to standard error.
    pub fn print(&self) {
        eprintln!("error: {}", self.message());
        if let Some(help) = &self.help {
            eprintln!("help: {help}");
        }
    }
}

/// An error and its causes on one line; a cause whose text is part of the line already is left out.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// What to do about a partition that has no proof, where there is something to say.
pub fn task_help(error: &TaskError) -> Option<&'static str> {
    match error {
        TaskError::Witness(error) => Some(error.help()),
        TaskError::Synthesis(error) => error.downcast_ref::<FormatError>().map(FormatError::help),
        _ => None,
    }
}

impl From<FormatError> for CliError {
    fn from(error: FormatError) -> Self {
        let help = error.help().to_owned();
        Self::new(Exit::Input, error).with_help(help)
    }
}

impl From<interlock_timeline::ReadError> for CliError {
    fn from(error: interlock_timeline::ReadError) -> Self {
        let help = error.help();
        Self::new(Exit::Input, error).with_help(help)
    }
}

impl From<WitnessError> for CliError {
    fn from(error: WitnessError) -> Self {
        Self::new(Exit::Input, error).with_help(error.help())
    }
}

impl From<RecordError> for CliError {
    fn from(error: RecordError) -> Self {
        Self::new(Exit::Input, error)
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::new(Exit::Config, error)
    }
}

impl From<LoadError> for CliError {
    fn from(error: LoadError) -> Self {
        Self::new(Exit::Config, error).with_help(
            "`interlock policy list` shows what each configured policy is and what is wrong with it.",
        )
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        Self::new(Exit::Config, error)
    }
}

impl From<VerifyError> for CliError {
    fn from(error: VerifyError) -> Self {
        Self::new(Exit::Input, error)
            .with_help("Verifying key, proof and public inputs must be those of one circuit.")
    }
}
