//! Experiments: which of several arms is better, by how much, and how sure one can be.
//!
//! An *arm* is one way to do the same work, a *round* runs each arm once, and an experiment is as many rounds as it takes. Nothing
//! here runs anything or reads a clock: whoever does brings the figures of each round.
//!
//! | module | what it holds |
//! |---|---|
//! | `order` | in which order a round runs the arms, so that neither place nor neighbour favours one |
//! | `interval` | bootstrap intervals of a mean |
//! | `compare` | two arms held against each other: ratio, difference, verdict |
//! | `progress` | whether more rounds are needed |
//! | `gate` | conditions such as `B.proofs_per_s < 0.97 * A.proofs_per_s` |
//!
//! `README.md` of this crate says why the figures are what they are.

#![deny(missing_docs)]

mod compare;
mod gate;
mod interval;
mod order;
mod progress;

pub use compare::{Better, Comparison, POWER, VERDICT_LEVEL, Verdict, compare, compare_apart};
pub use gate::{Gate, GateError};
pub use interval::{INTERVAL_LEVEL, Interval};
pub use order::round_order;
pub use progress::{MIN_ROUNDS, Progress, rounds_for};
