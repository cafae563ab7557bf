//! A manifest out of a library: read, and checked against what this host knows.

use interlock_policy_api::{ABI_MAJOR, ABI_MINOR, Capabilities, ManifestDoc, OptionDoc};
use serde::Deserialize;

use interlock_settings::KINDS;

/// The most bytes a manifest's section may have. The encoder writes at most 16 KiB.
pub(super) const MAX_MANIFEST_BYTES: u64 = 64 * 1024;

/// What each library's entry symbol begins with.
const ENTRY_PREFIX: &str = "interlock_policy__";

/// Why a manifest was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is not the JSON it should be.
    #[error("the manifest is malformed: {0}")]
    Malformed(String),
    /// It was built for an ABI this host does not speak.
    #[error(
        "built for policy ABI {major}.{minor}, this engine speaks {ABI_MAJOR}.0 to {ABI_MAJOR}.{ABI_MINOR}; \
         build the policy against this engine's interlock-policy-api"
    )]
    ForeignAbi {
        /// Major version the library was built for.
        major: u32,
        /// Minor version the library was built for.
        minor: u32,
    },
    /// It declares hooks this host does not know.
    #[error("declares capability bits {bits:#x}, which this engine does not know")]
    UnknownCapabilities {
        /// The unknown bits.
        bits: u64,
    },
    /// A part of it has no meaning.
    #[error("the manifest is malformed: {what} \"{value}\"")]
    Meaningless {
        /// Which part.
        what: &'static str,
        /// Its value.
        value: String,
    },
}

/// Whether `name` may be the name of a policy.
pub(super) fn is_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(legal)
}

/// Reads a manifest. The ABI's version comes first: the rest is only as good as that.
pub(super) fn read(json: &[u8]) -> Result<ManifestDoc, ManifestError> {
    #[derive(Deserialize)]
    struct Abi {
        abi_major: u32,
        abi_minor: u32,
    }

    let malformed = |error: serde_json::Error| ManifestError::Malformed(error.to_string());
    let Abi { abi_major, abi_minor } = serde_json::from_slice(json).map_err(malformed)?;
    if abi_major != ABI_MAJOR || abi_minor > ABI_MINOR {
        return Err(ManifestError::ForeignAbi { major: abi_major, minor: abi_minor });
    }
    let manifest = ManifestDoc::from_json(json).map_err(malformed)?;
    check(&manifest)?;
    Ok(manifest)
}

/// Checks everything but the lock table, which [`LockTable`](crate::interlock::LockTable) does.
pub(super) fn check(manifest: &ManifestDoc) -> Result<(), ManifestError> {
    let meaningless = |what, value: &str| Err(ManifestError::Meaningless { what, value: value.to_owned() });
    let unknown = manifest.capabilities.0 & !Capabilities::ALL.0;
    if unknown != 0 {
        return Err(ManifestError::UnknownCapabilities { bits: unknown });
    }
    if !is_name(&manifest.name) {
        return meaningless("no policy has the name", &manifest.name);
    }
    let symbol = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !(manifest.entry.starts_with(ENTRY_PREFIX) && manifest.entry.bytes().all(symbol)) {
        return meaningless("no library has the entry symbol", &manifest.entry);
    }
    for (index, option) in manifest.options.iter().enumerate() {
        if !KINDS.contains(&option.kind.as_str()) {
            return meaningless("no option has the type", &option.kind);
        }
        if manifest.options[..index].iter().any(|earlier| earlier.name == option.name) {
            return meaningless("two options have the name", &option.name);
        }
    }
    let is_count = |name: &str| {
        manifest.options.iter().any(|option: &OptionDoc| option.name == name && option.kind == "u32")
    };
    for option in manifest.locks.iter().filter_map(|lock| lock.permits_option.as_deref()) {
        if !is_count(option) {
            return meaningless("a lock takes its permits from an option that is no u32,", option);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"abi_major":1,"abi_minor":0,"entry":"interlock_policy__x","name":"x",
        "version":"1","description":"d","capabilities":5,"locks":[
        {"name":"l","permits":1,"permits_option":"k","first":0,"last":3}],
        "options":[{"name":"k","kind":"u32","default":"1","doc":""}],"later":[1]}"#;

    fn refused(from: &str, to: &str) -> ManifestError {
        assert!(GOOD.contains(from), "{from}");
        read(GOOD.replace(from, to).as_bytes()).expect_err(to)
    }

    #[test]
    fn a_manifest_with_more_fields_is_read() {
        let manifest = read(GOOD.as_bytes()).expect("it is good");
        assert_eq!(manifest.capabilities.names(), ["rank", "observe"]);
    }

    #[test]
    fn another_abi_is_refused_whatever_else_is_there() {
        let foreign = |major, minor| ManifestError::ForeignAbi { major, minor };
        assert_eq!(refused("\"abi_major\":1", "\"abi_major\":2"), foreign(2, 0));
        assert_eq!(refused("\"abi_minor\":0", "\"abi_minor\":1"), foreign(1, 1));
        assert_eq!(read(br#"{"abi_major":7,"abi_minor":0}"#), Err(foreign(7, 0)));
    }

    #[test]
    fn unknown_capabilities_are_refused_by_bit() {
        let error = refused("\"capabilities\":5", "\"capabilities\":4294967301");
        assert_eq!(error, ManifestError::UnknownCapabilities { bits: 1 << 32 });
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for (from, to) in [
            ("interlock_policy__x", "dlopen"),
            ("interlock_policy__x", r"interlock_policy__\u0000"),
            ("\"name\":\"x\"", "\"name\":\"\""),
            ("\"name\":\"x\"", "\"name\":\"../x\""),
            ("\"kind\":\"u32\"", "\"kind\":\"u128\""),
            ("\"kind\":\"u32\"", "\"kind\":\"u64\""),
            ("\"permits_option\":\"k\"", "\"permits_option\":\"j\""),
            (
                "\"options\":[",
                "\"options\":[{\"name\":\"k\",\"kind\":\"u32\",\"default\":\"\",\"doc\":\"\"},",
            ),
        ] {
            assert!(matches!(refused(from, to), ManifestError::Meaningless { .. }), "{to}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for json in ["", "{", "[]", "{\"abi_major\":1}", &GOOD[..GOOD.len() - 1], &format!("{GOOD}{GOOD}")] {
            assert!(matches!(read(json.as_bytes()), Err(ManifestError::Malformed(_))), "{json}");
        }
    }
}
