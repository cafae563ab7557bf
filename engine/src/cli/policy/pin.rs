//! `interlock policy pin`: writes a library's SHA-256 into `plugins.ron`.

use std::path::Path;

use crate::cli::{CliError, Exit, config, print};
use crate::host::{self, Pin, PinError};

#[derive(Debug, clap::Args)]
pub struct PinArgs {
    /// The policies
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// All policies that have a library
    #[arg(long)]
    all: bool,
    /// Print what has to be written and write nothing
    #[arg(long)]
    print: bool,
}

pub fn run(explicit_config: Option<&Path>, args: &PinArgs) -> Result<Exit, CliError> {
    let config = config::load(explicit_config)?;
    let pins = host::pins(&config, (!args.all).then_some(&args.names[..]))?;
    if args.print {
        print::text(&lines(&pins))?;
        return Ok(Exit::Done);
    }
    if let Err(error) = host::write_pins(&config, &pins) {
        print::text(&lines(&pins))?;
        return Err(error.into());
    }
    print::text(&pins.iter().map(change).collect::<String>())?;
    Ok(Exit::Done)
}

/// What a person has to write.
fn lines(pins: &[Pin]) -> String {
    pins.iter().map(|pin| format!("{}: {}\n", pin.policy, pin.line())).collect()
}

fn change(Pin { policy, library, old, new }: &Pin) -> String {
    let library = library.display();
    match old {
        Some(old) if old == new => format!("{policy}: pinned already ({library})\n    {new}\n"),
        Some(old) => format!("{policy}: pinned anew ({library})\n    was {old}\n    is  {new}\n"),
        None => format!("{policy}: pinned ({library})\n    {new}\n"),
    }
}

impl From<PinError> for CliError {
    fn from(error: PinError) -> Self {
        match error {
            PinError::Library(error) => error.into(),
            PinError::Text { .. } | PinError::ReadOnly { .. } | PinError::Unwritable { .. } => {
                Self::new(Exit::Output, error).with_help(
                    "The lines above go into the policies' entries in plugins.ron, after their names.",
                )
            }
            PinError::Changed { .. } => Self::new(Exit::Output, error),
            PinError::NoConfig | PinError::Linked { .. } => Self::new(Exit::Config, error),
        }
    }
}
