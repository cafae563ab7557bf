//! Rounds of runs, until enough is known.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use interlock_experiment::{Better, Comparison, Progress, compare, round_order};

use super::arm::{Arm, Common, letter};
use super::energy::Meter;
use super::load::{Arrivals, Jobs, Load, LoadError, Until};
use super::report::StopReason;
use super::run::{Run, RunError, RunFigures, run};

/// Seconds below which a run is mostly its own beginning and end.
pub const SHORTEST_RUN_S: f64 = 0.25;

/// An experiment that is ready to be run.
pub struct Experiment<'a> {
    /// What is compared, at least two; the first is the one that the others are held against.
    pub arms: &'a [Arm],
    /// What is the same for all of them.
    pub common: Common,
    /// What each run sends.
    pub load: Load,
    /// When the jobs of a Poisson process come, and with it everything that is left to chance.
    pub seed: u64,
    /// The difference that is to be seen, as a share.
    pub detect: f64,
    /// No more rounds than this.
    pub most_rounds: usize,
    /// Seconds below which a run says too little: see [`SHORTEST_RUN_S`].
    pub shortest_run_s: f64,
    /// No more time than this: what is under way then is broken off.
    pub budget: Duration,
    /// Tells the energy of devices, where a driver does.
    pub meter: Option<&'a Meter>,
    /// What is sent.
    pub jobs: Jobs<'a>,
    /// Once set, the run that is under way is given up and no other is begun.
    pub stop: &'a AtomicBool,
}

/// What happens, for people who wait.
pub enum Tell<'a> {
    /// A run of an arm begins.
    Begins {
        /// Index of the arm.
        arm: usize,
        /// Number of the round, from 0.
        round: usize,
    },
    /// It ended.
    Ended {
        /// Index of the arm.
        arm: usize,
        /// What came of it.
        result: &'a Result<RunFigures, RunError>,
    },
    /// A round ended. About so many will be needed.
    Round {
        /// Rounds that were run.
        run: usize,
        /// Rounds that are thought to be needed.
        needed: usize,
    },
}

/// The runs of one arm.
#[derive(Default)]
pub struct ArmRuns {
    /// The figures of each round, with its number.
    pub rounds: Vec<(usize, RunFigures)>,
    /// Why there are no more.
    pub failed: Option<RunError>,
    /// The last run with its events.
    pub last: Option<Run>,
}

/// What an experiment came to.
pub struct Rounds {
    /// For each arm.
    pub arms: Vec<ArmRuns>,
    /// Rounds that were begun.
    pub rounds: usize,
    /// Why there are no more.
    pub stopped: StopReason,
    /// About so many rounds would have been enough; those that were run when they were.
    pub needed: usize,
    /// How long it all took.
    pub elapsed: Duration,
}

/// Why an experiment came to nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ExperimentError {
    /// The work takes too little time to be measured.
    #[error(transparent)]
    Short(#[from] ShortWork),
    /// The time was over before there were two rounds, without which nothing can be said.
    #[error("the time was over in round {round}, and nothing can be said before there are two")]
    NoTime {
        /// The round, from 1.
        round: usize,
    },
}

/// The work takes too little time to be measured.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "a run of arm {arm} took {seconds:.3} s, and one of less than {at_least} s says little; {jobs} jobs a run would do"
)]
pub struct ShortWork {
    /// The arm's letter.
    pub arm: String,
    /// What its run took.
    pub seconds: f64,
    /// What it should have taken.
    pub at_least: f64,
    /// Jobs that would take long enough.
    pub jobs: u64,
}

impl Experiment<'_> {
    /// Runs the experiment.
    ///
    /// # Errors
    /// [`ExperimentError`]. An arm that fails is no error: the others go on.
    pub fn run(&self, tell: &mut dyn FnMut(Tell<'_>)) -> Result<Rounds, ExperimentError> {
        let start = Instant::now();
        let mut arms: Vec<ArmRuns> = self.arms.iter().map(|_| ArmRuns::default()).collect();
        let mut rounds = 0;
        let mut needed = interlock_experiment::MIN_ROUNDS;
        let stopped = loop {
            if let Some(reason) = self.reason_to_stop(&arms, rounds, start.elapsed()) {
                break reason;
            }
            let mut time_over = false;
            for arm in round_order(arms.len(), rounds) {
                if arms[arm].failed.is_none() && !self.is_stopped() && !time_over {
                    time_over = !self.run_arm(arm, rounds, &mut arms[arm], start, tell);
                }
            }
            if time_over {
                if rounds < 2 {
                    return Err(ExperimentError::NoTime { round: rounds + 1 });
                }
                break StopReason::Budget;
            }
            rounds += 1;
            if rounds == 1 {
                self.check_length(&arms)?;
            }
            match Progress::of(&self.primary(&arms), self.detect) {
                Progress::Enough => {
                    needed = rounds;
                    break StopReason::Enough;
                }
                Progress::Continue { rounds } => needed = rounds,
            }
            tell(Tell::Round { run: rounds, needed });
        };
        Ok(Rounds { arms, rounds, stopped, needed, elapsed: start.elapsed() })
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn reason_to_stop(&self, arms: &[ArmRuns], rounds: usize, elapsed: Duration) -> Option<StopReason> {
        let running = arms.iter().filter(|arm| arm.failed.is_none()).count();
        if self.is_stopped() {
            Some(StopReason::Stopped)
        } else if running < 2 {
            Some(StopReason::ArmsFailed)
        } else if rounds >= self.most_rounds {
            Some(StopReason::Rounds)
        } else if rounds >= 2 && elapsed + elapsed / rounds as u32 > self.budget {
            Some(StopReason::Budget)
        } else {
            None
        }
    }

    /// Runs an arm once. False when the time was over before it came to its end.
    fn run_arm(
        &self,
        index: usize,
        round: usize,
        runs: &mut ArmRuns,
        start: Instant,
        tell: &mut dyn FnMut(Tell<'_>),
    ) -> bool {
        tell(Tell::Begins { arm: index, round });
        // The same arrivals for all arms of a round, other ones in the next.
        let seed = self.seed.wrapping_add(round as u64);
        let until = Until { stop: self.stop, deadline: start.checked_add(self.budget) };
        let result = run(&self.arms[index], &self.common, &self.load, seed, until, self.jobs, self.meter);
        let figures = result.map(|run| {
            let figures = run.figures.clone();
            runs.last = Some(run);
            figures
        });
        // Neither whoever stopped the experiment nor the clock means that the arm is bad.
        if let Err(RunError::Load(reason @ (LoadError::Stopped | LoadError::TimeOver))) = &figures {
            return *reason == LoadError::Stopped;
        }
        tell(Tell::Ended { arm: index, result: &figures });
        match figures {
            Ok(figures) => runs.rounds.push((round, figures)),
            Err(error) => runs.failed = Some(error),
        }
        true
    }

    fn check_length(&self, arms: &[ArmRuns]) -> Result<(), ShortWork> {
        let figures =
            arms.iter().enumerate().flat_map(|(arm, runs)| runs.rounds.iter().map(move |run| (arm, &run.1)));
        let shortest = figures.min_by(|left, right| left.1.seconds.total_cmp(&right.1.seconds));
        match shortest {
            Some((arm, figures)) if figures.seconds < self.shortest_run_s => {
                // A quarter more, as runs differ.
                let factor = 1.25 * self.shortest_run_s / figures.seconds.max(1e-6);
                let jobs = (f64::from(self.load.jobs) * factor).ceil() as u64;
                Err(ShortWork {
                    arm: letter(arm),
                    seconds: figures.seconds,
                    at_least: self.shortest_run_s,
                    jobs,
                })
            }
            _ => Ok(()),
        }
    }

    /// The comparisons that say when to stop: one for each pair.
    fn primary(&self, arms: &[ArmRuns]) -> Vec<Comparison> {
        let metric = Metric::primary(self.load.arrivals);
        let Some(baseline) = arms.iter().position(|arm| arm.failed.is_none()) else { return Vec::new() };
        let candidates = arms.iter().skip(baseline + 1).filter(|arm| arm.failed.is_none());
        let count = candidates.clone().count();
        candidates.filter_map(|candidate| metric.compare(&arms[baseline], candidate, count)).collect()
    }
}

/// A figure by which arms are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Proofs per second.
    ProofsPerSecond,
    /// The median latency of a job.
    LatencyMedian,
    /// The 95th percentile of the latency of a job.
    Latency95,
    /// Joules of the devices for each proof, where they are known.
    JoulesPerProof,
}

impl Metric {
    /// All of them.
    pub const ALL: [Metric; 4] =
        [Metric::ProofsPerSecond, Metric::LatencyMedian, Metric::Latency95, Metric::JoulesPerProof];

    /// The one that decides. Jobs of an open loop come at their own pace, so that latency tells what throughput cannot.
    pub fn primary(arrivals: Arrivals) -> Metric {
        match arrivals {
            Arrivals::Closed { .. } => Metric::ProofsPerSecond,
            Arrivals::Poisson { .. } => Metric::Latency95,
        }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Metric::ProofsPerSecond => "proofs_per_s",
            Metric::LatencyMedian => "latency_p50_s",
            Metric::Latency95 => "latency_p95_s",
            Metric::JoulesPerProof => "joules_per_proof",
        }
    }

    /// Which way it is good.
    pub fn better(self) -> Better {
        match self {
            Metric::ProofsPerSecond => Better::Higher,
            Metric::LatencyMedian | Metric::Latency95 | Metric::JoulesPerProof => Better::Lower,
        }
    }

    /// Its value in one run: a number above zero. `None` when the run has none.
    pub fn of(self, figures: &RunFigures) -> Option<f64> {
        let value = match self {
            Metric::ProofsPerSecond => figures.proofs_per_s,
            Metric::LatencyMedian => quantile(&figures.latencies_s, 0.5),
            Metric::Latency95 => quantile(&figures.latencies_s, 0.95),
            Metric::JoulesPerProof => figures.energy?.joules_per_proof,
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }

    /// Holds a candidate against a baseline, in the rounds that both have.
    pub fn compare(self, baseline: &ArmRuns, candidate: &ArmRuns, comparisons: usize) -> Option<Comparison> {
        let pairs: Vec<(f64, f64)> = baseline
            .rounds
            .iter()
            .filter_map(|(round, figures)| {
                let other = candidate.rounds.iter().find(|(number, _)| number == round)?;
                self.of(figures).zip(self.of(&other.1))
            })
            .collect();
        compare(&pairs, self.better(), comparisons)
    }
}

/// The value below which a share of the sorted values lies, by nearest rank; 0 of none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let values = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(
            [0.0, 0.5, 0.51, 0.95, 1.0].map(|share| quantile(&values, share)),
            [1.0, 2.0, 3.0, 4.0, 4.0]
        );
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
