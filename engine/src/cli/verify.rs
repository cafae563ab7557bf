//! `interlock verify`.

use std::path::PathBuf;

use super::{CliError, Exit, print};
use crate::format::Input;
use crate::proof::{self, vkey};

/// Files may be snarkjs's JSON or bellperson's bytes; which one is seen from the content.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// The verifying key
    #[arg(long, value_name = "FILE")]
    vkey: PathBuf,
    /// The proof
    #[arg(long, value_name = "FILE")]
    proof: PathBuf,
    /// The public inputs: a JSON array of decimal strings
    #[arg(long, value_name = "FILE")]
    public: PathBuf,
}

pub fn run(args: &VerifyArgs) -> Result<Exit, CliError> {
    let key = vkey::read(&Input::open(&args.vkey)?)?;
    let proof = proof::read(&Input::open(&args.proof)?)?;
    let inputs = proof::read_public(&Input::open(&args.public)?)?;
    if proof::verify(&key, &proof, &inputs)? {
        print::line("the proof holds")?;
        Ok(Exit::Done)
    } else {
        print::line("the proof does not hold")?;
        Ok(Exit::NotProved)
    }
}
