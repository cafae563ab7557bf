//! The options and the number of workers that are best for a scenario: every point of a grid is simulated.

use interlock_arbiter::PolicySource;
use rayon::prelude::*;
use serde::Serialize;

use crate::{Scenario, SimulateError, simulate};

mod grid;
mod plot;

pub use grid::{Axis, Grid, GridError, MOST_POINTS, Point, usual_values};
pub use plot::{PlotError, plot};

/// What is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Most jobs per second.
    ProofsPerSecond,
    /// The lowest 95th percentile of the latency of a job.
    Latency95,
}

/// A point of the grid with what it gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// What was tried.
    #[serde(flatten)]
    pub point: Point,
    /// What it gave; mean of the seeds.
    pub figures: TriedFigures,
    /// Why it cannot be the best, whatever its figures: jobs that were not proved, a policy that was taken out of its seat.
    pub unfit: Option<String>,
}

/// The figures by which points are told apart; means of the seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TriedFigures {
    /// Jobs per second.
    pub proofs_per_s: f64,
    /// 95th percentile of the latency of a job, in seconds.
    pub latency_p95_s: f64,
    /// Share of the time in which a device had a task in Compute.
    pub device_busy: f64,
    /// `Skip` verdicts.
    pub skips: f64,
    /// Tasks that went to the CPU core.
    pub fallbacks: f64,
}

/// All points of a grid, the best first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tuned {
    /// What was best.
    pub goal: Goal,
    /// Seeds that each point was simulated with, the same for all.
    pub seeds: Vec<u64>,
    /// The points that were simulated: those that are unfit last.
    pub points: Vec<Tried>,
    /// Points that the policy did not take, with its words.
    pub refused: Vec<(Point, String)>,
    /// The point that is configured: every axis at its first value.
    pub configured: Point,
}

/// Simulates every point of `grid`, on all cores. `policy` makes the policy with a point's options, or says why there is none.
///
/// Every point sees the same seeds, so that chance favours nobody.
///
/// # Errors
/// [`SimulateError`] of any point.
pub fn tune<P: PolicySource>(
    scenario: &Scenario,
    grid: &Grid,
    goal: Goal,
    seeds: u32,
    policy: &(dyn Fn(&Point) -> Result<P, String> + Sync),
    fallback: &dyn PolicySource,
) -> Result<Tuned, SimulateError> {
    let seeds: Vec<u64> = (0..u64::from(seeds.max(1))).map(|more| scenario.seed.wrapping_add(more)).collect();
    let points = grid.points();
    let configured = points[0].clone();
    let results: Vec<Result<Tried, Refused>> = points
        .into_par_iter()
        .map(|point| match policy(&point) {
            // Options may be of the right type and of no use: that is said when an instance is made.
            Ok(policy) => match policy.seat() {
                Ok(_) => Ok(try_point(scenario, point, &policy, fallback, &seeds)?),
                Err(reason) => Err(Refused::ByPolicy(point, reason)),
            },
            Err(reason) => Err(Refused::ByPolicy(point, reason)),
        })
        .collect();
    let mut tuned = Tuned { goal, seeds, points: Vec::new(), refused: Vec::new(), configured };
    for result in results {
        match result {
            Ok(tried) => tuned.points.push(tried),
            Err(Refused::ByPolicy(point, reason)) => tuned.refused.push((point, reason)),
            Err(Refused::Simulation(error)) => return Err(error),
        }
    }
    // Stable: of equal points the one that stands nearer to what is configured wins.
    tuned.points.sort_by(|left, right| {
        let badness = |tried: &Tried| badness(goal, tried);
        left.unfit.is_some().cmp(&right.unfit.is_some()).then(badness(left).total_cmp(&badness(right)))
    });
    Ok(tuned)
}

enum Refused {
    ByPolicy(Point, String),
    Simulation(SimulateError),
}

impl From<SimulateError> for Refused {
    fn from(error: SimulateError) -> Self {
        Self::Simulation(error)
    }
}

fn badness(goal: Goal, tried: &Tried) -> f64 {
    match goal {
        Goal::ProofsPerSecond => -tried.figures.proofs_per_s,
        Goal::Latency95 => tried.figures.latency_p95_s,
    }
}

fn try_point(
    scenario: &Scenario,
    point: Point,
    policy: &dyn PolicySource,
    fallback: &dyn PolicySource,
    seeds: &[u64],
) -> Result<Tried, SimulateError> {
    let mut figures = TriedFigures::default();
    let mut unfit = None;
    let share = 1.0 / seeds.len() as f64;
    for seed in seeds {
        let scenario = Scenario { seed: *seed, workers: point.workers, ..scenario.clone() };
        let run = simulate(&scenario, policy, fallback, None)?.figures;
        figures.proofs_per_s += run.proofs_per_s * share;
        figures.latency_p95_s += run.latency_s.p95 * share;
        figures.device_busy += run.device_busy * share;
        figures.skips += run.skips as f64 * share;
        figures.fallbacks += run.fallbacks as f64 * share;
        if let Some(quarantined) = run.quarantines.first() {
            unfit = Some(format!("{} was taken out of its seat: {}", quarantined.policy, quarantined.code));
        } else if run.failed > 0 {
            unfit = Some(format!("{} jobs were not proved", run.failed));
        }
    }
    Ok(Tried { point, figures, unfit })
}

impl Tuned {
    /// The best point; `None` when none is fit.
    pub fn best(&self) -> Option<&Tried> {
        self.points.first().filter(|tried| tried.unfit.is_none())
    }

    /// What the configured point gave; `None` when the policy did not take it.
    pub fn configured(&self) -> Option<&Tried> {
        self.points.iter().find(|tried| tried.point == self.configured)
    }
}
