//! What verdicts are worth: many experiments on figures of which the truth is known.

use std::sync::LazyLock;

use interlock_experiment::{Better, Comparison, POWER, Progress, Verdict, compare, round_order};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, LogNormal};

const EXPERIMENTS: usize = 100;
/// What the experiments are asked to see.
const DETECT: f64 = 0.03;
const MOST_ROUNDS: usize = 400;

/// A machine: what it does drifts, and what it does in one run is noisy.
struct Machine {
    random: ChaCha20Rng,
    drift: f64,
}

impl Machine {
    fn new(seed: u64) -> Self {
        Self { random: ChaCha20Rng::seed_from_u64(seed), drift: 1.0 }
    }

    /// Proofs per second of one run of an arm that is `factor` as fast.
    fn run(&mut self, factor: f64) -> f64 {
        let step = LogNormal::new(0.0, 0.01).expect("a spread").sample(&mut self.random);
        let noise = LogNormal::new(0.0, 0.03).expect("a spread").sample(&mut self.random);
        self.drift *= step;
        10.0 * factor * self.drift * noise
    }
}

/// An experiment as it is run: rounds in balanced order until what was asked for can be seen.
fn experiment(seed: u64, factors: [f64; 2]) -> Comparison {
    let mut machine = Machine::new(seed);
    let mut pairs = Vec::new();
    loop {
        let mut figures = [0.0; 2];
        for arm in round_order(2, pairs.len()) {
            figures[arm] = machine.run(factors[arm]);
        }
        pairs.push((figures[0], figures[1]));
        let Some(comparison) = compare(&pairs, Better::Higher, 1) else { continue };
        let enough = Progress::of(std::slice::from_ref(&comparison), DETECT) == Progress::Enough;
        if enough || pairs.len() >= MOST_ROUNDS {
            return comparison;
        }
    }
}

fn verdicts(factors: [f64; 2]) -> Vec<Comparison> {
    (0..EXPERIMENTS as u64).map(|seed| experiment(seed, factors)).collect()
}

fn count(comparisons: &[Comparison], verdict: Verdict) -> usize {
    comparisons.iter().filter(|comparison| comparison.verdict == verdict).count()
}

/// Experiments with equal arms.
static SAME: LazyLock<Vec<Comparison>> = LazyLock::new(|| verdicts([1.0, 1.0]));

#[test]
fn the_same_arm_twice_shows_no_difference() {
    let same = &*SAME;
    assert!(count(same, Verdict::NoDifference) >= 95, "{}", count(same, Verdict::NoDifference));
    let inside = same.iter().filter(|comparison| comparison.ratio.contains(1.0)).count();
    assert!(inside >= 88, "95% intervals that hold the truth: {inside}");
}

#[test]
fn a_difference_of_the_size_asked_for_is_found_as_often_as_promised() {
    for (factor, verdict) in [(1.0 + DETECT, Verdict::Better), (1.0 / (1.0 + DETECT), Verdict::Worse)] {
        let different = verdicts([1.0, factor]);
        let found = count(&different, verdict);
        assert!(found as f64 >= POWER * EXPERIMENTS as f64, "{factor}: {found}");
        let opposite = EXPERIMENTS - found - count(&different, Verdict::NoDifference);
        assert_eq!(opposite, 0, "never the wrong way round");
    }
}

#[test]
fn experiments_end_by_themselves() {
    let rounds: Vec<usize> = SAME.iter().map(|comparison| comparison.rounds).collect();
    assert!(rounds.iter().all(|rounds| *rounds < MOST_ROUNDS), "{rounds:?}");
}
