//! Experiments with engines: the same work under several arms, in turns, with figures and verdicts.
//!
//! | module | what it holds |
//! |---|---|
//! | `arm` | what is compared: policy, core, workers, limit |
//! | `load` | jobs sent to an engine, and when each of them ended |
//! | `energy` | what the devices of a run used |
//! | `run` | one run of one arm |
//! | `series` | rounds of runs until enough is known |
//! | `report` | what it all came to: the schema of `interlock ab --json` |
//! | `saved` | two experiments of other days held against each other |
//! | `machine` | where it ran |
//!
//! The arithmetic is in the crate [`interlock_experiment`]. `README.md` beside this file has the schema and what each figure means.

mod arm;
mod energy;
mod load;
mod machine;
mod report;
mod run;
mod saved;
mod series;

pub use arm::{Arm, Common, MOST_ARMS, letter};
pub use energy::{Counters, Energy, EnergyError, Meter, SHORTEST_ENERGY_S, Watched};
pub use load::{Arrivals, Jobs, Load, LoadError, Until};
pub use machine::{Machine, ResidentPeak};
pub use report::{
    ArmReport, ComparisonReport, ConditionReport, ExperimentReport, Latencies, MeanFigures, RoundFigures,
    StopReason, WorkReport, comparisons, condition_names,
};
pub use run::{LockSeconds, Run, RunError, RunFigures, run};
pub use saved::{SavedComparison, compare_saved, differences};
pub use series::{ArmRuns, Experiment, ExperimentError, Metric, Rounds, SHORTEST_RUN_S, ShortWork, Tell};
