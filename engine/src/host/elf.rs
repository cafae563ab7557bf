//! Looks into an ELF file without running it: is it a shared object for this machine, is it whole, and
//! what does a section of it hold.
//!
//! Every offset and length is checked against the file before it is used. The checks are for files that
//! are truncated, damaged or of the wrong kind; they do not make an ill-meant library harmless.

use object::Endianness;
use object::elf::{
    DF_1_PIE, DT_FLAGS_1, ELFCLASS64, ELFDATA2LSB, ELFDATA2MSB, EM_AARCH64, EM_RISCV, EM_X86_64, ET_DYN,
    FileHeader64, PT_DYNAMIC, PT_LOAD, SHT_NOBITS,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};

/// Machine and byte order of the running program, as ELF numbers them.
const NATIVE: Option<(u16, u8)> = if cfg!(not(target_pointer_width = "64")) {
    None
} else if cfg!(target_arch = "x86_64") {
    Some((EM_X86_64.0, ELFDATA2LSB.0))
} else if cfg!(target_arch = "aarch64") {
    Some((EM_AARCH64.0, if cfg!(target_endian = "big") { ELFDATA2MSB.0 } else { ELFDATA2LSB.0 }))
} else if cfg!(target_arch = "riscv64") {
    Some((EM_RISCV.0, ELFDATA2LSB.0))
} else {
    None
};

/// Why a file was refused before anything of it ran.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// The magic number is not there.
    #[error("not an ELF file")]
    NotElf,
    /// A part of the file that its headers promise is not there.
    #[error("truncated or damaged: {what} does not lie inside the {size} bytes of the file")]
    Truncated {
        /// Which part.
        what: &'static str,
        /// Size of the file in bytes.
        size: u64,
    },
    /// A 32-bit file.
    #[error("not a 64-bit ELF file")]
    NotClass64,
    /// Built for another machine.
    #[error("built for ELF machine {machine} (byte order {order}), this program needs {}", native())]
    WrongMachine {
        /// `e_machine`.
        machine: u16,
        /// `EI_DATA`: 1 little-endian, 2 big-endian.
        order: u8,
    },
    /// An executable, an object file, a core dump.
    #[error("not a shared object (ELF type {kind}); build it as a `cdylib`")]
    NotSharedObject {
        /// `e_type`.
        kind: u16,
    },
    /// A program, which the dynamic linker does not load.
    #[error("a position-independent executable, not a shared object; build it as a `cdylib`")]
    Executable,
    /// The section is not there.
    #[error("no section {name}: not an Interlock policy; export it with `export_policy!`")]
    NoSection {
        /// The section's name.
        name: &'static str,
    },
    /// The section is there more than once.
    #[error("more than one section {name}; a library holds one policy")]
    SectionTwice {
        /// The section's name.
        name: &'static str,
    },
    /// The section is longer than anything it could hold.
    #[error("section {name} has {size} bytes, the most is {limit}")]
    SectionTooLong {
        /// The section's name.
        name: &'static str,
        /// Its size in bytes.
        size: u64,
        /// The most it may have.
        limit: u64,
    },
}

fn native() -> String {
    NATIVE.map_or("a machine that has no plug-ins".into(), |(machine, order)| {
        format!("machine {machine} (byte order {order})")
    })
}

/// A shared object for this machine whose headers and segments lie inside the file.
pub(super) struct SharedObject<'a> {
    bytes: &'a [u8],
    header: &'a FileHeader64<Endianness>,
    endian: Endianness,
}

impl<'a> SharedObject<'a> {
    /// Checks the headers.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, ElfError> {
        let truncated = |what| ElfError::Truncated { what, size: bytes.len() as u64 };
        if !bytes.starts_with(b"\x7fELF") {
            return Err(ElfError::NotElf);
        }
        let [class, order] = *bytes.get(4..6).ok_or(truncated("the file header"))? else {
            return Err(truncated("the file header"));
        };
        if class != ELFCLASS64.0 {
            return Err(ElfError::NotClass64);
        }
        // `parse` checks length, class, byte order and version.
        let header = FileHeader64::<Endianness>::parse(bytes).map_err(|_| truncated("the file header"))?;
        let endian = header.endian().map_err(|_| truncated("the file header"))?;
        let machine = header.e_machine(endian).0;
        if NATIVE != Some((machine, order)) {
            return Err(ElfError::WrongMachine { machine, order });
        }
        let kind = header.e_type(endian);
        if kind != ET_DYN {
            return Err(ElfError::NotSharedObject { kind: kind.0 });
        }
        let object = Self { bytes, header, endian };
        object.check_segments()?;
        Ok(object)
    }

    /// Every segment lies in the file, one can be loaded, and the dynamic table says "library".
    fn check_segments(&self) -> Result<(), ElfError> {
        let truncated = |what| ElfError::Truncated { what, size: self.bytes.len() as u64 };
        let segments = self
            .header
            .program_headers(self.endian, self.bytes)
            .map_err(|_| truncated("the table of segments"))?;
        let mut loadable = false;
        let mut dynamic = None;
        for segment in segments {
            let data = segment.data(self.endian, self.bytes).map_err(|()| truncated("a segment"))?;
            match segment.p_type(self.endian) {
                PT_LOAD => loadable |= !data.is_empty(),
                PT_DYNAMIC => {
                    dynamic = segment
                        .dynamic(self.endian, self.bytes)
                        .map_err(|_| truncated("the dynamic table"))?;
                }
                _ => {}
            }
        }
        let dynamic = dynamic.filter(|_| loadable).ok_or(truncated("what a library is loaded from"))?;
        let executable = dynamic.iter().any(|entry| {
            entry.d_tag(self.endian) == DT_FLAGS_1 && entry.d_val(self.endian) & DF_1_PIE.0 != 0
        });
        if executable { Err(ElfError::Executable) } else { Ok(()) }
    }

    /// The bytes of the one section of this name.
    pub(super) fn section(&self, name: &'static str, limit: u64) -> Result<&'a [u8], ElfError> {
        let truncated = |what| ElfError::Truncated { what, size: self.bytes.len() as u64 };
        let sections =
            self.header.sections(self.endian, self.bytes).map_err(|_| truncated("the table of sections"))?;
        let mut found = None;
        for section in sections.iter() {
            let section_name =
                sections.section_name(self.endian, section).map_err(|_| truncated("a section's name"))?;
            if section_name == name.as_bytes() && found.replace(section).is_some() {
                return Err(ElfError::SectionTwice { name });
            }
        }
        let section = found
            .filter(|section| section.sh_type(self.endian) != SHT_NOBITS)
            .ok_or(ElfError::NoSection { name })?;
        let size = section.sh_size(self.endian);
        if size > limit {
            return Err(ElfError::SectionTooLong { name, size, limit });
        }
        section.data(self.endian, self.bytes).map_err(|_| truncated("the manifest's section"))
    }
}
