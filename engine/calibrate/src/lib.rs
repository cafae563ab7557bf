//! From a run to a scenario of the simulator, and from the scenario to what another run would give.
//!
//! [`Costs::fit`] works out how long each thing takes when nothing else is in its way. [`Conditions::of`] says on what and under
//! what load a run was made. A [`Costs::scenario`] is both together: the costs of one run under the conditions of the same or
//! another one. [`predict`] simulates it, and a [`Comparison`] holds that against what was measured.
//!
//! `README.md` of this crate describes the method and what it cannot do.

#![deny(missing_docs)]

mod conditions;
mod costs;
mod error;
mod fit;
mod predict;
mod shared_clock;

pub use conditions::{Conditions, JobLoad};
pub use costs::{Costs, Note};
pub use error::CalibrateError;
pub use predict::{Comparison, Measured, Prediction, Spread, predict};
