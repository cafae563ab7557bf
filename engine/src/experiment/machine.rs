//! The machine that an experiment ran on, and what of it a run used.

use std::fs;

use serde::{Deserialize, Serialize};

/// What figures depend on and nobody remembers later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor, as the system names it.
    pub processor: String,
    /// Hardware threads that the program may use.
    pub threads: usize,
    /// Bytes of main memory.
    pub memory_bytes: u64,
    /// The operating system's kernel.
    pub kernel: String,
    /// The devices of all cores, each once.
    pub devices: Vec<String>,
}

impl Machine {
    /// This machine. What the system does not tell is empty or zero.
    pub fn here(devices: Vec<String>) -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = field(&cpuinfo, "model name").or_else(|| field(&cpuinfo, "Model"));
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Machine {
            processor: processor.unwrap_or_default(),
            threads: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: kibibytes(&meminfo, "MemTotal").unwrap_or(0),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            devices,
        }
    }
}

/// The peak of this process's resident memory, from when it was made to be looked at.
pub struct ResidentPeak(());

impl ResidentPeak {
    /// Sets the peak back to what is resident now. Where the system does not let it, the peak is that of the whole process.
    pub fn begin() -> Self {
        // See proc_pid_clear_refs(5): 5 resets VmHWM.
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self(())
    }

    /// Bytes at the peak; `None` where the system does not tell.
    pub fn bytes(&self) -> Option<u64> {
        kibibytes(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM")
    }
}

fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_told() {
        let machine = Machine::here(vec!["a card".into()]);
        assert!(machine.threads > 0 && machine.memory_bytes > 0 && !machine.kernel.is_empty(), "{machine:?}");
    }
}
