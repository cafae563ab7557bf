//! Timelines, as engines and simulators write them: read, checked, counted and drawn.
//!
//! [`Reader`] gives the events of a CSV file one by one, [`Timeline`] makes spans of them. [`figures`] are what a run comes to
//! in numbers, a [`chart`] is its spans in lanes, and a [`page`] is one HTML file with both.

#![deny(missing_docs)]

mod assembly;
pub mod chart;
mod cover;
mod error;
pub mod figures;
pub mod page;
mod reader;
mod timeline;

pub use error::{Place, Problem, ReadError};
pub use reader::{Line, Reader};
pub use timeline::{Activity, Actor, Device, Ending, Engine, Job, Mark, Partition, Span, Task, Timeline};
