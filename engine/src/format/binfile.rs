//! The container of circom's and snarkjs's binary files: magic, version, then numbered sections in
//! any order, each with its length before it.

use super::{FormatError, Input, Reason, Section};

/// Where the sections of a file lie.
pub(crate) struct BinFile<'a> {
    input: &'a Input,
    sections: Vec<(u32, u64, u64)>,
}

/// No format has more than a dozen; unknown ones are skipped.
const MOST_SECTIONS: u32 = 1 << 10;

impl<'a> BinFile<'a> {
    /// Reads the container of a `format` file, which starts with the four letters of that name.
    pub(crate) fn open(input: &'a Input, format: &'static str, version: u32) -> Result<Self, FormatError> {
        if input.is_empty() {
            return Err(input.error("the file", None, Reason::Empty));
        }
        let mut file = input.section("the file header", 0, input.len());
        let magic = file.array::<4>()?;
        if magic != *format.as_bytes() {
            let found = magic.escape_ascii().to_string();
            return Err(file.error_at(0, Reason::BadMagic { expected: format, found }));
        }
        let found = file.u32_le()?;
        if found != version {
            return Err(file.error_at(4, Reason::WrongVersion { expected: version, found }));
        }
        let count = file.u32_le()?;
        if count > MOST_SECTIONS {
            let (limit, found) = (MOST_SECTIONS.into(), count.into());
            return Err(file.error_at(8, Reason::TooLarge { what: "the number of sections", limit, found }));
        }
        if file.remaining() == 0 {
            return Err(file.error(Reason::Empty));
        }
        let mut sections = Vec::new();
        let mut position = file.position();
        for _ in 0..count {
            let mut header = input.section("a section header", position, input.len());
            let (id, length) = (header.u32_le()?, header.u64_le()?);
            header.require(length)?;
            position = header.position() + length;
            sections.push((id, header.position(), position));
        }
        if position < input.len() {
            let extra = input.len() - position;
            return Err(input.error("the file", Some(position), Reason::TrailingBytes { extra }));
        }
        Ok(Self { input, sections })
    }

    /// Whether there is a section `id`.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.sections.iter().any(|section| section.0 == id)
    }

    /// The section `id`, which errors call `name`.
    pub(crate) fn section(&self, id: u32, name: &'static str) -> Result<Section<'a>, FormatError> {
        let mut found = self.sections.iter().filter(|section| section.0 == id);
        match (found.next(), found.next()) {
            (Some(&(_, start, end)), None) => Ok(self.input.section(name, start, end)),
            (None, _) => Err(self.input.error(name, None, Reason::MissingSection)),
            (_, Some(&(_, start, _))) => Err(self.input.error(name, Some(start), Reason::DuplicateSection)),
        }
    }

    /// The whole file.
    pub(crate) fn input(&self) -> &'a Input {
        self.input
    }
}
