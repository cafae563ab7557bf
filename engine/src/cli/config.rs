//! From `plugins.ron` to the parts of an engine.

use std::path::Path;
use std::sync::Arc;

use super::{CliError, Exit};
use crate::core::Core;
use crate::core::cpu::CpuCore;
use crate::host::{Config, CoreConfig, find_config};

/// The configuration: the named file, else the one that is found, else the defaults.
pub fn load(explicit: Option<&Path>) -> Result<Config, CliError> {
    Ok(find_config(explicit)?)
}

/// The core that the configuration names.
pub fn core(config: &Config) -> Result<Arc<dyn Core>, CliError> {
    match &config.core {
        CoreConfig::Cpu { memory, threads } => {
            let memory = memory.map_or_else(default_memory, |memory| memory.0);
            let threads = (*threads > 0).then_some(*threads);
            let core = CpuCore::new(memory, threads).map_err(|error| CliError::new(Exit::Config, error))?;
            Ok(Arc::new(core))
        }
    }
}

/// What the CPU core may hold when the configuration does not say: half of what is free.
fn default_memory() -> u64 {
    const UNKNOWN: u64 = 4 << 30;
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = available.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.map_or(UNKNOWN, |kibibytes| kibibytes * 1024 / 2)
}
