//! Arithmetic that the CPU core and the development setup share: field traits over blst, affine
//! addition in batches, evaluation domains, digits of scalars.

pub mod affine;
pub mod domain;
pub mod field;
pub mod window;
