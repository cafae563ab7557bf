//! From arguments to arms.

use std::collections::HashMap;

use clap::ValueEnum;

use super::AbArgs;
use crate::cli::config::{self, Cores};
use crate::cli::{CliError, Exit};
use crate::experiment::{Arm, MOST_ARMS};
use crate::host::{ByteSize, Config, CoreConfig, OptionsText, PolicyLibrary};

/// A core by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum CoreName {
    /// The CPU core
    Cpu,
    /// The CUDA core
    Cuda,
}

/// All combinations, policies first: those that are compared most stand together.
pub fn arms(config: &Config, args: &AbArgs) -> Result<Vec<Arm>, CliError> {
    let policies = policies(config, &args.policies)?;
    check_once("--workers", &args.workers)?;
    check_once("--vram-limit", &args.vram_limit)?;
    check_once("--cores", &args.cores)?;
    let names =
        if args.cores.is_empty() { vec![None] } else { args.cores.iter().copied().map(Some).collect() };
    let limits = if args.vram_limit.is_empty() {
        vec![None]
    } else {
        args.vram_limit.iter().copied().map(Some).collect()
    };
    let workers =
        if args.workers.is_empty() { vec![config.workers_per_device as u32] } else { args.workers.clone() };
    let count = policies.len() * names.len() * limits.len() * workers.len();
    if count < 2 {
        return Err(CliError::new(Exit::Usage, "one arm only: there is nothing to compare it with").with_help(
            "Name two policies, as in --policies single-lock,two-lock, or the same one twice to see what the machine's noise is.",
        ));
    }
    if count > MOST_ARMS {
        let message = format!("{count} arms are more than the {MOST_ARMS} that an experiment has");
        return Err(CliError::new(Exit::Usage, message));
    }
    let mut cores = HashMap::new();
    let mut arms = Vec::with_capacity(count);
    for name in &names {
        for limit in &limits {
            let cores = match cores.entry((*name, limit.map(|limit| limit.0))) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(make_cores(config, *name, *limit)?)
                }
            };
            for workers in &workers {
                for (policy, options) in &policies {
                    arms.push(Arm {
                        policy: policy.clone(),
                        options: options.clone(),
                        core: cores.main.clone(),
                        fallback_core: cores.fallback.clone(),
                        workers: *workers,
                        vram_limit: limit.map(|limit| limit.0),
                    });
                }
            }
        }
    }
    Ok(arms)
}

/// A policy may be named twice, to see the machine's noise; of the rest that would only be a mistake.
fn check_once<T: PartialEq + std::fmt::Debug>(what: &str, values: &[T]) -> Result<(), CliError> {
    let twice = (1..values.len()).find(|index| values[..*index].contains(&values[*index]));
    match twice {
        Some(index) => Err(CliError::new(Exit::Usage, format!("{what}: {:?} is given twice", values[index]))),
        None => Ok(()),
    }
}

/// The policies of a list such as `two-lock,vram-token(compute_permits: 3)`, each with its options as written.
fn policies(config: &Config, list: &str) -> Result<Vec<(PolicyLibrary, String)>, CliError> {
    let mut loaded: HashMap<String, PolicyLibrary> = HashMap::new();
    let mut policies = Vec::new();
    for entry in split(list)? {
        let (name, options) = config::name_and_options(entry);
        // A library that is named twice is loaded once.
        let library = match loaded.get(name) {
            Some(library) => library.clone(),
            None => PolicyLibrary::configured(config, name)?,
        };
        loaded.insert(name.to_owned(), library.clone());
        match options {
            Some(options) => {
                let with_options = library.with_options(&OptionsText::new(options))?;
                policies.push((with_options, options.to_owned()));
            }
            None => policies.push((library, String::new())),
        }
    }
    Ok(policies)
}

/// The entries of a list: commas between parentheses belong to an entry.
fn split(list: &str) -> Result<Vec<&str>, CliError> {
    let (mut entries, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    let unbalanced =
        || CliError::new(Exit::Usage, format!("--policies {list}: the parentheses do not match"));
    for (at, character) in list.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or_else(unbalanced)?,
            ',' if depth == 0 => {
                entries.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    entries.push(list[start..].trim());
    if depth > 0 {
        return Err(unbalanced());
    }
    if entries.iter().any(|entry| entry.is_empty()) {
        return Err(CliError::new(Exit::Usage, format!("--policies {list}: a name is missing")));
    }
    Ok(entries)
}

/// The cores of an arm: those of the configuration, or of the kind that was asked for, with its limit.
fn make_cores(config: &Config, name: Option<CoreName>, limit: Option<ByteSize>) -> Result<Cores, CliError> {
    let mut config = config.clone();
    config.core = match (name, config.core) {
        (Some(CoreName::Cpu), CoreConfig::Cuda(_)) => CoreConfig::default(),
        (Some(CoreName::Cuda), CoreConfig::Cpu { .. }) => CoreConfig::Cuda(Default::default()),
        (_, configured) => configured,
    };
    match &mut config.core {
        CoreConfig::Cpu { memory, .. } => *memory = limit.or(*memory),
        CoreConfig::Cuda(cuda) => cuda.vram_limit = limit.or(cuda.vram_limit),
    }
    let cores = config::cores(&config)?;
    if name == Some(CoreName::Cuda) && cores.main.name() == "cpu" {
        // Standing in is fine where proofs are wanted, not where cores are compared.
        return Err(CliError::new(Exit::Config, "--cores cuda: there is no card here, or no driver"));
    }
    Ok(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_options_do_not_end_an_entry() {
        let entries = split("two-lock, vram-token(compute_permits: 3, wait_ms: 5),a").expect("it is a list");
        assert_eq!(entries, ["two-lock", "vram-token(compute_permits: 3, wait_ms: 5)", "a"]);
    }

    #[test]
    fn lists_that_make_no_sense_are_refused() {
        for list in ["", "a,", ",a", "a,,b", "a(b", "a)b", "a(b))"] {
            assert!(split(list).is_err(), "{list}");
        }
    }
}
