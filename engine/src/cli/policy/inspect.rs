//! `interlock policy inspect`: what a library says about itself.

use std::path::Path;

use interlock_policy_api::Stage;

use super::of_file;
use crate::cli::{CliError, Exit, config, print};
use crate::host::{self, Inspection, SignatureStatus, printable};

pub fn run(explicit_config: Option<&Path>, file: &Path, json: bool) -> Result<Exit, CliError> {
    let inspection = host::inspect(file, &config::load(explicit_config)?).map_err(of_file)?;
    if json {
        print::json(&inspection)?;
    } else {
        print::text(&inspection_text(&inspection))?;
    }
    Ok(Exit::Done)
}

fn inspection_text(inspection: &Inspection) -> String {
    let Inspection { file, size, sha256, mode, distrust, signature, hooks, manifest, .. } = inspection;
    let mut lines = vec![
        format!("file         {} ({size} bytes, mode {mode:04o})", file.display()),
        format!("sha256       {sha256}"),
        format!("signature    {}", signature_text(signature)),
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
    // What a library says of itself must not paint the terminal, nor make lines of its own.
    lines.iter().map(|line| printable(line) + "\n").collect()
}

fn signature_text(signature: &SignatureStatus) -> String {
    match signature {
        SignatureStatus::None => "none".to_owned(),
        SignatureStatus::Holds(signed) => format!("by the trusted key {}: {}", signed.key, signed.comment),
        SignatureStatus::Refused { error } => format!("NOT BELIEVED: {error}"),
    }
}
