//! A named file, and a bounded part of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{FormatError, Reason};

/// What a reader reads: an open file, or bytes, under the name that errors use.
#[derive(Debug)]
pub struct Input {
    name: PathBuf,
    source: Source,
    len: u64,
}

#[derive(Debug)]
enum Source {
    File(File),
    Bytes(Vec<u8>),
}

impl Input {
    /// Opens a regular file.
    ///
    /// # Errors
    /// [`Reason::Io`] or [`Reason::NotAFile`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FormatError> {
        let path = path.as_ref();
        let fail = |reason| FormatError::new(path, "the file", None, reason);
        // Asked before opening, because opening a pipe waits for its writer.
        let metadata = std::fs::metadata(path).map_err(|error| fail(Reason::Io(error)))?;
        if !metadata.is_file() {
            return Err(fail(Reason::NotAFile));
        }
        let file = File::open(path).map_err(|error| fail(Reason::Io(error)))?;
        Ok(Self { name: path.to_owned(), source: Source::File(file), len: metadata.len() })
    }

    /// Bytes in memory; `name` is what errors call them.
    pub fn from_bytes(name: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self { name: name.into(), len: bytes.len() as u64, source: Source::Bytes(bytes) }
    }

    /// The name that errors use.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Bytes in all.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All bytes, of a file that may have at most `limit`.
    pub(crate) fn read_all(&self, limit: u64) -> Result<Vec<u8>, FormatError> {
        if self.len > limit {
            let reason = Reason::TooLarge { what: "the length in bytes", limit, found: self.len };
            return Err(self.error("the file", None, reason));
        }
        let mut bytes = vec![0; self.len as usize];
        self.read_exact_at(&mut bytes, 0)
            .map_err(|error| self.error("the file", Some(0), Reason::Io(error)))?;
        Ok(bytes)
    }

    /// The bytes `start..end`, to be read in order. `end` must not lie behind the end of the input.
    pub(crate) fn section(&self, name: &'static str, start: u64, end: u64) -> Section<'_> {
        Section { input: self, name, position: start, end, window: Vec::new(), window_start: start }
    }

    pub(crate) fn error(
        &self,
        section: impl Into<String>,
        offset: Option<u64>,
        reason: Reason,
    ) -> FormatError {
        FormatError::new(&self.name, section, offset, reason)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.source {
            Source::File(file) => file.read_exact_at(buffer, offset),
            Source::Bytes(bytes) => {
                let start = offset as usize;
                buffer.copy_from_slice(&bytes[start..start + buffer.len()]);
                Ok(())
            }
        }
    }
}

/// A part of an [`Input`] that is read from its start to its end, through a window of at most 1 MiB
/// (or one item, if that is longer).
pub(crate) struct Section<'a> {
    input: &'a Input,
    name: &'static str,
    position: u64,
    end: u64,
    window: Vec<u8>,
    window_start: u64,
}

/// Bytes that are read from the operating system at once.
const WINDOW: u64 = 1 << 20;

impl<'a> Section<'a> {
    /// Where the next byte lies in the file.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes that are left.
    pub(crate) fn remaining(&self) -> u64 {
        self.end - self.position
    }

    /// From here on, errors name this part.
    pub(crate) fn rename(&mut self, name: &'static str) {
        self.name = name;
    }

    /// An error at the current position.
    pub(crate) fn error(&self, reason: Reason) -> FormatError {
        self.error_at(self.position, reason)
    }

    /// An error at byte `offset` of the file.
    pub(crate) fn error_at(&self, offset: u64, reason: Reason) -> FormatError {
        self.input.error(self.name, Some(offset), reason)
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&[u8], FormatError> {
        self.require(count as u64)?;
        let mut at = (self.position - self.window_start) as usize;
        if at + count > self.window.len() {
            let length = (count as u64).max(WINDOW.min(self.remaining()));
            self.window.resize(length as usize, 0);
            self.input.read_exact_at(&mut self.window, self.position).map_err(|error| {
                let reason = match error.kind() {
                    // The file shrank after it was opened.
                    io::ErrorKind::UnexpectedEof => Reason::Truncated { needed: length, left: 0 },
                    _ => Reason::Io(error),
                };
                self.input.error(self.name, Some(self.position), reason)
            })?;
            self.window_start = self.position;
            at = 0;
        }
        self.position += count as u64;
        Ok(&self.window[at..at + count])
    }

    /// All bytes of a section that is known to be short.
    pub(crate) fn take_head(&mut self) -> Result<Vec<u8>, FormatError> {
        self.take(self.remaining() as usize).map(<[u8]>::to_vec)
    }

    /// As many of the next items as fit the window, at least one and at most `most`.
    pub(crate) fn take_items(&mut self, item_bytes: usize, most: usize) -> Result<&[u8], FormatError> {
        let fit = (WINDOW as usize / item_bytes).clamp(1, most);
        self.take(fit * item_bytes)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    /// The next four bytes, little-endian.
    pub(crate) fn u32_le(&mut self) -> Result<u32, FormatError> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes, little-endian.
    pub(crate) fn u64_le(&mut self) -> Result<u64, FormatError> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next four bytes, big-endian.
    pub(crate) fn u32_be(&mut self) -> Result<u32, FormatError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Fails unless `bytes` bytes are left.
    pub(crate) fn require(&self, bytes: u64) -> Result<(), FormatError> {
        if bytes > self.remaining() {
            return Err(self.error(Reason::Truncated { needed: bytes, left: self.remaining() }));
        }
        Ok(())
    }

    /// Fails unless exactly `count` items of `item_bytes` bytes are left.
    pub(crate) fn require_exactly(&self, count: u64, item_bytes: u64) -> Result<(), FormatError> {
        let needed = count.saturating_mul(item_bytes);
        self.require(needed)?;
        match self.remaining() - needed {
            0 => Ok(()),
            extra => Err(self.error_at(self.position + needed, Reason::TrailingBytes { extra })),
        }
    }

    /// Fails when bytes are left.
    pub(crate) fn finish(self) -> Result<(), FormatError> {
        self.require_exactly(0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_where_it_should() {
        let input = Input::from_bytes("x", [1, 0, 0, 0, 9, 9]);
        let mut section = input.section("part", 0, 5);
        assert_eq!(section.u32_le().unwrap(), 1);
        let error = section.u32_le().unwrap_err();
        assert!(matches!(error.reason, Reason::Truncated { needed: 4, left: 1 }));
        assert_eq!(error.to_string(), "x, part, byte 4: 4 more bytes are needed, but only 1 are left");
        assert!(matches!(section.finish().unwrap_err().reason, Reason::TrailingBytes { extra: 1 }));
    }

    #[test]
    fn windows_follow_each_other() {
        let bytes: Vec<u8> = (0..3 * WINDOW as u32 / 4).flat_map(|i| i.to_le_bytes()).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut file, &bytes).unwrap();
        let input = Input::open(file.path()).unwrap();
        let mut section = input.section("all", 0, input.len());
        let mut read = Vec::new();
        while section.remaining() > 0 {
            let most = section.remaining() as usize / 4;
            read.extend_from_slice(section.take_items(4, most.min(100_003)).unwrap());
        }
        assert!(read == bytes);
    }

    #[test]
    fn a_directory_is_no_file() {
        let error = Input::open(std::env::temp_dir()).unwrap_err();
        assert!(matches!(error.reason, Reason::NotAFile));
    }
}
