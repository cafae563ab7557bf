//! `interlock setup`.

use std::path::PathBuf;
use std::time::Instant;

use rand_core::OsRng;

use super::output::{check_distinct, write_whole};
use super::{CliError, Exit, print};
use crate::circuit::{Circuit, r1cs};
use crate::format::Input;
use crate::proof::vkey;
use crate::srs::{Srs, params, setup};

/// Makes an SRS for development. Whoever ran this could have kept the secret that forges proofs: never use
/// the result where anything depends on it.
#[derive(Debug, clap::Args)]
pub struct SetupArgs {
    /// The circuit, as circom compiled it
    #[arg(long, value_name = "FILE")]
    r1cs: PathBuf,
    /// Where the SRS goes, in bellperson's layout
    #[arg(long, value_name = "FILE")]
    params: PathBuf,
    /// Where the verifying key goes, as snarkjs's JSON
    #[arg(long, value_name = "FILE")]
    vkey: PathBuf,
}

pub fn run(args: &SetupArgs) -> Result<Exit, CliError> {
    check_distinct([args.params.as_path(), &args.vkey], [args.r1cs.as_path()])?;
    let circuit = r1cs::read(&Input::open(&args.r1cs)?)?;
    let begun = Instant::now();
    let srs = development_srs(&circuit)?;
    print::line(format_args!(
        "SRS for {} constraints (domain {}) made in {:.1} s",
        circuit.num_constraints(),
        circuit.domain_size(),
        begun.elapsed().as_secs_f64()
    ))?;
    write_whole(&args.params, |writer| params::write(&srs, writer).map_err(std::io::Error::other))?;
    write_whole(&args.vkey, |writer| std::io::Write::write_all(writer, vkey::to_json(&srs.vk).as_bytes()))?;
    print::line(format_args!("wrote {} and {}", args.params.display(), args.vkey.display()))?;
    Ok(Exit::Done)
}

/// An SRS from the secret of this run, with the warning that belongs to it.
pub fn development_srs(circuit: &Circuit) -> Result<Srs, CliError> {
    eprintln!(
        "warning: DEVELOPMENT SETUP. The secret of this SRS (its toxic waste) exists on this machine while it is made; \
         whoever could read it can forge proofs. Never use it where anything depends on a proof."
    );
    Ok(setup::generate(circuit, OsRng))
}
