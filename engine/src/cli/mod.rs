//! The `interlock` command: raw arguments in, exit code out.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::host::isolation;

mod ab;
mod calibrate;
mod config;
mod engines;
mod error;
mod output;
mod policy;
mod print;
mod prove;
mod report;
mod setup;
mod simulate;
mod tune;
mod verify;
mod work;

pub use error::{CliError, Exit};

/// Groth16 (BLS12-381) proofs, scheduled by a plug-in policy.
///
/// Exit codes: 0 done; 1 a proof could not be made or does not verify; 2 wrong usage; 3 a bad input file;
/// 4 a bad configuration or policy; 5 an output could not be written; 6 no running engine could be reached;
/// 7 a condition of `ab --fail-if` holds.
#[derive(Debug, Parser)]
#[command(name = "interlock", version)]
pub struct Cli {
    /// The configuration; found in the working directory or beside the program when left out
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a proof for each witness, or for each chunk of a file
    Prove(Box<prove::ProveArgs>),
    /// Verify a proof
    Verify(verify::VerifyArgs),
    /// Make an SRS for development from a circuit
    Setup(setup::SetupArgs),
    /// Compare policies on the same work: which is better, by how much, and how sure is that
    Ab(Box<ab::AbArgs>),
    /// Fit a scenario of the simulator to a timeline, and compare what it predicts
    Calibrate(calibrate::CalibrateArgs),
    /// Make a page of a timeline: who did what when, and the figures
    Report(report::ReportArgs),
    /// Show what policies would do on a machine that a file describes
    Simulate(simulate::SimulateArgs),
    /// Find the options and the workers of a policy that are best for a scenario
    Tune(tune::TuneArgs),
    /// Make, check and look at policies, or switch them on a running engine
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Show the engines of this user that are running
    Engines {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    // `interlock policy-host` is for engines, not for people: it is not among the arguments that are shown.
    if let Some(exit) = isolation::serve_if_asked() {
        return exit;
    }
    let cli = Cli::parse();
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            error.print();
            error.exit.into()
        }
    }
}

fn run(cli: Cli) -> Result<Exit, CliError> {
    let config = cli.config.as_deref();
    match cli.command {
        Command::Prove(args) => prove::run(config, *args),
        Command::Ab(args) => ab::run(config, *args),
        Command::Verify(args) => verify::run(&args),
        Command::Setup(args) => setup::run(&args),
        Command::Calibrate(args) => calibrate::run(config, &args),
        Command::Report(args) => report::run(&args),
        Command::Tune(args) => tune::run(config, &args),
        Command::Simulate(args) => simulate::run(config, &args),
        Command::Policy(command) => policy::run(config, &command),
        Command::Engines { json } => engines::run(json),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "interlock", &mut script);
            print::text(&String::from_utf8_lossy(&script))?;
            Ok(Exit::Done)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_definitions_hold_together() {
        Cli::command().debug_assert();
    }
}
