//! minisign signatures: the keys that are trusted, and whether one of them signed these bytes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use minisign_verify::{Error, PublicKey, Signature};
use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

use super::file::bounded;
use super::printable::without_controls;
use super::walk::{Way, Writers};
use super::writers::{self, Trusted};
use super::{FileError, TrustConfig};

/// The longest signature or key file that is read, in bytes. minisign writes a few hundred; the comments are free text.
const MAX_TEXT_BYTES: u64 = 16 << 10;

/// Digits of a public key in base64.
const KEY_DIGITS: usize = 56;

/// The number of a minisign key, which signatures name. Shown as minisign shows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyId(u64);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

impl Serialize for KeyId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A key in `trust: (keys: […])`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The key itself: what `minisign -G` prints, `RWQ…`.
    Key(TrustedKey),
    /// A file that has it: `minisign.pub`. Relative paths start from the folder of `plugins.ron`.
    File(PathBuf),
}

/// A public key whose signatures are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKey {
    id: KeyId,
    key: PublicKey,
}

impl TrustedKey {
    /// From the digits, as minisign shows them.
    fn parse(digits: &str) -> Option<TrustedKey> {
        let key = PublicKey::from_base64(digits).ok()?;
        Some(TrustedKey { id: key_id(digits)?, key })
    }

    /// Its number.
    pub fn id(&self) -> KeyId {
        self.id
    }
}

impl<'de> Deserialize<'de> for KeySource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KeySource, D::Error> {
        let text = String::deserialize(deserializer)?;
        let looks_like_a_key = text.len() == KEY_DIGITS && text.starts_with("RW") && !text.contains('.');
        if !looks_like_a_key {
            return Ok(KeySource::File(text.into()));
        }
        TrustedKey::parse(&text).map(KeySource::Key).ok_or_else(|| {
            de::Error::custom(format!(
                "\"{text}\" is no minisign key; write the line that `minisign -G` prints after -P, or a file's name"
            ))
        })
    }
}

/// A signature that holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signed {
    /// The key that signed.
    pub key: KeyId,
    /// The comment that is signed along, with what would paint a terminal replaced.
    pub comment: String,
}

/// Why a signature was refused.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// There is no signature, but one has to be.
    #[error(
        "not signed: there is no {}, and plugins.ron asks for signatures; sign the library with `minisign -Sm FILE`",
        .file.display()
    )]
    Missing {
        /// Where it was looked for.
        file: PathBuf,
    },
    /// The signature cannot be read.
    #[error("its signature {} cannot be read: {error}", .file.display())]
    Unreadable {
        /// The signature.
        file: PathBuf,
        /// The system's word.
        error: io::Error,
    },
    /// It is no signature.
    #[error("its signature {} is malformed; it has to be as `minisign -S` writes it", .file.display())]
    Malformed {
        /// The signature.
        file: PathBuf,
    },
    /// Nobody who is trusted signed.
    #[error(
        "signed by the key {key}, which plugins.ron does not trust (`trust: (keys: …)`: {})",
        .trusted.iter().map(KeyId::to_string).collect::<Vec<_>>().join(", ")
    )]
    UnknownKey {
        /// The key that the signature names.
        key: KeyId,
        /// The keys that are trusted.
        trusted: Vec<KeyId>,
    },
    /// The library or the signature's comment is not what was signed.
    #[error(
        "does not match its signature {} by the key {key}: the library, or the signature, was changed after signing",
        .file.display()
    )]
    Altered {
        /// The signature.
        file: PathBuf,
        /// The key that the signature names.
        key: KeyId,
    },
    /// A signature is named, but no key that could have made it.
    #[error("its signature {} cannot be checked: plugins.ron trusts no keys (`trust: (keys: …)`)", .file.display())]
    NoKeys {
        /// The signature.
        file: PathBuf,
    },
    /// A file of a trusted key cannot be used.
    #[error("the key file {}: {fault}", .file.display())]
    KeyFile {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        fault: KeyFileError,
    },
}

/// What is wrong with a key file.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Unreadable, not regular, or others could have changed it.
    #[error(transparent)]
    File(#[from] FileError),
    /// It holds no public key of minisign's.
    #[error("no minisign public key; it has to be as `minisign -G` writes it")]
    Malformed,
}

/// Where the signature of a library is when nothing else is said.
pub(super) fn beside(library: &Path) -> PathBuf {
    let mut name = library.as_os_str().to_owned();
    name.push(".minisig");
    name.into()
}

/// The keys that a configuration trusts. Relative files start from `base`.
pub(super) fn trusted_keys(trust: &TrustConfig, base: &Path) -> Result<Vec<TrustedKey>, SignatureError> {
    let read = |source: &KeySource| match source {
        KeySource::Key(key) => Ok(key.clone()),
        KeySource::File(file) => {
            let file = base.join(file);
            read_key(&file, &trust.owners).map_err(|fault| SignatureError::KeyFile { file, fault })
        }
    };
    trust.keys.iter().map(read).collect()
}

fn read_key(file: &Path, owners: &[u32]) -> Result<TrustedKey, KeyFileError> {
    let way = Way::of(file).map_err(FileError::from)?;
    let opened = way.open().map_err(FileError::from)?.ok_or(FileError::NotRegular)?;
    let trusted = Trusted::with(owners);
    writers::check_file(&Writers::of_file(&opened).map_err(FileError::from)?, &trusted)?;
    writers::check_way(&way, &trusted)?;
    let bytes = bounded(opened, MAX_TEXT_BYTES).map_err(FileError::from)?.ok_or(KeyFileError::Malformed)?;
    let text = String::from_utf8(bytes).map_err(|_| KeyFileError::Malformed)?;
    // A comment, then the key; or the key alone.
    let digits = text.lines().find(|line| line.starts_with("RW")).ok_or(KeyFileError::Malformed)?;
    TrustedKey::parse(digits.trim_end()).ok_or(KeyFileError::Malformed)
}

/// Reads a signature: `None` if there is none.
pub(super) fn read(file: &Path) -> Result<Option<String>, SignatureError> {
    let opened = match Way::of(file).and_then(|way| way.open()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened,
    };
    let unreadable = |error| SignatureError::Unreadable { file: file.to_owned(), error };
    let malformed = || SignatureError::Malformed { file: file.to_owned() };
    let opened = opened.map_err(unreadable)?.ok_or_else(malformed)?;
    let bytes = bounded(opened, MAX_TEXT_BYTES).map_err(unreadable)?.ok_or_else(malformed)?;
    String::from_utf8(bytes).map(Some).map_err(|_| malformed())
}

/// Whether one of the keys made the signature `text`, which came from `file`, over `bytes`.
pub(super) fn verify(
    bytes: &[u8],
    text: &str,
    file: &Path,
    keys: &[TrustedKey],
) -> Result<Signed, SignatureError> {
    let malformed = || SignatureError::Malformed { file: file.to_owned() };
    let signature = Signature::decode(text).map_err(|_| malformed())?;
    let key = text.lines().nth(1).and_then(key_id).ok_or_else(malformed)?;
    if keys.is_empty() {
        return Err(SignatureError::NoKeys { file: file.to_owned() });
    }
    // Two keys can have one number: it is chosen by who makes the key.
    let mut with_number = keys.iter().filter(|trusted| trusted.id == key).peekable();
    if with_number.peek().is_none() {
        return Err(SignatureError::UnknownKey { key, trusted: keys.iter().map(TrustedKey::id).collect() });
    }
    // Signatures of the bytes themselves, which minisign made before version 0.10, are as good as those of their hash.
    let holds = |trusted: &TrustedKey| match trusted.key.verify(bytes, &signature, true) {
        Ok(()) => true,
        Err(Error::InvalidSignature) => false,
        Err(error) => {
            tracing::debug!("{}: {error}", file.display());
            false
        }
    };
    if !with_number.any(holds) {
        return Err(SignatureError::Altered { file: file.to_owned(), key });
    }
    Ok(Signed { key, comment: without_controls(signature.trusted_comment()) })
}

/// The key's number in a public key or a signature: bytes 2 to 9 of what the base64 digits stand for, little-endian.
fn key_id(digits: &str) -> Option<KeyId> {
    let digits = digits.as_bytes().get(..16)?;
    let value = |digit: u8| {
        Some(match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        })
    };
    let mut bytes = Vec::with_capacity(12);
    for four in digits.chunks(4) {
        let bits =
            four.iter().try_fold(0_u32, |bits, digit| Some((bits << 6) | u32::from(value(*digit)?)))?;
        bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    Some(KeyId(u64::from_le_bytes(bytes.get(2..10)?.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made by minisign 0.11 (`minisign -G -W`, `-S`, and `-S -l` for the older kind), over the text `a library`.
    const KEY: &str = "RWTQ73Bl94XW8P/Mk/LU0UH4X2PXzqLpenI6YOILjngqJ5pSblCvbUKF";
    const OTHER_KEY: &str = "RWQiuLgdk2aWRQfv48Mp00SN2ShgRVJlGW69m7Of/bM4VJzNILUGkwdT";
    const SIGNED: &[u8] = b"a library";
    const HASHED: &str = "untrusted comment: signature from minisign secret key
RUTQ73Bl94XW8ABaW5XW2dpUeYQQcIuZqeTmbgczag/jDKnksCUYxNqY7vK5YM3HSpO8TBjjKQHA6cl4hnYPzZfiRp9ro1XceQs=
trusted comment: two-lock 0.1.0, reviewed
r3Vs0nHpxfbtEOCxdfiftwF4oSKD4qHdIhgHocsn569KGoRxuo5csYidqnBCD4tKpzGc+HXvzEjZLjXwBcFwCw==
";
    const OLDER: &str = "untrusted comment: signature from minisign secret key
RWTQ73Bl94XW8PjHTkbSYY6mGzTpHPm5srGazuuBAimjx7ehWfXmG80BTQ0UJU9vGgmXI5AqSjVsaZVybMRq/xaKeGdqU784gQM=
trusted comment: an older way
CUQY43HhC8McCEvBpurzEIan90o35j3XSmYDUIkHIh6kbnFFfINAtxXyulCbGdM+pajXq3zJeGd02c/R7pFiCA==
";

    fn keys(digits: &[&str]) -> Vec<TrustedKey> {
        digits.iter().map(|digits| TrustedKey::parse(digits).expect("it is a key")).collect()
    }

    fn verified(bytes: &[u8], text: &str, trusted: &[&str]) -> Result<Signed, SignatureError> {
        verify(bytes, text, Path::new("lib.so.minisig"), &keys(trusted))
    }

    #[test]
    fn signatures_of_minisign_hold() {
        for (text, comment) in [(HASHED, "two-lock 0.1.0, reviewed"), (OLDER, "an older way")] {
            let signed = verified(SIGNED, text, &[OTHER_KEY, KEY]).expect("minisign made it");
            assert_eq!(
                (signed.comment.as_str(), signed.key.to_string().as_str()),
                (comment, "F0D685F76570EFD0")
            );
        }
        assert_eq!(keys(&[OTHER_KEY])[0].id().to_string(), "459666931DB8B822");
    }

    #[test]
    fn every_changed_byte_is_found() {
        for text in [HASHED, OLDER] {
            for at in 0..SIGNED.len() {
                let mut changed = SIGNED.to_vec();
                changed[at] ^= 1;
                let refused = verified(&changed, text, &[KEY]).expect_err("it was changed");
                assert!(matches!(refused, SignatureError::Altered { .. }), "{refused}");
            }
            let refused =
                verified(SIGNED, &text.replace(", reviewed", ", rejected").replace("older", "newer"), &[KEY]);
            assert!(matches!(refused, Err(SignatureError::Altered { .. })));
        }
        // The signature of one kind under the letters of the other.
        let swapped = HASHED.replace("RUTQ", "RWTQ");
        assert!(matches!(verified(SIGNED, &swapped, &[KEY]), Err(SignatureError::Altered { .. })));
    }

    #[test]
    fn every_damage_to_a_signature_is_an_error() {
        for at in 0..HASHED.len() {
            let mut damaged = HASHED.as_bytes().to_vec();
            damaged[at] ^= 1;
            let damaged = String::from_utf8(damaged).expect("still ASCII");
            let untrusted_comment = at < HASHED.find('\n').expect("it has lines");
            assert_eq!(verified(SIGNED, &damaged, &[KEY]).is_ok(), untrusted_comment, "byte {at}");
            let cut = verified(SIGNED, &HASHED[..at], &[KEY]);
            let whole = at == HASHED.trim_end().len();
            assert_eq!(cut.is_ok(), whole, "cut at {at}");
        }
    }

    #[test]
    fn a_key_that_is_not_trusted_is_named() {
        let refused = verified(SIGNED, HASHED, &[OTHER_KEY]).expect_err("another key");
        let text = refused.to_string();
        assert!(text.contains("F0D685F76570EFD0") && text.contains("459666931DB8B822"), "{text}");
        assert!(matches!(verified(SIGNED, HASHED, &[]), Err(SignatureError::NoKeys { .. })));
    }

    #[test]
    fn a_key_with_a_stolen_number_signs_nothing() {
        // The other key under the number of the right one, which is in the first 14 digits.
        let thief = format!("{}{}", &KEY[..14], &OTHER_KEY[14..]);
        let refused = verified(SIGNED, HASHED, &[&thief]).expect_err("it did not sign");
        assert!(matches!(refused, SignatureError::Altered { .. }), "{refused}");
        assert!(verified(SIGNED, HASHED, &[&thief, KEY]).is_ok(), "the right one is still tried");
    }

    #[test]
    fn keys_are_told_from_files() {
        let source = |text: &str| ron::from_str::<KeySource>(&format!("{text:?}"));
        assert!(matches!(source(KEY), Ok(KeySource::Key(_))));
        for file in ["minisign.pub", "RW.pub", "/etc/keys/RWx", &KEY[1..]] {
            assert_eq!(source(file), Ok(KeySource::File(file.into())));
        }
        let wrong = source(&KEY.replace('/', "!")).expect_err("no base64").to_string();
        assert!(wrong.contains("no minisign key"), "{wrong}");
    }
}
