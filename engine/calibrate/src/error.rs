//! Why a run cannot be made into a scenario.

/// Why a run cannot be made into a scenario.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// The timeline does not tell something that a scenario needs.
    #[error("the timeline does not tell {0}")]
    NotTold(&'static str),
    /// No task got through something.
    #[error("no task of the timeline ended {0} well: there is nothing to fit")]
    NotSeen(&'static str),
    /// A number is larger than a simulation takes.
    #[error("{what}: {count} is more than a scenario can have")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: u64,
    },
    /// The other run is of tasks that need other memory.
    #[error(
        "job {job} of the other run has tasks of {staged} staged and {peak} peak bytes, the run that was fitted has none of that size"
    )]
    OtherWork {
        /// Number of the job.
        job: u64,
        /// Bytes that its tasks stage.
        staged: u64,
        /// The most bytes that they hold.
        peak: u64,
    },
    /// What was fitted is no scenario.
    #[error("what was fitted is no scenario: {0}")]
    Scenario(#[from] interlock_simulator::ScenarioError),
    /// The timeline of a simulated run is none.
    #[error(
        "a simulated run wrote what is no timeline: {0}; this is a fault of the simulator, please report the run that was fitted"
    )]
    Timeline(#[from] interlock_timeline::Problem),
    /// The simulation failed.
    #[error(transparent)]
    Simulate(#[from] interlock_simulator::SimulateError),
}

impl CalibrateError {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::NotTold(_) => "Write the timeline anew with this version: older ones do not tell it.",
            Self::NotSeen(_) => "Fit a run in which proofs were made.",
            Self::TooMany { .. } => "The timeline is not of an engine, or was edited: make it anew.",
            Self::OtherWork { .. } => {
                "Compare runs of the same circuit on the same core: the bytes of a task come from both."
            }
            Self::Scenario(_) | Self::Simulate(_) | Self::Timeline(_) => {
                "Look at the scenario that `-o FILE` writes, and simulate it with `interlock simulate`."
            }
        }
    }
}
