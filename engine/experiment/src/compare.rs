//! One arm held against another.

use serde::{Deserialize, Serialize};
use statrs::distribution::ContinuousCDF;

use crate::interval::{Bootstrap, INTERVAL_LEVEL, Interval, student};

/// How sure a verdict is: an arm that is no better is called better, or worse, in fewer than 1 of 100 experiments.
///
/// Stricter than the interval that is shown, since an experiment looks at its figures after each round and ends when they
/// are narrow enough, which makes a chance finding likelier than one look at the end would.
pub const VERDICT_LEVEL: f64 = 0.99;

/// How often a difference as large as [`Comparison::detectable`] is found.
pub const POWER: f64 = 0.80;

/// What the arithmetic plans for: the spread is itself estimated from few rounds, and where it came out too small the
/// power is less than planned.
const PLANNED_POWER: f64 = 0.90;

/// Which way a figure is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// As of proofs per second.
    Higher,
    /// As of latencies.
    Lower,
}

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The candidate is better than the baseline.
    Better,
    /// It is worse.
    Worse,
    /// Neither can be said.
    NoDifference,
}

/// A candidate held against a baseline, in the same rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Rounds in which both have a figure.
    pub rounds: usize,
    /// Geometric mean of candidate over baseline, with its 95% interval.
    pub ratio: Interval,
    /// Mean of candidate minus baseline, with its 95% interval, in the figure's unit.
    pub difference: Interval,
    /// What it comes to.
    pub verdict: Verdict,
    /// The smallest difference, as a share of the baseline, that these rounds would have shown with probability [`POWER`].
    pub detectable: f64,
}

/// Compares figures that were taken in the same rounds: `pairs` are (baseline, candidate), all above zero. `comparisons` is how many such
/// comparisons the experiment makes in all: the more there are, the more each has to show (Bonferroni).
///
/// `None` for fewer than two pairs, of which nothing can be said.
///
/// # Panics
/// When a figure is not a finite number above zero.
pub fn compare(pairs: &[(f64, f64)], better: Better, comparisons: usize) -> Option<Comparison> {
    if pairs.len() < 2 {
        return None;
    }
    check(pairs.iter().flat_map(|pair| [pair.0, pair.1]));
    // In logarithms, as what slows a machine down does so by a factor. Pairs of a round share most of it.
    let logs: Vec<f64> = pairs.iter().map(|(baseline, candidate)| (candidate / baseline).ln()).collect();
    let differences: Vec<f64> = pairs.iter().map(|(baseline, candidate)| candidate - baseline).collect();
    let (bootstrap, difference) = (Bootstrap::of(&logs), Bootstrap::of(&differences));
    Some(comparison(pairs.len(), pairs.len(), &bootstrap, &difference, better, comparisons))
}

/// Compares figures that were taken apart, in other rounds or another day: what slowed one down did not slow down the other, so that the same number
/// of rounds tells less than [`compare`] would.
///
/// `None` for fewer than two figures of either.
///
/// # Panics
/// When a figure is not a finite number above zero.
pub fn compare_apart(
    baseline: &[f64],
    candidate: &[f64],
    better: Better,
    comparisons: usize,
) -> Option<Comparison> {
    if baseline.len() < 2 || candidate.len() < 2 {
        return None;
    }
    check(baseline.iter().chain(candidate).copied());
    let logs = |figures: &[f64]| figures.iter().map(|figure| figure.ln()).collect::<Vec<_>>();
    let bootstrap = Bootstrap::of_difference(&logs(candidate), &logs(baseline));
    let difference = Bootstrap::of_difference(candidate, baseline);
    let rounds = baseline.len().min(candidate.len());
    // Each side's spread is estimated by itself: n + m - 2 degrees of freedom.
    Some(comparison(
        rounds,
        baseline.len() + candidate.len() - 1,
        &bootstrap,
        &difference,
        better,
        comparisons,
    ))
}

fn check(figures: impl Iterator<Item = f64>) {
    for figure in figures {
        assert!(figure.is_finite() && figure > 0.0, "{figure} is no figure to compare");
    }
}

/// `counted` is one more than the degrees of freedom.
fn comparison(
    rounds: usize,
    counted: usize,
    logs: &Bootstrap,
    difference: &Bootstrap,
    better: Better,
    comparisons: usize,
) -> Comparison {
    let error_rate = error_rate(comparisons);
    let sure = logs.interval(1.0 - error_rate);
    let verdict = match (sure.contains(0.0), (sure.estimate > 0.0) == (better == Better::Higher)) {
        (true, _) => Verdict::NoDifference,
        (false, true) => Verdict::Better,
        (false, false) => Verdict::Worse,
    };
    Comparison {
        rounds,
        ratio: logs.interval(INTERVAL_LEVEL).map(f64::exp),
        difference: difference.interval(INTERVAL_LEVEL),
        verdict,
        // The distance from no difference at which the interval, as wide as it is, misses no difference in all but the unlucky cases.
        detectable: (quantiles(counted, error_rate) * logs.error()).exp_m1(),
    }
}

/// How often each of so many comparisons may find what is not there.
pub(crate) fn error_rate(comparisons: usize) -> f64 {
    (1.0 - VERDICT_LEVEL) / comparisons.max(1) as f64
}

/// Standard errors between no difference and one that is found.
pub(crate) fn quantiles(rounds: usize, error_rate: f64) -> f64 {
    let student = student(rounds);
    student.inverse_cdf(1.0 - error_rate / 2.0) + student.inverse_cdf(PLANNED_POWER)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEADY: [f64; 8] = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 0.99];

    fn against(factor: f64) -> Vec<(f64, f64)> {
        // Noise of its own on the candidate, out of step with the baseline's.
        (0..8).map(|round| (STEADY[round], factor * STEADY[(round + 3) % 8])).collect()
    }

    #[test]
    fn what_is_clearly_faster_is_better_and_what_is_slower_worse() {
        let faster = compare(&against(1.2), Better::Higher, 1).expect("there are pairs");
        assert_eq!(faster.verdict, Verdict::Better);
        assert!((faster.ratio.estimate - 1.2).abs() < 1e-9, "{faster:?}");
        assert!(faster.ratio.contains(1.2) && !faster.ratio.contains(1.0), "{faster:?}");
        assert!((faster.difference.estimate - 0.2).abs() < 1e-9, "{faster:?}");
        assert_eq!(compare(&against(0.8), Better::Higher, 1).expect("pairs").verdict, Verdict::Worse);
        assert_eq!(compare(&against(1.2), Better::Lower, 1).expect("pairs").verdict, Verdict::Worse);
        assert_eq!(compare(&against(0.8), Better::Lower, 1).expect("pairs").verdict, Verdict::Better);
    }

    #[test]
    fn what_is_within_the_noise_is_no_difference() {
        let same = compare(&against(1.002), Better::Higher, 1).expect("there are pairs");
        assert_eq!(same.verdict, Verdict::NoDifference);
        assert!(same.detectable > 0.002 && same.detectable < 0.1, "{same:?}");
    }

    #[test]
    fn more_comparisons_have_to_show_more() {
        let pairs = against(1.03);
        let alone = compare(&pairs, Better::Higher, 1).expect("pairs");
        let among = compare(&pairs, Better::Higher, 10).expect("pairs");
        assert!(among.detectable > alone.detectable);
    }

    #[test]
    fn figures_without_noise_are_compared_exactly() {
        let exact = |factor: f64| compare(&[(2.0, 2.0 * factor); 8], Better::Higher, 1).expect("pairs");
        assert_eq!(exact(1.0).verdict, Verdict::NoDifference);
        assert_eq!(exact(1.0).detectable, 0.0);
        assert_eq!(exact(1.001).verdict, Verdict::Better);
    }

    #[test]
    fn figures_that_were_taken_apart_tell_less() {
        // A machine that drifts: pairs share it, figures of other days do not.
        let drift = [1.0, 1.1, 0.9, 1.2, 0.8, 1.0, 1.15, 0.85];
        let baseline = drift.to_vec();
        let candidate: Vec<f64> =
            drift.iter().zip(STEADY).map(|(drift, noise)| 1.05 * drift * noise).collect();
        let pairs: Vec<(f64, f64)> = baseline.iter().copied().zip(candidate.iter().copied()).collect();
        let paired = compare(&pairs, Better::Higher, 1).expect("pairs");
        let apart = compare_apart(&baseline, &candidate, Better::Higher, 1).expect("figures");
        assert!((paired.ratio.estimate - apart.ratio.estimate).abs() < 1e-9);
        assert_eq!((paired.verdict, apart.verdict), (Verdict::Better, Verdict::NoDifference));
        assert!(apart.detectable > 3.0 * paired.detectable);
        let faster: Vec<f64> = candidate.iter().map(|figure| figure * 3.0).collect();
        let found = compare_apart(&baseline, &faster, Better::Higher, 1).expect("figures");
        assert_eq!(found.verdict, Verdict::Better);
        assert_eq!(compare_apart(&[1.0], &faster, Better::Higher, 1), None);
    }

    #[test]
    fn one_pair_says_nothing() {
        assert_eq!(compare(&[(1.0, 2.0)], Better::Higher, 1), None);
    }
}
