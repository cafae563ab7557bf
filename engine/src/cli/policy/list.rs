//! `interlock policy list`: the policies of the configuration.

use std::path::Path;

use crate::cli::{CliError, Exit, config, print};
use crate::host::{self, PolicyEntry, PolicyStatus, printable};

pub fn run(explicit_config: Option<&Path>, json: bool) -> Result<Exit, CliError> {
    let config = config::load(explicit_config)?;
    let entries = host::list(&config);
    if json {
        print::json(&entries)?;
    } else {
        print::text(&list_text(config.file.as_deref(), &entries))?;
    }
    let refused = entries.iter().any(|entry| matches!(entry.status, PolicyStatus::Refused { .. }));
    Ok(if refused { Exit::Config } else { Exit::Done })
}

fn list_text(file: Option<&Path>, entries: &[PolicyEntry]) -> String {
    let mut text = file.map_or(String::new(), |file| format!("{}:\n", file.display()));
    for entry in entries {
        let mark = if entry.default { "*" } else { " " };
        text += &match &entry.status {
            PolicyStatus::Ready { file, manifest, pinned, signed, .. } => {
                let place = file.as_ref().map_or("linked".into(), |file| file.display().to_string());
                let name = &entry.name;
                let [version, description] =
                    [&manifest.version, &manifest.description].map(|said| printable(said));
                let isolation = entry.isolation;
                let pinned = if *pinned { "; pinned" } else { "" };
                let signed = signed.as_ref().map_or(String::new(), |signed| {
                    format!("    signed by the key {}: {}\n", signed.key, printable(&signed.comment))
                });
                format!("{mark} {name} {version} ({place}; {isolation}{pinned})\n    {description}\n{signed}")
            }
            PolicyStatus::Refused { error } => {
                format!("{mark} {} REFUSED: {}\n", entry.name, printable(error))
            }
        };
    }
    text + "(* the default)\n"
}
