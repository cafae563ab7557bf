//! `interlock policy list` and `interlock policy inspect`.

use std::path::{Path, PathBuf};

use interlock_policy_api::{ManifestDoc, Stage};

use super::{CliError, Exit, config};
use crate::host::{self, PolicyStatus};

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
        print_json(&entries);
    } else {
        if let Some(file) = &config.file {
            println!("{}:", file.display());
        }
        for entry in &entries {
            let mark = if entry.default { "*" } else { " " };
            match &entry.status {
                PolicyStatus::Ready { file, manifest, .. } => {
                    let place = file.as_ref().map_or("linked".into(), |file| file.display().to_string());
                    println!("{mark} {} {} ({place})", entry.name, manifest.version);
                    println!("    {}", manifest.description);
                }
                PolicyStatus::Refused { error } => println!("{mark} {} REFUSED: {error}", entry.name),
            }
        }
        println!("(* the default)");
    }
    let refused = entries.iter().any(|entry| matches!(entry.status, PolicyStatus::Refused { .. }));
    Ok(if refused { Exit::Config } else { Exit::Done })
}

fn inspect(file: &Path, json: bool) -> Result<Exit, CliError> {
    let inspection = host::inspect(file)?;
    if json {
        print_json(&inspection);
        return Ok(Exit::Done);
    }
    println!(
        "file         {} ({} bytes, mode {:04o})",
        inspection.file.display(),
        inspection.size,
        inspection.mode
    );
    println!("sha256       {}", inspection.sha256);
    if let Some(reason) = &inspection.distrust {
        println!("would not be loaded: {reason}");
    }
    print_manifest(&inspection.manifest, &inspection.hooks);
    Ok(Exit::Done)
}

fn print_manifest(manifest: &ManifestDoc, hooks: &[&str]) {
    println!("policy       {} {}", manifest.name, manifest.version);
    println!("description  {}", manifest.description);
    println!("ABI          {}.{}", manifest.abi_major, manifest.abi_minor);
    println!("hooks        {}", if hooks.is_empty() { "none".into() } else { hooks.join(", ") });
    for lock in &manifest.locks {
        let option = lock.permits_option.as_ref().map_or(String::new(), |name| format!(" (option {name})"));
        let (first, last) = (Stage(lock.first), Stage(lock.last));
        println!("lock         {}: {first}..={last}, {} permits{option}", lock.name, lock.permits);
    }
    for option in &manifest.options {
        println!("option       {}: {} = {}  {}", option.name, option.kind, option.default, option.doc);
    }
}

fn print_json(value: &impl serde::Serialize) {
    println!("{}", serde_json::to_string_pretty(value).expect("these types are plain data"));
}
