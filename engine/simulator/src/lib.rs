//! What a policy would do on a machine that is described in a file, in virtual time.
//!
//! [`simulate`] runs a [`Scenario`] through the arbiter of production, with a policy in its seat, and gives [`PolicyFigures`]. There are no
//! threads and no clock: a run is as fast as the events can be worked off, and the same seed gives the same figures.
//!
//! `README.md` of this crate describes the format of scenarios and the model of the machine; `scenarios/` has some.
//!
//! ```
//! use interlock_simulator::Scenario;
//!
//! let scenario = Scenario::parse(
//!     r#"(
//!         devices: [(vram: "16GiB")],
//!         classes: [(
//!             name: "porep",
//!             staged: "4GiB",
//!             prepare: (time: Constant("800ms")),
//!             stage: Constant("20ms"),
//!             compute: Constant("1.8s"),
//!             finish: (time: Constant("500ms")),
//!         )],
//!         arrivals: [Closed(class: "porep", jobs: 100, in_flight: 4)],
//!     )"#,
//!     None,
//! )?;
//! assert_eq!(scenario.workers, 2);
//!
//! // Errors name the place of the value.
//! let error = Scenario::parse("(devices: [(vram: \"16GiB\", count: 0)], classes: [], arrivals: [])", None).unwrap_err();
//! assert_eq!(error.to_string(), "1:35: count: 0; write at least 1");
//! # Ok::<(), interlock_simulator::ScenarioError>(())
//! ```

#![deny(missing_docs)]

mod distribution;
mod figures;
mod scenario;
mod text;
mod trace;
pub mod tune;
mod world;

pub use distribution::{Distribution, DistributionError};
pub use figures::{DeviceFigures, Figures, PolicyFigures, Quarantined, Spread};
pub use scenario::{
    Arrivals, Bytes, CallSite, CpuWork, Device, DeviceWide, Fault, Host, Kernels, Limits, MAX_DEVICES,
    MAX_PARTITIONS, MAX_WORKERS, MOST_SCENARIO_BYTES, Scenario, ScenarioError, ScenarioFault, Synthesis,
    TaskClass, Time, TimeError, TraceJob,
};
pub use text::render;
pub use trace::ChromeTrace;
pub use world::{Progress, Simulated, simulate, simulate_watched};

/// Why a simulation did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The scenario is not one.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A policy makes no instance.
    #[error("policy \"{name}\" cannot be seated: {reason}")]
    Policy {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// The run goes on for longer than a clock can show.
    #[error(
        "the run would take more than 290 years of virtual time; look for a time in the scenario that is out of all proportion"
    )]
    TooLong,
    /// Nothing happens any more although tasks are left.
    #[error(
        "nothing happens any more, and {tasks} tasks have not ended; this is a fault of the simulator, please report the scenario"
    )]
    Stuck {
        /// How many.
        tasks: u64,
    },
    /// The arbiter refused an event.
    #[error("the arbiter refused an event; this is a fault of the simulator, please report the scenario")]
    Arbiter(#[from] interlock_arbiter::EventError),
}
