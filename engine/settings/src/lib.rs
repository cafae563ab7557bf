//! What people write in RON: places in a text, sizes in bytes, and the options of policies. And [`units`], for what they read.

#![deny(missing_docs)]

mod options;
mod position;
mod size;
pub mod units;

pub use options::{KINDS, OptionValue, OptionValues, OptionsError, OptionsText};
pub use position::Position;
pub use size::{ByteSize, ByteSizeError};
