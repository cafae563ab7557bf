//! Whether an experiment needs more rounds.

use crate::compare::{Comparison, error_rate, quantiles};

/// Rounds before the spread is believed: two turns of a pair of arms, twice.
pub const MIN_ROUNDS: usize = 8;

/// Where an experiment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The figures are not good enough yet. About so many rounds in all would make them so.
    Continue {
        /// Rounds in all, those that were run included.
        rounds: usize,
    },
    /// Differences of the size that was asked for would be seen.
    Enough,
}

impl Progress {
    /// Where an experiment stands that is to see differences of `detect`, as a share: by the comparison that knows least.
    pub fn of(comparisons: &[Comparison], detect: f64) -> Progress {
        let rounds = comparisons.iter().map(|comparison| comparison.rounds).min().unwrap_or(0);
        let worst = comparisons.iter().map(|comparison| comparison.detectable).fold(0.0, f64::max);
        if rounds >= MIN_ROUNDS && worst <= detect {
            return Progress::Enough;
        }
        if rounds < 2 {
            return Progress::Continue { rounds: MIN_ROUNDS };
        }
        Progress::Continue {
            rounds: rounds_for(rounds, worst, detect, comparisons.len()).max(MIN_ROUNDS).max(rounds + 1),
        }
    }
}

/// How many rounds would show a difference of `detect` when `rounds` show one of `detectable`, the noise being what it was, in an
/// experiment of so many comparisons.
pub fn rounds_for(rounds: usize, detectable: f64, detect: f64, comparisons: usize) -> usize {
    let error_rate = error_rate(comparisons);
    if !detectable.is_finite() || detectable <= 0.0 || detect <= 0.0 {
        return rounds;
    }
    // Standard deviation of one round, in logarithms.
    let spread = detectable.ln_1p() / quantiles(rounds, error_rate) * (rounds as f64).sqrt();
    let mut needed = MIN_ROUNDS;
    while needed < 1_000_000
        && quantiles(needed, error_rate) * spread / (needed as f64).sqrt() > detect.ln_1p()
    {
        // A hundredth more each time: the answer is an estimate anyway.
        needed += 1 + needed / 100;
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Better, compare};

    fn noisy(rounds: usize, noise: f64) -> Comparison {
        let pairs: Vec<_> =
            (0..rounds).map(|round| (1.0, 1.0 + if round % 2 == 0 { noise } else { -noise })).collect();
        compare(&pairs, Better::Higher, 1).expect("there are pairs")
    }

    #[test]
    fn an_experiment_goes_on_until_it_can_see_what_it_is_asked_for() {
        assert_eq!(Progress::of(&[noisy(20, 0.001)], 0.03), Progress::Enough);
        let Progress::Continue { rounds } = Progress::of(&[noisy(20, 0.1)], 0.03) else {
            panic!("a tenth of noise hides three hundredths");
        };
        assert!((50..2_000).contains(&rounds), "{rounds}");
        // With about so many rounds it does.
        assert!(noisy(rounds, 0.1).detectable <= 0.03 * 1.05, "{}", noisy(rounds, 0.1).detectable);
    }

    #[test]
    fn the_comparison_that_knows_least_decides() {
        let pair = [noisy(20, 0.001), noisy(20, 0.1)];
        assert!(matches!(Progress::of(&pair, 0.03), Progress::Continue { .. }));
    }

    #[test]
    fn few_rounds_are_never_enough() {
        assert!(matches!(Progress::of(&[noisy(MIN_ROUNDS - 1, 0.0)], 0.03), Progress::Continue { .. }));
        assert_eq!(Progress::of(&[], 0.03), Progress::Continue { rounds: MIN_ROUNDS });
    }
}
