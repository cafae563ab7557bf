//! What all file formats share: named inputs, bounded reading, points and scalars with their checks,
//! and the one error that says what is wrong, where, and what to do.
//!
//! Nothing here trusts a count or a length from a file: memory is set aside only for what the
//! bytes that are really there can hold. Big sections are read through a window of
//! 1 MiB, never as a whole, so that reading an SRS takes no more memory than the SRS.

pub(crate) mod binfile;
mod error;
pub(crate) mod field;
mod input;
pub(crate) mod points;

pub use error::{FormatError, Reason};
pub use input::Input;
pub(crate) use input::Section;
pub use points::PointCheck;
