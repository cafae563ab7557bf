//! The manifest as JSON, written at compile time.

use super::{Lock, Manifest, OptionSpec};
use crate::{ABI_MAJOR, ABI_MINOR};

/// Room for one manifest; a longer one does not compile.
const CAPACITY: usize = 16 * 1024;

/// Number of bytes [`encode`] writes for this manifest.
pub const fn encoded_len(manifest: &Manifest, entry: &str) -> usize {
    Writer::document(manifest, entry).len
}

/// The manifest as JSON. `LEN` is its [`encoded_len`].
///
/// # Panics
/// At compile time, when `LEN` is wrong or the manifest is longer than 16 KiB.
pub const fn encode<const LEN: usize>(manifest: &Manifest, entry: &str) -> [u8; LEN] {
    let writer = Writer::document(manifest, entry);
    assert!(writer.len == LEN, "LEN is not the encoded_len of this manifest");
    let mut bytes = [0; LEN];
    let mut at = 0;
    while at < LEN {
        bytes[at] = writer.buffer[at];
        at += 1;
    }
    bytes
}

struct Writer {
    buffer: [u8; CAPACITY],
    len: usize,
}

impl Writer {
    const fn document(manifest: &Manifest, entry: &str) -> Writer {
        Writer { buffer: [0; CAPACITY], len: 0 }
            .raw("{")
            .number_field("abi_major", ABI_MAJOR as u64)
            .number_field("abi_minor", ABI_MINOR as u64)
            .string_field("entry", entry)
            .string_field("name", manifest.name)
            .string_field("version", manifest.version)
            .string_field("description", manifest.description)
            .number_field("capabilities", manifest.capabilities.0)
            .key("locks")
            .locks(manifest.locks)
            .raw(",")
            .key("options")
            .options(manifest.options)
            .raw("}")
    }

    const fn locks(mut self, locks: &[Lock]) -> Writer {
        self = self.raw("[");
        let mut at = 0;
        while at < locks.len() {
            let lock = &locks[at];
            self = self.raw(if at == 0 { "{" } else { ",{" });
            self = self.string_field("name", lock.name).number_field("permits", lock.permits as u64);
            if let Some(option) = lock.permits_option {
                self = self.string_field("permits_option", option);
            }
            self = self.number_field("first", lock.first.0 as u64).key("last").number(lock.last.0 as u64);
            self = self.raw("}");
            at += 1;
        }
        self.raw("]")
    }

    const fn options(mut self, options: &[OptionSpec]) -> Writer {
        self = self.raw("[");
        let mut at = 0;
        while at < options.len() {
            let option = &options[at];
            self = self.raw(if at == 0 { "{" } else { ",{" });
            self = self.string_field("name", option.name).string_field("kind", option.kind);
            self = self.string_field("default", option.default).key("doc").string(option.doc).raw("}");
            at += 1;
        }
        self.raw("]")
    }

    const fn string_field(self, key: &str, value: &str) -> Writer {
        self.key(key).string(value).raw(",")
    }

    const fn number_field(self, key: &str, value: u64) -> Writer {
        self.key(key).number(value).raw(",")
    }

    const fn key(self, key: &str) -> Writer {
        self.string(key).raw(":")
    }

    const fn string(mut self, text: &str) -> Writer {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        self = self.byte(b'"');
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            self = match byte {
                b'"' | b'\\' => self.byte(b'\\').byte(byte),
                0..0x20 => {
                    let low = HEX[(byte & 0xf) as usize];
                    self.raw("\\u00").byte(HEX[(byte >> 4) as usize]).byte(low)
                }
                _ => self.byte(byte),
            };
            at += 1;
        }
        self.byte(b'"')
    }

    const fn number(mut self, value: u64) -> Writer {
        let mut scale = 1;
        while value / scale >= 10 {
            scale *= 10;
        }
        while scale > 0 {
            self = self.byte(b'0' + (value / scale % 10) as u8);
            scale /= 10;
        }
        self
    }

    const fn raw(mut self, text: &str) -> Writer {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            self = self.byte(bytes[at]);
            at += 1;
        }
        self
    }

    const fn byte(mut self, byte: u8) -> Writer {
        assert!(self.len < CAPACITY, "a manifest takes at most 16 KiB");
        self.buffer[self.len] = byte;
        self.len += 1;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Capabilities, ManifestDoc};
    use super::*;
    use crate::Stage;

    const AWKWARD: Manifest = Manifest::new("quote\"d", "1.0\\2", "tab\there, nul\0, é")
        .with_locks(&[
            Lock::exclusive("mem", Stage::STAGE, Stage::STAGE),
            Lock::counted("compute", "permits", 10, Stage::COMPUTE, Stage::FINISH),
        ])
        .with_options(&[OptionSpec { name: "permits", kind: "u32", default: "10", doc: "how \"many\"" }])
        .with_capabilities(Capabilities(u64::MAX));
    static BYTES: [u8; encoded_len(&AWKWARD, "entry")] = encode(&AWKWARD, "entry");

    #[test]
    fn what_is_written_is_what_serde_json_reads() {
        let doc = ManifestDoc::from_json(&BYTES).expect("the encoder writes JSON");
        assert_eq!((doc.name.as_str(), doc.version.as_str()), (AWKWARD.name, AWKWARD.version));
        assert_eq!(doc.description, AWKWARD.description);
        assert_eq!(doc.capabilities, AWKWARD.capabilities);
        assert_eq!((doc.abi_major, doc.abi_minor, doc.entry.as_str()), (ABI_MAJOR, ABI_MINOR, "entry"));
        assert_eq!(doc.locks.len(), 2);
        assert_eq!(doc.locks[0].permits_option, None);
        assert_eq!(doc.locks[1].permits_option.as_deref(), Some("permits"));
        assert_eq!((doc.locks[1].permits, doc.locks[1].first, doc.locks[1].last), (10, 2, 3));
        assert_eq!(doc.options[0].doc, "how \"many\"");
    }
}
