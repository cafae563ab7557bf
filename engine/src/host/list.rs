//! What policies a configuration has, and which of them could be loaded. Nothing of them runs.

use std::path::PathBuf;

use interlock_policy_api::ManifestDoc;
use serde::Serialize;

use super::signature::Signed;
use super::{Config, FALLBACK, Isolation, PolicyConfig, PolicyLibrary, Sha256, Verified};

/// A policy as `policy list` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyEntry {
    /// Its name.
    pub name: String,
    /// Whether it is the one that is used by default.
    pub default: bool,
    /// Its library as configured; `None` for the linked policy.
    pub library: Option<PathBuf>,
    /// Where it runs.
    pub isolation: Isolation,
    /// Whether it could be loaded.
    pub status: PolicyStatus,
}

/// Whether a policy could be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum PolicyStatus {
    /// It passes every check that comes before loading.
    Ready {
        /// The file that was found; `None` for the linked policy.
        file: Option<PathBuf>,
        /// The file's SHA-256; `None` for the linked policy.
        sha256: Option<Sha256>,
        /// Whether the configuration pins that SHA-256.
        pinned: bool,
        /// The signature by a trusted key, where there is one.
        signed: Option<Signed>,
        /// Names of the hooks it has beyond `decide`.
        hooks: Vec<&'static str>,
        /// What it says about itself.
        manifest: Box<ManifestDoc>,
    },
    /// It would be refused.
    Refused {
        /// Why, for people.
        error: String,
    },
}

/// The policies of a configuration, in its order; the linked `serialized-fallback` comes last unless the
/// configuration names a library for it.
pub fn list(config: &Config) -> Vec<PolicyEntry> {
    let mut entries: Vec<_> = config.policies.iter().map(|policy| configured(config, policy)).collect();
    if config.policy(FALLBACK).is_none() {
        let library = PolicyLibrary::fallback();
        let manifest = Box::new(library.manifest().clone());
        let hooks = manifest.capabilities.names();
        entries.push(PolicyEntry {
            name: FALLBACK.to_owned(),
            default: config.policy == FALLBACK,
            library: None,
            isolation: Isolation::InProcess,
            status: PolicyStatus::Ready {
                file: None,
                sha256: None,
                pinned: false,
                signed: None,
                hooks,
                manifest,
            },
        });
    }
    entries
}

fn configured(config: &Config, policy: &PolicyConfig) -> PolicyEntry {
    let status = match Verified::configured(config, policy) {
        Ok(verified) => PolicyStatus::Ready {
            hooks: verified.manifest().capabilities.names(),
            file: Some(verified.file),
            sha256: Some(verified.sha256),
            pinned: policy.sha256.is_some(),
            signed: verified.signed,
            manifest: Box::new(verified.facts.manifest),
        },
        Err(error) => PolicyStatus::Refused { error: error.to_string() },
    };
    PolicyEntry {
        name: policy.name.clone(),
        default: config.policy == policy.name,
        library: Some(policy.library.clone()),
        isolation: policy.isolation,
        status,
    }
}
