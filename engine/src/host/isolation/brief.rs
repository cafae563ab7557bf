//! What a policy's process is told at its start, and what it reports.

use std::fs::File;
use std::io::{self, Read, Seek};

use serde::{Deserialize, Serialize};

use super::region::LONG_WORDS;

use crate::host::resident::sealed_copy;
use crate::host::{LoadFault, printable};

/// The most bytes of a brief: a manifest and options fit many times.
const MAX_BRIEF_BYTES: u64 = 16 << 20;

/// What the process is told. It comes from the engine, through a sealed memory file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Brief {
    /// Which build wrote it: the two ends share a private layout.
    pub version: String,
    /// The engine's process.
    pub engine: u32,
    /// The manifest, as it stands in the library's section.
    pub manifest: String,
    /// The options, as RON.
    pub options: String,
    /// Whether the system-call filter must be put on.
    pub filtered: bool,
    /// Memory the policy may take, in bytes.
    pub memory_bytes: u64,
    /// How long to wait actively for a call, in nanoseconds.
    pub spin_ns: u64,
}

impl Brief {
    /// The version that both ends must have.
    pub fn own_version() -> String {
        format!("{} {}", env!("CARGO_PKG_VERSION"), size_of::<super::region::Region>())
    }

    pub fn write(&self) -> io::Result<File> {
        let json = serde_json::to_vec(self).map_err(io::Error::other)?;
        sealed_copy("interlock-brief".as_ref(), &json)
    }

    pub fn read(file: &mut File) -> io::Result<Brief> {
        file.rewind()?;
        let mut json = Vec::new();
        file.take(MAX_BRIEF_BYTES).read_to_end(&mut json)?;
        serde_json::from_slice(&json).map_err(io::Error::other)
    }
}

/// What the process reports when its policy has started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Started {
    /// Protections that this system does not give, for people.
    pub missing: Vec<String>,
}

/// Why it did not start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StartFault {
    Unconfined(String),
    Linker(String),
    NoEntry(String),
    Incompatible(String),
    ManifestDiffers,
    Create(String),
    Other(String),
}

impl From<LoadFault> for StartFault {
    fn from(fault: LoadFault) -> Self {
        match fault {
            LoadFault::Linker(text) => Self::Linker(text),
            LoadFault::NoEntry { symbol } => Self::NoEntry(symbol),
            LoadFault::Incompatible(text) => Self::Incompatible(text),
            LoadFault::ManifestDiffers => Self::ManifestDiffers,
            LoadFault::Create { reason } => Self::Create(reason),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<StartFault> for LoadFault {
    fn from(fault: StartFault) -> Self {
        match fault {
            StartFault::Unconfined(what) => LoadFault::Unconfined { what: printable(&what) },
            StartFault::Linker(text) => LoadFault::Linker(printable(&text)),
            StartFault::NoEntry(symbol) => LoadFault::NoEntry { symbol: printable(&symbol) },
            StartFault::Incompatible(text) => LoadFault::Incompatible(printable(&text)),
            StartFault::ManifestDiffers => LoadFault::ManifestDiffers,
            StartFault::Create(reason) => LoadFault::Create { reason: printable(&reason) },
            StartFault::Other(text) => LoadFault::Create { reason: printable(&text) },
        }
    }
}

/// A report as bytes that fit the area for long data.
pub(super) fn report_bytes(report: &Result<Started, StartFault>) -> Vec<u8> {
    let bytes = serde_json::to_vec(report).unwrap_or_default();
    if bytes.len() <= LONG_WORDS * 8 {
        return bytes;
    }
    let short: Result<Started, _> = Err(StartFault::Other("its reason is too long to be told".to_owned()));
    serde_json::to_vec(&short).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brief_is_read_as_it_was_written() {
        let brief = Brief {
            version: Brief::own_version(),
            engine: 7,
            manifest: "{}".into(),
            options: "(a: 1)".into(),
            filtered: true,
            memory_bytes: 3,
            spin_ns: 4,
        };
        let mut file = brief.write().expect("memory files can be made");
        let read = Brief::read(&mut file).expect("it is a brief");
        assert_eq!(format!("{read:?}"), format!("{brief:?}"));
    }

    #[test]
    fn a_fault_comes_through_as_itself() {
        for fault in [
            LoadFault::Linker("no such symbol".into()),
            LoadFault::NoEntry { symbol: "x".into() },
            LoadFault::Incompatible("version".into()),
            LoadFault::ManifestDiffers,
            LoadFault::Create { reason: "a: 0".into() },
        ] {
            let text = fault.to_string();
            assert_eq!(LoadFault::from(StartFault::from(fault)).to_string(), text);
        }
    }

    #[test]
    fn a_report_always_fits() {
        let long = Err(StartFault::Create("x".repeat(LONG_WORDS * 8)));
        let bytes = report_bytes(&long);
        assert!(bytes.len() <= LONG_WORDS * 8);
        assert!(serde_json::from_slice::<Result<Started, StartFault>>(&bytes).is_ok_and(|it| it.is_err()));
    }
}
