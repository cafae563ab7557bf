//! Proofs: the type, and whether one holds.

pub use bellperson::groth16::Proof;
