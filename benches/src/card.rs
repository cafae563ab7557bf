//! How the benches open the CUDA core.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use interlock_core_api::{OpenOptions, Residency};
use interlock_engine::core::loaded::{LoadCoreFault, LoadedCore};
use interlock_engine::host::ByteSize;

use crate::peer::Error;

/// What the command line says of the core.
#[derive(Args, Clone, Debug)]
pub struct CardOptions {
    /// The CUDA core, of the same sources as the bench
    pub library: PathBuf,
    /// Device memory that the core may hold, as in "16GiB"; what is free, unless said
    #[arg(long)]
    pub vram_limit: Option<ByteSize>,
    /// How much of it is for keys; a quarter, unless said
    #[arg(long)]
    pub key_memory: Option<ByteSize>,
    /// Where keys are
    #[arg(long, value_enum, default_value_t = Srs::Auto)]
    pub srs: Srs,
}

/// Where keys are while tasks use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Srs {
    /// On the card if they fit.
    Auto,
    /// On the card.
    Resident,
    /// In pinned host memory.
    Streamed,
}

impl CardOptions {
    /// Opens the first card; see [`CardOptions::open_cards`].
    ///
    /// # Errors
    /// See there.
    pub fn open(&self, tasks_at_once: u32, measure_steps: bool) -> Result<Option<LoadedCore>, Error> {
        self.open_cards(&[0], tasks_at_once, measure_steps)
    }

    /// Opens the cards with these numbers for `tasks_at_once` tasks on each; nothing if there is none, and a line says so.
    ///
    /// # Errors
    /// A card is named twice; the library is none, or cannot open the card.
    pub fn open_cards(
        &self,
        devices: &[u32],
        tasks_at_once: u32,
        measure_steps: bool,
    ) -> Result<Option<LoadedCore>, Error> {
        if let Some(twice) = devices.iter().enumerate().find(|(i, device)| devices[..*i].contains(device)) {
            return Err(format!("card {} is named twice", twice.1).into());
        }
        let bytes = |size: Option<ByteSize>| size.map_or(0, |size| size.0);
        let options = OpenOptions {
            devices: devices.iter().copied().collect(),
            vram_limit: bytes(self.vram_limit),
            key_memory: bytes(self.key_memory),
            residency: match self.srs {
                Srs::Auto => Residency::AUTO,
                Srs::Resident => Residency::RESIDENT,
                Srs::Streamed => Residency::STREAMED,
            },
            tasks_at_once,
            measure_steps,
        };
        match LoadedCore::open("cuda", &self.library, &options) {
            Ok(core) => Ok(Some(core)),
            Err(error) if matches!(error.fault, LoadCoreFault::NoDriver | LoadCoreFault::NoDevice(_)) => {
                println!("skipped: {error}");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}
