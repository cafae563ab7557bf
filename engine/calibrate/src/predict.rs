//! What a scenario gives under a policy, and how far that is from what was measured.

use std::sync::{Mutex, PoisonError};

use interlock_arbiter::{PolicySource, Recorder, TimelineEvent};
use interlock_simulator::{Scenario, simulate};
use interlock_timeline::Timeline;
use interlock_timeline::figures::Figures;
use serde::Serialize;

use crate::CalibrateError;

/// What a policy is predicted to give. Times are drawn anew in each of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Simulated runs.
    pub runs: u32,
    /// Partitions proved in a second.
    pub proofs_per_s: Spread,
    /// 95 of 100 partitions take no longer, from the begin of their synthesis (where there is none, their arrival at the
    /// device) until they are verified. In seconds.
    pub p95_latency_s: Spread,
}

/// A figure over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Its mean.
    pub mean: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

/// What was measured, in the units of a [`Prediction`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Partitions proved in a second, from the first submission to the last event.
    pub proofs_per_s: f64,
    /// As [`Prediction::p95_latency_s`].
    pub p95_latency_s: f64,
}

/// A prediction beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The policy.
    pub policy: String,
    /// What was predicted.
    pub predicted: Prediction,
    /// What was measured.
    pub measured: Measured,
    /// Predicted by measured, less one: of proofs in a second.
    pub proofs_per_s_error: f64,
    /// The same of the latency.
    pub p95_latency_error: f64,
}

/// Simulates a scenario so many times, with the seeds from the scenario's on.
///
/// # Errors
/// A simulation fails.
pub fn predict(
    scenario: &Scenario,
    policy: &dyn PolicySource,
    fallback: &dyn PolicySource,
    runs: u32,
) -> Result<Prediction, CalibrateError> {
    let mut figures = Vec::new();
    for run in 0..runs.max(1) {
        let seed = scenario.seed.wrapping_add(run.into());
        let scenario = Scenario { seed, ..scenario.clone() };
        // From its timeline, as that of a real run: so both mean the same.
        let events = Events::default();
        simulate(&scenario, policy, fallback, Some(&events))?;
        let events = events.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        figures.push(Measured::of(&Timeline::of_events(events)?)?);
    }
    Ok(Prediction {
        runs: runs.max(1),
        proofs_per_s: Spread::of(figures.iter().map(|run| run.proofs_per_s)),
        p95_latency_s: Spread::of(figures.iter().map(|run| run.p95_latency_s)),
    })
}

/// Keeps what happens.
#[derive(Default)]
struct Events(Mutex<Vec<TimelineEvent>>);

impl Recorder for Events {
    fn record(&self, event: &TimelineEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
    }
}

impl Spread {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count().max(1) as f64;
        Self {
            mean: values.clone().sum::<f64>() / count,
            least: values.clone().fold(f64::INFINITY, f64::min),
            most: values.fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

impl Measured {
    /// Of a run.
    ///
    /// # Errors
    /// No proof was made in it.
    pub fn of(timeline: &Timeline) -> Result<Self, CalibrateError> {
        let figures = Figures::of(timeline);
        let latency = figures.latency.ok_or(CalibrateError::NotSeen("Finish"))?;
        Ok(Self { proofs_per_s: figures.proofs_per_s, p95_latency_s: latency.p95_ns as f64 / 1e9 })
    }
}

impl Comparison {
    /// Holds a prediction against what was measured.
    pub fn new(policy: &str, predicted: Prediction, measured: Measured) -> Self {
        Self {
            policy: policy.to_owned(),
            proofs_per_s_error: predicted.proofs_per_s.mean / measured.proofs_per_s - 1.0,
            p95_latency_error: predicted.p95_latency_s.mean / measured.p95_latency_s - 1.0,
            predicted,
            measured,
        }
    }
}
