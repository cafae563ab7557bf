//! The laws that a scheduling policy has to keep, and a check of them.
//!
//! `interlock policy check` checks a library; a policy's own tests check its type:
//!
//! ```
//! use interlock_conformance::{Linked, Settings, check};
//! use interlock_policy_api::{Lock, Manifest, NoOptions, Policy, Stage};
//!
//! struct Alone;
//!
//! impl Policy for Alone {
//!     type Options = NoOptions;
//!     const MANIFEST: Manifest = Manifest::new("alone", "1.0.0", "one task at a time on the device")
//!         .with_locks(&[Lock::exclusive("device", Stage::STAGE, Stage::COMPUTE)]);
//!
//!     fn new(_options: NoOptions) -> Result<Self, String> {
//!         Ok(Alone)
//!     }
//! }
//!
//! let policy = Linked::<Alone>::new("").expect("it has no options");
//! check(&policy, &Settings { scenarios: 50, ..Settings::default() }).assert_kept();
//! ```
//!
//! The policy decides for the arbiter that the engine has, in virtual time: there is no thread that waits and no clock, and the
//! same seed finds the same. `README.md` of this crate says what each [`Law`] means exactly.

#![deny(missing_docs)]

mod check;
mod cost;
mod echo;
mod exhaustive;
mod law;
mod linked;
mod progress;
mod random;
mod record;
mod report;
mod run;
mod scenario;
mod trace;

pub use check::{Settings, check, check_watched, replay};
pub use cost::Cost;
pub use law::{Break, Law};
pub use linked::{Linked, LinkedError};
pub use progress::Progress;
pub use report::{Example, LawReport, Replay, Report, Standing};
pub use scenario::{Failure, Happening, Scenario, ScenarioError, TaskPlan};
