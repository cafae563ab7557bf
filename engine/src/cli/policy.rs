//! `interlock policy list` and `interlock policy inspect`.

use std::path::{Path, PathBuf};

use interlock_policy_api::Stage;

use super::{CliError, Exit, config, print};
use crate::host::{self, Inspection, PolicyEntry, PolicyStatus};

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
}

pub fn run(explicit_config: Option<&Path>, command: &PolicyCommand) -> Result<Exit, CliError> {
    match command {
        PolicyCommand::List { json } => list(explicit_config, *json),
        PolicyCommand::Inspect { file, json } => inspect(file, *json),
    }
}

fn list(explicit_config: Option<&Path>, json: bool) -> Result<Exit, CliError> {
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
            PolicyStatus::Ready { file, manifest, .. } => {
                let place = file.as_ref().map_or("linked".into(), |file| file.display().to_string());
                let (name, version, description) = (&entry.name, &manifest.version, &manifest.description);
                let isolation = entry.isolation;
                format!("{mark} {name} {version} ({place}; {isolation})\n    {description}\n")
            }
            PolicyStatus::Refused { error } => format!("{mark} {} REFUSED: {error}\n", entry.name),
        };
    }
    text + "(* the default)\n"
}

fn inspect(file: &Path, json: bool) -> Result<Exit, CliError> {
    let inspection = host::inspect(file)?;
    if json {
        print::json(&inspection)?;
    } else {
        print::text(&inspection_text(&inspection))?;
    }
    Ok(Exit::Done)
}

fn inspection_text(inspection: &Inspection) -> String {
    let Inspection { file, size, sha256, mode, distrust, hooks, manifest, .. } = inspection;
    let mut lines = vec![
        format!("file         {} ({size} bytes, mode {mode:04o})", file.display()),
        format!("sha256       {sha256}"),
    ];
    lines.extend(distrust.iter().map(|reason| format!("would not be loaded: {reason}")));
    lines.extend([
        format!("policy       {} {}", manifest.name, manifest.version),
        format!("description  {}", manifest.description),
        format!("ABI          {}.{}", manifest.abi_major, manifest.abi_minor),
        format!("hooks        {}", if hooks.is_empty() { "none".into() } else { hooks.join(", ") }),
    ]);
    for lock in &manifest.locks {
        let option = lock.permits_option.as_ref().map_or(String::new(), |name| format!(" (option {name})"));
        let (first, last) = (Stage(lock.first), Stage(lock.last));
        lines.push(format!("lock         {}: {first}..={last}, permits {}{option}", lock.name, lock.permits));
    }
    for option in &manifest.options {
        let (name, kind, default, doc) = (&option.name, &option.kind, &option.default, &option.doc);
        lines.push(format!("option       {name}: {kind} = {default}  {doc}"));
    }
    lines.join("\n") + "\n"
}
