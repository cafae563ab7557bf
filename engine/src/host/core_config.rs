//! The `core` section of `plugins.ron`.

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::config::threads;
use super::{ByteSize, Sha256};

/// The proving core and its settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum CoreConfig {
    /// The CPU core.
    Cpu {
        /// Host memory that tasks may hold at once: the core's "device memory". The core chooses
        /// when this is left out.
        #[serde(default)]
        memory: Option<ByteSize>,
        /// Threads of the core, at most [`MAX_WORKERS`](super::config::MAX_WORKERS); 0 for one for each processor.
        #[serde(default, deserialize_with = "threads")]
        threads: usize,
    },
    /// The CUDA core, from its library. The CPU core with its defaults stands by.
    Cuda(CudaConfig),
}

impl Default for CoreConfig {
    fn default() -> Self {
        CoreConfig::Cpu { memory: None, threads: 0 }
    }
}

/// The settings of the CUDA core.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CudaConfig {
    /// The library as written: a path, or a bare file name to be looked for.
    pub library: PathBuf,
    /// What the library's SHA-256 has to be, where that is pinned.
    pub sha256: Option<Sha256>,
    /// Where the library's signature is, if it is not beside it.
    pub signature: Option<PathBuf>,
    /// Ordinals of the devices: at least one, each once.
    #[serde(deserialize_with = "devices")]
    pub devices: Vec<u32>,
    /// Device memory that the engine may hold on each device. Left out: what is free when the engine starts.
    #[serde(deserialize_with = "positive_size")]
    pub vram_limit: Option<ByteSize>,
    /// How much of it is for keys; tasks get the rest. Left out: a quarter, or, when keys are streamed, a little.
    #[serde(deserialize_with = "positive_size")]
    pub key_memory: Option<ByteSize>,
    /// Where keys are while tasks use them.
    pub srs: SrsResidency,
}

impl Default for CudaConfig {
    fn default() -> Self {
        Self {
            library: "libinterlock_cuda.so".into(),
            sha256: None,
            signature: None,
            devices: vec![0],
            vram_limit: None,
            key_memory: None,
            srs: SrsResidency::Auto,
        }
    }
}

fn devices<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    let devices = Vec::<u32>::deserialize(deserializer)?;
    let twice = devices.iter().enumerate().find(|(index, device)| devices[..*index].contains(device));
    match twice {
        _ if devices.is_empty() => Err(D::Error::custom("no devices; leave the key out for the first one")),
        Some((_, device)) => Err(D::Error::custom(format!("device {device} is there twice"))),
        None => Ok(devices),
    }
}

fn positive_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ByteSize>, D::Error> {
    match Option::<ByteSize>::deserialize(deserializer)? {
        Some(ByteSize(0)) => Err(D::Error::custom("0 bytes; leave the key out for what is there")),
        size => Ok(size),
    }
}

/// Where the SRS and the matrices of a circuit are while tasks use them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum SrsResidency {
    /// On the device if `key_memory` is enough for them, else streamed.
    #[default]
    Auto,
    /// On the device; a key that does not fit is refused.
    Resident,
    /// In pinned host memory, from where each task streams them through a small buffer.
    Streamed,
}
