//! From `plugins.ron` to the parts of an engine.

use std::path::Path;
use std::sync::Arc;

use super::{CliError, Exit};
use crate::core::Core;
use crate::core::cpu::CpuCore;
use crate::host::{Config, CoreConfig, OptionsText, PolicyLibrary, find_config, open_cuda_core};

/// The configuration: the named file, else the one that is found, else the defaults.
pub fn load(explicit: Option<&Path>) -> Result<Config, CliError> {
    Ok(find_config(explicit)?)
}

/// The policy of a name, or of a name with options in the place of those that are configured: `vram-token(compute_permits: 3)`.
pub fn policy(config: &Config, text: &str) -> Result<PolicyLibrary, CliError> {
    let (name, options) = name_and_options(text);
    let policy = PolicyLibrary::configured(config, name)?;
    Ok(match options {
        Some(options) => policy.with_options(&OptionsText::new(options))?,
        None => policy,
    })
}

/// A policy's name, and its options where some are written behind it.
pub fn name_and_options(text: &str) -> (&str, Option<&str>) {
    match text.find('(') {
        Some(at) => (text[..at].trim(), Some(&text[at..])),
        None => (text.trim(), None),
    }
}

/// The core that proves, and the one that takes over what it failed at.
pub struct Cores {
    pub main: Arc<dyn Core>,
    pub fallback: Option<Arc<dyn Core>>,
}

/// The cores that the configuration names. A CUDA core on a machine without a driver or a card is no error: the CPU core
/// stands in, and the log says so.
pub fn cores(config: &Config) -> Result<Cores, CliError> {
    match &config.core {
        CoreConfig::Cpu { memory, threads } => {
            Ok(Cores { main: cpu_core(memory.map(|memory| memory.0), *threads)?, fallback: None })
        }
        CoreConfig::Cuda(cuda) => match open_cuda_core(config, cuda) {
            Ok(core) => Ok(Cores { main: Arc::new(core), fallback: Some(cpu_core(None, 0)?) }),
            Err(error) if error.is_no_card() => {
                tracing::warn!("{error}; the CPU core stands in");
                Ok(Cores { main: cpu_core(None, 0)?, fallback: None })
            }
            Err(error) => Err(CliError::new(Exit::Config, error).with_help(
                "`core: Cuda(...)` in plugins.ron names the library, the devices and their limits.",
            )),
        },
    }
}

fn cpu_core(memory: Option<u64>, threads: usize) -> Result<Arc<dyn Core>, CliError> {
    let memory = memory.unwrap_or_else(default_memory);
    let core = CpuCore::new(memory, (threads > 0).then_some(threads));
    Ok(Arc::new(core.map_err(|error| CliError::new(Exit::Config, error))?))
}

/// What the CPU core may hold when the configuration does not say: half of what is free.
fn default_memory() -> u64 {
    const UNKNOWN: u64 = 4 << 30;
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = available.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.map_or(UNKNOWN, |kibibytes| kibibytes * 1024 / 2)
}
