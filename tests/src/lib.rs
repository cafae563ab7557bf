//! What the tests that cross crates share.

pub mod fixtures;
pub mod fuzz;
pub mod leftovers;
pub mod libraries;
pub mod prove;
pub mod questions;
