//! What the benches share.

pub mod measure;
pub mod peer;
pub mod statement;
