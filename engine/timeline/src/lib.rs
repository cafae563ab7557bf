//! Timelines, as engines and simulators write them, read and checked.
//!
//! [`Reader`] gives the events of a CSV file one by one, [`Timeline`] makes spans of them.

#![deny(missing_docs)]

mod assembly;
mod error;
mod reader;
mod timeline;

pub use error::{Place, Problem, ReadError};
pub use reader::{Line, Reader};
pub use timeline::{Activity, Actor, Device, Ending, Engine, Job, Mark, Partition, Span, Task, Timeline};
