//! How long things take: one time, or a distribution of times.

use rand::Rng;
use rand_distr::{Distribution as _, Exp1, LogNormal, Normal};
use serde::{Deserialize, Serialize};

use crate::Time;

/// What times are drawn from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Distribution {
    /// Always the same.
    Constant(Time),
    /// Each time between two as likely as the other.
    Uniform {
        /// The shortest.
        min: Time,
        /// The longest.
        max: Time,
    },
    /// The normal distribution; what would be negative counts as zero.
    Normal {
        /// Its mean, before negative times are cut off.
        mean: Time,
        /// Its standard deviation.
        sd: Time,
    },
    /// The lognormal distribution.
    LogNormal {
        /// Its mean: of the times, not of their logarithms.
        mean: Time,
        /// Its standard deviation: likewise.
        sd: Time,
    },
    /// The exponential distribution.
    Exponential {
        /// Its mean.
        mean: Time,
    },
    /// One of these, each as likely as the other: what was measured.
    Samples(Vec<Time>),
}

/// Why times cannot be drawn from a distribution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistributionError {
    /// An interval that ends before it begins.
    #[error("the shortest time, {min}, is longer than the longest, {max}; swap them")]
    Backwards {
        /// The shortest.
        min: Time,
        /// The longest.
        max: Time,
    },
    /// No samples.
    #[error("there are no samples; write at least one time")]
    NoSamples,
    /// A lognormal distribution is of times above zero.
    #[error("a lognormal distribution has a mean above zero; write Constant(\"0s\") for no time at all")]
    NoMean,
}

impl Distribution {
    /// Whether times can be drawn.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), DistributionError> {
        match self {
            &Self::Uniform { min, max } if min > max => Err(DistributionError::Backwards { min, max }),
            Self::LogNormal { mean: Time(0), .. } => Err(DistributionError::NoMean),
            Self::Samples(samples) if samples.is_empty() => Err(DistributionError::NoSamples),
            _ => Ok(()),
        }
    }

    /// Draws a time, in nanoseconds. A distribution that [`Distribution::check`] refuses gives zero.
    pub fn draw(&self, random: &mut impl Rng) -> u64 {
        match self {
            Self::Constant(time) => time.0,
            Self::Uniform { min, max } if min <= max => random.gen_range(min.0..=max.0),
            Self::Normal { mean, sd } => {
                Normal::new(mean.0 as f64, sd.0 as f64).map_or(0, |normal| nanoseconds(normal.sample(random)))
            }
            Self::LogNormal { mean, sd } => {
                LogNormal::from_mean_cv(mean.0 as f64, sd.0 as f64 / mean.0 as f64)
                    .map_or(0, |lognormal| nanoseconds(lognormal.sample(random)))
            }
            Self::Exponential { mean } => {
                let unit: f64 = random.sample(Exp1);
                nanoseconds(unit * mean.0 as f64)
            }
            Self::Samples(samples) if !samples.is_empty() => samples[random.gen_range(0..samples.len())].0,
            Self::Uniform { .. } | Self::Samples(_) => 0,
        }
    }

    /// Whether every draw is the same.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }
}

/// Rounded, nothing below zero. A cast from a float saturates, and what is no number is zero.
fn nanoseconds(drawn: f64) -> u64 {
    drawn.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const MEAN: Time = Time(2_000_000);
    const SD: Time = Time(500_000);

    fn moments(distribution: &Distribution) -> (f64, f64) {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let drawn: Vec<f64> = (0..200_000).map(|_| distribution.draw(&mut random) as f64).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn mean_and_deviation_are_those_that_were_asked_for() {
        let (least, most) = (Time(1_000_000), Time(3_000_000));
        for (distribution, sd) in [
            (Distribution::Constant(MEAN), 0.0),
            (Distribution::Uniform { min: least, max: most }, 2_000_000.0 / 12_f64.sqrt()),
            (Distribution::Normal { mean: MEAN, sd: SD }, SD.0 as f64),
            (Distribution::LogNormal { mean: MEAN, sd: SD }, SD.0 as f64),
            (Distribution::Exponential { mean: MEAN }, MEAN.0 as f64),
            (Distribution::Samples(vec![least, most]), 1_000_000.0),
        ] {
            let (mean, deviation) = moments(&distribution);
            assert!((mean / MEAN.0 as f64 - 1.0).abs() < 0.01, "{distribution:?}: {mean}");
            assert!((deviation - sd).abs() <= sd * 0.02, "{distribution:?}: {deviation}, not {sd}");
        }
    }

    #[test]
    fn no_time_is_negative() {
        let wide = Distribution::Normal { mean: Time(10), sd: Time(1_000_000) };
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let zeros = (0..1_000).filter(|_| wide.draw(&mut random) == 0).count();
        assert!((400..600).contains(&zeros), "{zeros}");
    }

    #[test]
    fn what_cannot_be_drawn_from_is_refused() {
        let backwards = Distribution::Uniform { min: Time(2), max: Time(1) };
        assert_eq!(backwards.check(), Err(DistributionError::Backwards { min: Time(2), max: Time(1) }));
        assert_eq!(Distribution::Samples(Vec::new()).check(), Err(DistributionError::NoSamples));
        let no_mean = Distribution::LogNormal { mean: Time(0), sd: Time(1) };
        assert_eq!(no_mean.check(), Err(DistributionError::NoMean));
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for distribution in [backwards, Distribution::Samples(Vec::new()), no_mean] {
            assert_eq!(distribution.draw(&mut random), 0);
        }
    }
}
