//! The manifest: what a policy says about itself before a line of it runs.
//!
//! [`Manifest`] is what a policy writes, a constant. [`encode`] turns it into JSON at compile time;
//! the bytes stand in the library's ELF section [`SECTION`] and are also returned by a function.
//! [`ManifestDoc`] is what readers of either get.

use serde::{Deserialize, Serialize};

use crate::Stage;

mod json;

pub use json::{encode, encoded_len};

/// The ELF section that holds the manifest as JSON.
pub const SECTION: &str = ".interlock.manifest";

/// Hooks a policy has beyond `decide`, as bits. The host calls only the hooks declared here, and
/// refuses a library that declares a bit it does not know.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Nothing but `decide`.
    pub const NONE: Capabilities = Capabilities(0);
    /// The policy orders waiters itself ([`Policy::rank`](crate::Policy::rank)).
    pub const RANK: Capabilities = Capabilities(1);
    /// The policy chooses devices ([`Policy::place`](crate::Policy::place)).
    pub const PLACE: Capabilities = Capabilities(1 << 1);
    /// The policy wants to be told what happened ([`Policy::observe`](crate::Policy::observe)).
    pub const OBSERVE: Capabilities = Capabilities(1 << 2);
    /// The policy keeps counters of its own ([`Policy::stats`](crate::Policy::stats)).
    pub const STATS: Capabilities = Capabilities(1 << 3);
    /// Every bit this version knows.
    pub const ALL: Capabilities = Capabilities(0b1111);

    /// Whether every bit of `other` is set.
    pub const fn contains(self, other: Capabilities) -> bool {
        self.0 & other.0 == other.0
    }

    /// These bits and those of `other`.
    #[must_use]
    pub const fn with(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 | other.0)
    }

    /// The names of the known bits that are set.
    pub fn names(self) -> Vec<&'static str> {
        let known = [
            (Self::RANK, "rank"),
            (Self::PLACE, "place"),
            (Self::OBSERVE, "observe"),
            (Self::STATS, "stats"),
        ];
        known.into_iter().filter(|(bit, _)| self.contains(*bit)).map(|(_, name)| name).collect()
    }
}

/// A lock of the policy's table: a named, counted resource of one device, held over a span of stages.
///
/// A task takes the lock at the gate of the first stage of the span that it enters and gives it back
/// when the last stage of the span ends. Spans of two locks must be disjoint or nested.
#[derive(Clone, Copy, Debug)]
pub struct Lock {
    /// Name, unique in the policy.
    pub name: &'static str,
    /// How many tasks may hold it at once.
    pub permits: u32,
    /// The option that overrides `permits`, if there is one: of type `u32`.
    pub permits_option: Option<&'static str>,
    /// First stage of the span.
    pub first: Stage,
    /// Last stage of the span.
    pub last: Stage,
}

impl Lock {
    /// A lock that one task at a time may hold over `first..=last`.
    pub const fn exclusive(name: &'static str, first: Stage, last: Stage) -> Lock {
        Lock { name, permits: 1, permits_option: None, first, last }
    }

    /// A lock whose number of permits is an option of the policy, `default` unless configured.
    pub const fn counted(
        name: &'static str,
        option: &'static str,
        default: u32,
        first: Stage,
        last: Stage,
    ) -> Lock {
        Lock { name, permits: default, permits_option: Some(option), first, last }
    }
}

/// An option of a policy. [`policy_options!`](crate::policy_options) writes these.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Name, as in `plugins.ron`.
    pub name: &'static str,
    /// Type: `bool`, `u32`, `u64`, `i64`, `f64` or `string`.
    pub kind: &'static str,
    /// The default, as written in the source.
    pub default: &'static str,
    /// One line of help.
    pub doc: &'static str,
}

/// What a policy says about itself.
#[derive(Clone, Copy, Debug)]
pub struct Manifest {
    /// Name, as in `plugins.ron`.
    pub name: &'static str,
    /// Version of the policy.
    pub version: &'static str,
    /// One line: which protocol this is.
    pub description: &'static str,
    /// The lock table.
    pub locks: &'static [Lock],
    /// The options it understands.
    pub options: &'static [OptionSpec],
    /// The hooks it has.
    pub capabilities: Capabilities,
}

impl Manifest {
    /// A manifest with no locks, no options and no hooks.
    pub const fn new(name: &'static str, version: &'static str, description: &'static str) -> Manifest {
        Manifest { name, version, description, locks: &[], options: &[], capabilities: Capabilities::NONE }
    }

    /// With this lock table.
    #[must_use]
    pub const fn with_locks(self, locks: &'static [Lock]) -> Manifest {
        Manifest { locks, ..self }
    }

    /// With these options; pass the `SPEC` of what [`policy_options!`](crate::policy_options) made.
    #[must_use]
    pub const fn with_options(self, options: &'static [OptionSpec]) -> Manifest {
        Manifest { options, ..self }
    }

    /// With these hooks.
    #[must_use]
    pub const fn with_capabilities(self, capabilities: Capabilities) -> Manifest {
        Manifest { capabilities, ..self }
    }
}

/// A manifest as read back. Unknown fields are ignored: a newer policy may say more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestDoc {
    /// Major version of the ABI the library was built for.
    pub abi_major: u32,
    /// Minor version of the ABI the library was built for.
    pub abi_minor: u32,
    /// The symbol of the library's root module.
    pub entry: String,
    /// See [`Manifest::name`].
    pub name: String,
    /// See [`Manifest::version`].
    pub version: String,
    /// See [`Manifest::description`].
    pub description: String,
    /// See [`Manifest::capabilities`].
    pub capabilities: Capabilities,
    /// See [`Manifest::locks`].
    pub locks: Vec<LockDoc>,
    /// See [`Manifest::options`].
    pub options: Vec<OptionDoc>,
}

/// A lock as read back; see [`Lock`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockDoc {
    /// See [`Lock::name`].
    pub name: String,
    /// See [`Lock::permits`].
    pub permits: u32,
    /// See [`Lock::permits_option`].
    pub permits_option: Option<String>,
    /// Number of the first stage ([`Stage`]).
    pub first: u32,
    /// Number of the last stage.
    pub last: u32,
}

/// An option as read back; see [`OptionSpec`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptionDoc {
    /// See [`OptionSpec::name`].
    pub name: String,
    /// See [`OptionSpec::kind`].
    pub kind: String,
    /// See [`OptionSpec::default`].
    pub default: String,
    /// See [`OptionSpec::doc`].
    pub doc: String,
}

impl ManifestDoc {
    /// Reads a manifest from the bytes of its ELF section.
    ///
    /// # Errors
    /// What is wrong with the JSON, and where.
    pub fn from_json(bytes: &[u8]) -> Result<ManifestDoc, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}
