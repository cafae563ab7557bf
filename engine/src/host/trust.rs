//! What a library has to show before any of it is read as a library: who may write it, where it lies, its hash, its
//! signature.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::file::LibraryFile;
use super::signature::{self, KeySource, SignatureError, Signed};
use super::{Config, Sha256};

/// `trust: (…)` in `plugins.ron`: which libraries are believed, of policies and of cores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrustConfig {
    /// The minisign keys whose signatures are believed.
    pub keys: Vec<KeySource>,
    /// What each library has to have. Left out: [`Requirement::Signature`] with keys, [`Requirement::Nothing`] without.
    pub require: Option<Requirement>,
    /// The folders that libraries may come from, with those below them; any, when left out.
    #[serde(deserialize_with = "some_folders")]
    pub folders: Option<Vec<PathBuf>>,
    /// Numbers of users, besides root and the one who runs the engine, whose files are believed.
    pub owners: Vec<u32>,
}

/// What each library has to have, besides an owner and modes that are trusted. Pins and signatures that are there are checked
/// in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Requirement {
    /// Nothing.
    Nothing,
    /// A pinned SHA-256, or a signature by a trusted key.
    PinOrSignature,
    /// A signature by a trusted key.
    Signature,
}

fn some_folders<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<PathBuf>>, D::Error> {
    let folders = Option::<Vec<PathBuf>>::deserialize(deserializer)?;
    if folders.as_ref().is_some_and(Vec::is_empty) {
        return Err(D::Error::custom("no folders; leave the key out to allow any"));
    }
    Ok(folders)
}

impl TrustConfig {
    fn requirement(&self) -> Requirement {
        let by_keys = if self.keys.is_empty() { Requirement::Nothing } else { Requirement::Signature };
        self.require.unwrap_or(by_keys)
    }

    /// The same where a pin is about to be given.
    pub(super) fn before_pinning(&self) -> TrustConfig {
        let require = match self.requirement() {
            Requirement::PinOrSignature => Requirement::Nothing,
            other => other,
        };
        TrustConfig { require: Some(require), ..self.clone() }
    }
}

/// What is known of one library's trustworthiness, and from where its relative paths start.
pub(super) struct Demands<'a> {
    pub trust: &'a TrustConfig,
    /// The folder of `plugins.ron`.
    pub base: &'a Path,
    pub pinned: Option<Sha256>,
    /// Where the signature is, if it is not beside the library.
    pub signature: Option<&'a Path>,
}

impl<'a> Demands<'a> {
    pub fn of(config: &'a Config, pinned: Option<Sha256>, signature: Option<&'a Path>) -> Self {
        let base = config.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        Self { trust: &config.trust, base, pinned, signature }
    }
}

/// Why the content of a library was refused.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// The SHA-256 is not the one that was pinned.
    #[error(
        "sha256 is {found}, plugins.ron pins {pinned}; if the new file is right, change the pin: `interlock policy pin`"
    )]
    WrongHash {
        /// What the configuration says.
        pinned: Sha256,
        /// What the file has.
        found: Sha256,
    },
    /// The signature.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// It has neither a pin nor a signature.
    #[error(
        "neither pinned nor signed (there is no {}), and plugins.ron asks for one of them; pin it with `interlock policy \
         pin`, or sign it with `minisign -Sm FILE`",
        .signature.display()
    )]
    Nothing {
        /// Where the signature was looked for.
        signature: PathBuf,
    },
}

/// What a library has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Evidence {
    pub sha256: Sha256,
    pub signed: Option<Signed>,
}

/// Checks a library's bytes against its pin and its signature. Nothing in them has been looked at before.
pub(super) fn evidence(library: &LibraryFile, demands: &Demands<'_>) -> Result<Evidence, EvidenceError> {
    let sha256 = Sha256::of(&library.bytes);
    if let Some(pinned) = demands.pinned.filter(|pinned| *pinned != sha256) {
        return Err(EvidenceError::WrongHash { pinned, found: sha256 });
    }
    let requirement = demands.trust.requirement();
    let file = match demands.signature {
        Some(named) => demands.base.join(named),
        None => signature::beside(&library.path),
    };
    let enough = match requirement {
        Requirement::Nothing => true,
        Requirement::PinOrSignature => demands.pinned.is_some(),
        Requirement::Signature => false,
    };
    // A signature that happens to lie there says nothing to who trusts no key and does not ask.
    if enough && demands.trust.keys.is_empty() && demands.signature.is_none() {
        return Ok(Evidence { sha256, signed: None });
    }
    let keys = signature::trusted_keys(demands.trust, demands.base)?;
    let Some(text) = signature::read(&file)? else {
        return match requirement {
            _ if enough && demands.signature.is_none() => Ok(Evidence { sha256, signed: None }),
            Requirement::PinOrSignature if demands.signature.is_none() => {
                Err(EvidenceError::Nothing { signature: file })
            }
            _ => Err(SignatureError::Missing { file }.into()),
        };
    };
    let signed = signature::verify(&library.bytes, &text, &file, &keys)?;
    Ok(Evidence { sha256, signed: Some(signed) })
}
