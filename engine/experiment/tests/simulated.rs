//! Experiments over the simulated core: what a verdict is worth when the figures come from the arbiter of production, under a policy that
//! ships, on a device whose stages take as long as chance has it.

use interlock_conformance::Linked;
use interlock_experiment::{Better, Comparison, POWER, Progress, Verdict, compare, round_order};
use interlock_simulator::{Scenario, simulate};
use interlock_two_lock::TwoLock;

const EXPERIMENTS: u64 = 100;
const DETECT: f64 = 0.03;
const MOST_ROUNDS: usize = 200;

/// A run of 24 proofs; each Compute takes a second divided by `speed`, more or less.
fn run(seed: u64, speed: f64) -> f64 {
    let (mean_ms, sd_ms) = (1000.0 / speed, 100.0 / speed);
    let text = format!(
        r#"(
            seed: {seed},
            devices: [(vram: "16GiB")],
            classes: [(
                name: "porep",
                staged: "4GiB",
                extra: "6GiB",
                prepare: (time: Constant("300ms")),
                stage: Constant("50ms"),
                compute: LogNormal(mean: "{mean_ms}ms", sd: "{sd_ms}ms"),
                finish: (time: Constant("100ms")),
            )],
            arrivals: [Closed(class: "porep", jobs: 24, in_flight: 3)],
        )"#
    );
    let scenario = Scenario::parse(&text, None).unwrap_or_else(|error| panic!("{error}"));
    let policy = Linked::<TwoLock>::new("").expect("it has defaults");
    simulate(&scenario, &policy, &policy, None).expect("it comes to its end").figures.proofs_per_s
}

/// An experiment between equal policies, the second of which has a device that is so much faster.
fn experiment(number: u64, faster: f64) -> Comparison {
    let mut pairs = Vec::new();
    loop {
        let mut figures = [0.0; 2];
        for arm in round_order(2, pairs.len()) {
            // Chance differs from run to run, as on a machine.
            let seed = (number * 2 * MOST_ROUNDS as u64) + 2 * pairs.len() as u64 + arm as u64;
            figures[arm] = run(seed, [1.0, faster][arm]);
        }
        pairs.push((figures[0], figures[1]));
        let Some(comparison) = compare(&pairs, Better::Higher, 1) else { continue };
        let enough = Progress::of(std::slice::from_ref(&comparison), DETECT) == Progress::Enough;
        if enough || pairs.len() >= MOST_ROUNDS {
            return comparison;
        }
    }
}

fn count(faster: f64, verdict: Verdict) -> usize {
    (0..EXPERIMENTS).filter(|number| experiment(*number, faster).verdict == verdict).count()
}

#[test]
fn the_same_policy_twice_shows_no_difference() {
    let none = count(1.0, Verdict::NoDifference);
    assert!(none >= 95, "{none} of {EXPERIMENTS}");
}

#[test]
fn a_true_difference_is_found_as_often_as_promised() {
    // Compute is all that the device does, so that its speed is the throughput's, but for the first and the last task.
    let found = count(1.0 + DETECT * 1.1, Verdict::Better);
    assert!(found as f64 >= POWER * EXPERIMENTS as f64, "{found} of {EXPERIMENTS}");
}
