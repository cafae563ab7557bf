//! `interlock policy`: makes, checks and looks at policies, pins them, and switches them on a running engine.

use std::path::{Path, PathBuf};

use super::engines::WhichEngine;
use super::{CliError, Exit};
use crate::host::{LoadError, LoadFault};
use crate::report;

mod check;
mod inspect;
mod list;
mod new;
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
    /// Check whether a policy keeps the laws that an engine relies on
    ///
    /// Runs every order of small scenarios, and random ones, in virtual time; for each law that is broken it prints the shortest
    /// scenario found that shows it. The library runs in a confined process of its own unless it is trusted. Exit code 4: a law is
    /// broken. The laws: engine/conformance/README.md.
    Check(check::CheckArgs),
    /// Write the crate of a new policy, with tests and a README, ready to be built
    New(new::NewArgs),
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

/// The error about a library that was named by its file.
fn of_file(error: LoadError) -> CliError {
    let help = match error.fault {
        LoadFault::File(_) | LoadFault::Elf(_) => {
            "Name the library of a policy: after `cargo build --release` in its crate, target/release/libNAME.so."
        }
        LoadFault::Options(_) => "`interlock policy inspect FILE` shows what options a policy has.",
        _ => "`interlock policy inspect FILE` shows what a library says about itself.",
    };
    CliError::new(Exit::Config, error).with_help(help)
}

pub fn run(explicit_config: Option<&Path>, command: &PolicyCommand) -> Result<Exit, CliError> {
    let _log = report::start_logging(None);
    match command {
        PolicyCommand::List { json } => list::run(explicit_config, *json),
        PolicyCommand::Inspect { file, json } => inspect::run(explicit_config, file, *json),
        PolicyCommand::Check(args) => check::run(explicit_config, args),
        PolicyCommand::New(args) => new::run(args),
        PolicyCommand::Pin(args) => pin::run(explicit_config, args),
        PolicyCommand::Use { name, args } => use_policy::run(explicit_config, name, args),
        PolicyCommand::Restore { args } => restore::run(explicit_config, args),
        PolicyCommand::Stats { engine, json } => stats::run(explicit_config, engine, *json),
    }
}
