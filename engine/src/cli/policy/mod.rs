//! `interlock policy`: looks at policies, pins them, and switches them on a running engine.

use std::path::{Path, PathBuf};

use super::engines::WhichEngine;
use super::{CliError, Exit};
use crate::report;

mod inspect;
mod list;
mod pin;
mod restore;
mod stats;
mod use_policy;

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
    /// Seat another policy on a running engine, without stopping it
    ///
    /// The engine reads its plugins.ron again, so that a policy can be used that was installed after it started. The
    /// policy is then on trial: if one of its first verdicts is refused, or it is quarantined, all devices go back to the
    /// policy before. Exit code 4: the policy was refused or rolled back; 6: no engine was reached.
    Use {
        /// Its name in the engine's plugins.ron
        name: String,
        #[command(flatten)]
        args: use_policy::SwitchArgs,
    },
    /// Seat the last good policy of a running engine again, also after a quarantine
    Restore {
        #[command(flatten)]
        args: use_policy::SwitchArgs,
    },
    /// Show what the policies of a running engine did
    Stats {
        #[command(flatten)]
        engine: WhichEngine,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(explicit_config: Option<&Path>, command: &PolicyCommand) -> Result<Exit, CliError> {
    let _log = report::start_logging(None);
    match command {
        PolicyCommand::List { json } => list::run(explicit_config, *json),
        PolicyCommand::Inspect { file, json } => inspect::run(explicit_config, file, *json),
        PolicyCommand::Pin(args) => pin::run(explicit_config, args),
        PolicyCommand::Use { name, args } => use_policy::run(name, args),
        PolicyCommand::Restore { args } => restore::run(args),
        PolicyCommand::Stats { engine, json } => stats::run(engine, *json),
    }
}
