//! `interlock policy`: looks at policies, pins them.

use std::path::{Path, PathBuf};

use super::{CliError, Exit};
use crate::report;

mod inspect;
mod list;
mod pin;

#[derive(Debug, clap::Subcommand)]
pub enum PolicyCommand {
    /// Show the policies of the configuration, and what is wrong with those that cannot be loaded
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a policy library says about itself, without running any of it
    Inspect {
        /// The library
        file: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the SHA-256 of policies' libraries into plugins.ron, which then takes no other files for them
    Pin(pin::PinArgs),
}

pub fn run(explicit_config: Option<&Path>, command: &PolicyCommand) -> Result<Exit, CliError> {
    let _log = report::start_logging(None);
    match command {
        PolicyCommand::List { json } => list::run(explicit_config, *json),
        PolicyCommand::Inspect { file, json } => inspect::run(explicit_config, file, *json),
        PolicyCommand::Pin(args) => pin::run(explicit_config, args),
    }
}
