//! The error of every reader.

use std::path::{Path, PathBuf};

/// A file that cannot be used: which one, where in it, why, and ([`FormatError::help`]) what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}, {section}{}: {reason}", file.display(), offset.map(|at| format!(", byte {at}")).unwrap_or_default())]
pub struct FormatError {
    /// The file.
    pub file: PathBuf,
    /// The part of the file, as its format names it.
    pub section: String,
    /// Bytes from the start of the file to what is wrong, where one place is.
    pub offset: Option<u64>,
    /// What is wrong.
    #[source]
    pub reason: Reason,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The operating system could not open or read it.
    #[error("cannot be read: {0}")]
    Io(std::io::Error),
    /// A directory, pipe or device.
    #[error("not a regular file")]
    NotAFile,
    /// There is nothing in it.
    #[error("the file is empty")]
    Empty,
    /// It ends too early.
    #[error("{needed} more bytes are needed, but only {left} are left")]
    Truncated {
        /// Bytes that the format asks for here.
        needed: u64,
        /// Bytes that there are.
        left: u64,
    },
    /// It goes on after its end.
    #[error("{extra} bytes too many")]
    TrailingBytes {
        /// How many.
        extra: u64,
    },
    /// Not a file of this format.
    #[error("not a {expected} file: it starts with {found:?}")]
    BadMagic {
        /// The format that was asked for.
        expected: &'static str,
        /// What the file starts with.
        found: String,
    },
    /// A version of the format that this reader does not know.
    #[error("format version {found}, only version {expected} is known")]
    WrongVersion {
        /// The known version.
        expected: u32,
        /// The file's.
        found: u32,
    },
    /// Made for another proof system.
    #[error("made for {found}, not for Groth16")]
    WrongProtocol {
        /// The file's proof system.
        found: String,
    },
    /// Made over another curve.
    #[error("made over {found}, this engine works over {expected}")]
    WrongCurve {
        /// This engine's curve or field.
        expected: String,
        /// The file's.
        found: String,
    },
    /// A section that must be there is not.
    #[error("the section is missing")]
    MissingSection,
    /// A section is there twice.
    #[error("the section is there twice")]
    DuplicateSection,
    /// Two numbers that must agree do not.
    #[error("{what}: {found} where {expected} is due")]
    CountMismatch {
        /// What is counted.
        what: &'static str,
        /// What follows from the rest of the file.
        expected: u64,
        /// What the file says.
        found: u64,
    },
    /// A number is beyond what makes sense.
    #[error("{what} is {found}, the limit is {limit}")]
    TooLarge {
        /// What the number says.
        what: &'static str,
        /// The most that is accepted.
        limit: u64,
        /// What the file says.
        found: u64,
    },
    /// A scalar is not below the order of the scalar field.
    #[error("scalar {index} is not below the order of the scalar field")]
    NonCanonicalScalar {
        /// Index within the section.
        index: u64,
    },
    /// A point's bytes are no encoding of a point: a coordinate is not below the modulus of the base
    /// field, or the flags are wrong.
    #[error("point {index} is not a canonical encoding")]
    NonCanonicalPoint {
        /// Index within the section.
        index: u64,
    },
    /// A point does not satisfy the curve equation.
    #[error("point {index} is not on the curve")]
    PointNotOnCurve {
        /// Index within the section.
        index: u64,
    },
    /// A point is on the curve, but not in the subgroup of prime order.
    #[error("point {index} is not in the subgroup of prime order")]
    PointNotInSubgroup {
        /// Index within the section.
        index: u64,
    },
    /// The point at infinity where none may be.
    #[error("point {index} is the point at infinity")]
    PointAtInfinity {
        /// Index within the section.
        index: u64,
    },
    /// `B` in G1 and `B` in G2 have points for different variables.
    #[error("variable {variable} has a point in one of the two B sections only")]
    InfinityDisagrees {
        /// The variable.
        variable: u64,
    },
    /// A part of the format that this engine does not do.
    #[error("{what} are not supported")]
    Unsupported {
        /// What is not done.
        what: &'static str,
    },
    /// Not JSON, or JSON of another shape.
    #[error("{0}")]
    Json(String),
    /// The SRS was made for another circuit.
    #[error("SRS of another circuit: {what} is {found}, the circuit has {expected}")]
    OtherCircuit {
        /// What was compared.
        what: &'static str,
        /// The circuit's.
        expected: u64,
        /// The SRS's.
        found: u64,
    },
    /// The SRS was made for another circuit: an entry of its matrices differs.
    #[error("SRS of another circuit: matrix {matrix}, constraint {row}, variable {column} differ")]
    OtherCircuitEntry {
        /// `A` or `B`.
        matrix: char,
        /// The constraint; the implied rows of the inputs count on after the last.
        row: u64,
        /// The variable.
        column: u64,
    },
}

impl Reason {
    /// What to do about it, in one or two sentences.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Io(_) => "Check that the path is right and that the file may be read.",
            Self::NotAFile => "Give the path of a regular file; pipes and devices cannot be read twice.",
            Self::Empty => {
                "The tool that made it failed: run it again and read what it prints. (`snarkjs groth16 setup` \
                 leaves an empty zkey, with exit code 0, when the circuit is too big for the ptau file or of \
                 another curve.)"
            }
            Self::Truncated { .. } => {
                "The file was cut short or damaged: copy or make it again, and compare checksums."
            }
            Self::TrailingBytes { .. } => {
                "The file is damaged, or two files were joined: make it again, and compare checksums."
            }
            Self::BadMagic { .. } => "Check that the right file was given for the right option.",
            Self::WrongVersion { .. } => {
                "Make the file again with circom 2 and snarkjs 0.7, or the version it names."
            }
            Self::WrongProtocol { .. } => "Make the key with `snarkjs groth16 setup`.",
            Self::WrongCurve { .. } => {
                "Compile with `circom --prime bls12381`, and make the ptau file with `snarkjs powersoftau \
                 new bls12-381`."
            }
            Self::MissingSection | Self::DuplicateSection | Self::CountMismatch { .. } => {
                "The file is damaged or was made by a tool with a fault: make it again, and compare \
                 checksums."
            }
            Self::TooLarge { .. } => "The file is damaged, or the circuit is beyond what this engine takes.",
            Self::NonCanonicalScalar { .. } | Self::NonCanonicalPoint { .. } => {
                "The file is damaged, or was made over another curve: make it again, and compare checksums."
            }
            Self::PointNotOnCurve { .. }
            | Self::PointNotInSubgroup { .. }
            | Self::PointAtInfinity { .. }
            | Self::InfinityDisagrees { .. } => {
                "The file is damaged or forged. Do not use it: get it from its source, and compare \
                 checksums."
            }
            Self::Unsupported { .. } => "Compile the circuit without them.",
            Self::Json(_) => "Give a file as snarkjs writes it.",
            Self::OtherCircuit { .. } | Self::OtherCircuitEntry { .. } => {
                "Give the SRS that was made for this circuit; a circuit that was compiled anew, even with \
                 other optimizations, needs a new SRS."
            }
        }
    }
}

impl FormatError {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        self.reason.help()
    }

    pub(crate) fn new(file: &Path, section: impl Into<String>, offset: Option<u64>, reason: Reason) -> Self {
        Self { file: file.to_owned(), section: section.into(), offset, reason }
    }
}
