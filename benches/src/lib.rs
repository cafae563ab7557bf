//! What the benches share.

pub mod busy;
pub mod card;
pub mod measure;
pub mod peer;
pub mod statement;
