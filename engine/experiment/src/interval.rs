//! Bootstrap intervals of a mean.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// How sure an [`Interval`] that is shown is: 95 in 100 such intervals hold the true value.
pub const INTERVAL_LEVEL: f64 = 0.95;

/// Values below which there is too little to draw from: the interval is then at least as wide as Student's.
const FEW: usize = 8;

/// How many samples are drawn. With 4000 the ends of a 95% interval have 100 draws beyond each of them, those of a 99%
/// interval 20.
const DRAWS: usize = 4000;

/// An estimate, and where the true value lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The estimate.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies inside, the ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The interval of a growing function of the value.
    #[must_use]
    pub fn map(self, function: impl Fn(f64) -> f64) -> Interval {
        Interval { estimate: function(self.estimate), low: function(self.low), high: function(self.high) }
    }
}

/// Mean and standard error of the mean.
pub(crate) fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return (mean, f64::INFINITY);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    // What is left of equal values is rounding, not spread.
    let spread = (squares / (count - 1.0)).sqrt();
    let rounding = values.iter().fold(0.0, |most: f64, value| most.max(value.abs())) * 8.0 * f64::EPSILON;
    (mean, if spread <= rounding { 0.0 } else { spread / count.sqrt() })
}

/// Studentised bootstrap distribution of a mean: from it come intervals of any level.
///
/// The *percentile* bootstrap is too narrow for the few rounds that an experiment has; drawing `(mean* - mean) / error*` instead
/// corrects for it (B. Efron, R. J. Tibshirani, *An Introduction to the Bootstrap*, chapter 12). The draws begin at a fixed
/// seed, so that the same figures give the same interval.
pub(crate) struct Bootstrap {
    count: usize,
    mean: f64,
    error: f64,
    /// Sorted; empty where there is nothing to draw from.
    draws: Vec<f64>,
}

impl Bootstrap {
    /// Of the mean of some values.
    pub fn of(values: &[f64]) -> Self {
        Self::of_difference(values, &[])
    }

    /// Of the mean of some values less the mean of others, which were taken apart from them; of no others, the mean is zero.
    pub fn of_difference(values: &[f64], others: &[f64]) -> Self {
        let (mean, error) = difference(mean_and_error(values), others);
        let mut draws = Vec::new();
        if error > 0.0 && error.is_finite() {
            let mut random = ChaCha8Rng::seed_from_u64(1);
            let mut samples = [vec![0.0; values.len()], vec![0.0; others.len()]];
            for _ in 0..DRAWS {
                for (sample, values) in samples.iter_mut().zip([values, others]) {
                    for slot in sample {
                        *slot = values[random.gen_range(0..values.len())];
                    }
                }
                let (drawn, drawn_error) = difference(mean_and_error(&samples[0]), &samples[1]);
                // A sample of one value drawn over and over says nothing about spread.
                if drawn_error > 0.0 {
                    draws.push((drawn - mean) / drawn_error);
                }
            }
            draws.sort_by(f64::total_cmp);
        }
        let count = if others.is_empty() { values.len() } else { values.len().min(others.len()) };
        Self { count, mean, error, draws }
    }

    /// The standard error of the mean.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// The interval that holds the true mean with probability `level`: everything, when there is but one value.
    pub fn interval(&self, level: f64) -> Interval {
        let estimate = self.mean;
        if self.error == 0.0 {
            return Interval { estimate, low: estimate, high: estimate };
        }
        if self.draws.is_empty() {
            return Interval { estimate, low: f64::NEG_INFINITY, high: f64::INFINITY };
        }
        let tail = (1.0 - level) / 2.0;
        let at = |share: f64| self.draws[((self.draws.len() - 1) as f64 * share).round() as usize];
        let (mut below, mut above) = (at(1.0 - tail), -at(tail));
        if self.count < FEW {
            let student = student(self.count).inverse_cdf(1.0 - tail);
            (below, above) = (below.max(student), above.max(student));
        }
        Interval { estimate, low: estimate - below * self.error, high: estimate + above * self.error }
    }
}

/// A mean and its error, less the mean of others.
fn difference((mean, error): (f64, f64), others: &[f64]) -> (f64, f64) {
    if others.is_empty() {
        return (mean, error);
    }
    let (other, other_error) = mean_and_error(others);
    (mean - other, error.hypot(other_error))
}

/// The distribution of a mean of so many normal values, in standard errors.
pub(crate) fn student(count: usize) -> StudentsT {
    let freedom = count.saturating_sub(1).max(1) as f64;
    StudentsT::new(0.0, 1.0, freedom).expect("there is a degree of freedom")
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, Exp1, StandardNormal};

    use super::*;

    /// How often of `experiments` the interval holds `truth`.
    fn coverage(count: usize, level: f64, truth: f64, mut draw: impl FnMut(&mut ChaCha8Rng) -> f64) -> f64 {
        const EXPERIMENTS: usize = 400;
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let held = (0..EXPERIMENTS).filter(|_| {
            let values: Vec<f64> = (0..count).map(|_| draw(&mut random)).collect();
            Bootstrap::of(&values).interval(level).contains(truth)
        });
        held.count() as f64 / EXPERIMENTS as f64
    }

    #[test]
    fn the_true_mean_is_inside_as_often_as_said() {
        for count in [2, 3, 5, 8, 16, 40] {
            let normal = coverage(count, 0.95, 0.0, |random| StandardNormal.sample(random));
            assert!((0.92..=1.0).contains(&normal), "{count} normal values: {normal}");
            let strict = coverage(count, 0.99, 0.0, |random| StandardNormal.sample(random));
            assert!(strict >= 0.97, "{count} normal values: {strict}");
        }
        // Skewed, as times are.
        let skewed = coverage(20, 0.95, 1.0, |random| Exp1.sample(random));
        assert!((0.90..=0.99).contains(&skewed), "{skewed}");
    }

    #[test]
    fn the_true_difference_of_values_that_were_taken_apart_is_inside_as_often_as_said() {
        const EXPERIMENTS: usize = 300;
        let mut random = ChaCha8Rng::seed_from_u64(11);
        let mut draw = |count: usize, mean: f64, spread: f64| -> Vec<f64> {
            let normal = || {
                let value: f64 = StandardNormal.sample(&mut random);
                mean + spread * value
            };
            std::iter::repeat_with(normal).take(count).collect()
        };
        for (counts, spreads) in [((10, 10), (1.0, 1.0)), ((8, 30), (2.0, 0.5)), ((3, 3), (1.0, 1.0))] {
            let held = (0..EXPERIMENTS).filter(|_| {
                let (values, others) = (draw(counts.0, 5.0, spreads.0), draw(counts.1, 3.0, spreads.1));
                Bootstrap::of_difference(&values, &others).interval(0.95).contains(2.0)
            });
            let held = held.count() as f64 / EXPERIMENTS as f64;
            assert!((0.91..=1.0).contains(&held), "{counts:?} {spreads:?}: {held}");
        }
    }

    #[test]
    fn equal_values_leave_no_doubt_and_one_value_leaves_all() {
        let sure = Bootstrap::of(&[0.1 + 0.2; 9]).interval(0.95);
        assert_eq!((sure.low, sure.high), (sure.estimate, sure.estimate));
        let unsure = Bootstrap::of(&[3.0]).interval(0.95);
        assert_eq!((unsure.low, unsure.high), (f64::NEG_INFINITY, f64::INFINITY));
    }

    #[test]
    fn the_same_values_give_the_same_interval() {
        let values = [1.0, 1.2, 0.9, 1.05, 1.4];
        assert_eq!(Bootstrap::of(&values).interval(0.95), Bootstrap::of(&values).interval(0.95));
    }
}
