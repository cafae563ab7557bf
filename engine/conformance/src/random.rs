//! Random scenarios, and those that are made to hurt.

use std::ops::RangeInclusive;

use interlock_settings::ByteSize;
use proptest::prelude::*;
use proptest::strategy::{NewTree, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::scenario::{Failure, Scenario, TaskPlan};

/// Bytes of the devices.
const DEVICE: u64 = 16 << 30;

/// A scenario with all that it may be shrunk to.
pub(crate) type Tree = Box<dyn ValueTree<Value = Scenario>>;

/// One scenario in so many is long.
const LONG_EVERY: u32 = 500;
/// The first long one.
const FIRST_LONG: u32 = 4;
/// How many tasks the long ones have, one after the other.
const LONG: [usize; 4] = [2_048, 256, 1_024, 512];

/// The scenario of this number under this seed, with about `most_tasks` at the most: the same ones make the same scenario.
pub(crate) fn tree(seed: u64, number: u32, most_tasks: usize) -> Tree {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..12].copy_from_slice(&number.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let strategy = match long_tasks(number) {
        Some(tasks) => long(tasks.min(most_tasks)),
        None => scenario(),
    };
    let tree: NewTree<BoxedStrategy<Scenario>> = strategy.new_tree(&mut runner);
    tree.expect("nothing is filtered out")
}

/// How many tasks the scenario of this number has, where it is a long one.
fn long_tasks(number: u32) -> Option<usize> {
    let is_long = number % LONG_EVERY == FIRST_LONG;
    is_long.then(|| LONG[(number / LONG_EVERY) as usize % LONG.len()])
}

/// The smallest scenario between this one and nothing of which `holds` is still true, as far as `most` tries find it.
pub(crate) fn shrink(tree: &mut Tree, most: u32, holds: &mut dyn FnMut(&Scenario) -> bool) -> Scenario {
    let mut smallest = tree.current();
    let mut tries = 0;
    while tree.simplify() {
        loop {
            let smaller = tree.current();
            tries += 1;
            if holds(&smaller) {
                smallest = smaller;
                break;
            }
            if tries >= most || !tree.complicate() {
                return smallest;
            }
        }
    }
    smallest
}

fn scenario() -> BoxedStrategy<Scenario> {
    prop_oneof![
        4 => any_tasks(0..=1_500),
        2 => any_tasks(0..=0),
        1 => streams(),
        3 => crowded_out(),
        2 => tight(),
    ]
    .boxed()
}

/// Tasks of all kinds that come within some time.
fn any_tasks(comes: RangeInclusive<u64>) -> impl Strategy<Value = Scenario> {
    let task = (comes, -1..=2_i32, bytes(), stages(), mishaps()).prop_map(
        |(at_ms, priority, (staged, peak), stages_ms, (retry, fails, cancelled_ms))| TaskPlan {
            at_ms,
            priority,
            staged,
            peak,
            stages_ms,
            retry,
            fails,
            cancelled_ms,
        },
    );
    let drains = prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(0..=1_000_u64, 1..=2)];
    (prop::collection::vec(task, 1..=9), 1..=6_u32, drains)
        .prop_map(|(tasks, workers, drains_ms)| Scenario { drains_ms, ..of_plans(tasks, workers) })
}

/// A task of any kind, and a stream of others that come after it, one as soon as another is done.
fn streams() -> impl Strategy<Value = Scenario> {
    let from = prop_oneof![Just(0), 0..=40_u64];
    let others = (bytes(), 12..=48_usize, 1..=20_u64, from, stages());
    ((bytes(), 0..=1_i32), others, 2..=5_u32).prop_map(
        |((of_first, priority), (of_others, count, every, from, stages_ms), workers)| {
            let first = TaskPlan { priority, ..plain(0, of_first, stages_ms) };
            let stream = (0..count as u64).map(|index| plain(from + index * every, of_others, stages_ms));
            of_plans(std::iter::once(first).chain(stream).collect(), workers)
        },
    )
}

/// Tasks of a few kinds that come one after the other, many of them: for what a policy heaps up, or counts.
fn long(count: usize) -> BoxedStrategy<Scenario> {
    let kind = (sixteenths(0..=4, 1..=8), prop::array::uniform4(1..=9_u64), 0..=1_i32);
    (Exactly(count), prop::collection::vec(kind, 1..=3), 0..=6_u64, 2..=5_u32)
        .prop_map(|(count, kinds, every, workers)| {
            let task = |(index, (bytes, stages_ms, priority)): (u64, &_)| TaskPlan {
                priority: *priority,
                ..plain(index * every, *bytes, *stages_ms)
            };
            of_plans((0..count as u64).zip(kinds.iter().cycle()).map(task).collect(), workers)
        })
        .boxed()
}

/// This number, which shrinks to any below it.
#[derive(Debug)]
struct Exactly(usize);

impl Strategy for Exactly {
    type Tree = prop::num::usize::BinarySearch;
    type Value = usize;

    fn new_tree(&self, _runner: &mut TestRunner) -> NewTree<Self> {
        Ok(prop::num::usize::BinarySearch::new(self.0))
    }
}

/// A large task that comes into a stream of smaller ones, which could keep it out for as long as they come.
fn crowded_out() -> impl Strategy<Value = Scenario> {
    let large = (sixteenths(0..=8, 9..=16), 1..=40_u64, 0..=1_i32);
    let others = (sixteenths(1..=3, 3..=8), 36..=64_usize, 1..=6_u64);
    (large, others, prop::array::uniform4(1..=20_u64), 3..=5_u32).prop_map(
        |((of_large, at_ms, priority), (of_others, count, every), stages_ms, workers)| {
            let large = TaskPlan { priority, ..plain(at_ms, of_large, stages_ms) };
            let stream = (0..count as u64).map(|index| plain(index * every, of_others, stages_ms));
            of_plans(std::iter::once(large).chain(stream).collect(), workers)
        },
    )
}

/// A task to which nothing happens.
fn plain(at_ms: u64, (staged, peak): (ByteSize, ByteSize), stages_ms: [u64; 4]) -> TaskPlan {
    let (priority, retry, fails, cancelled_ms) = (0, false, None, None);
    TaskPlan { at_ms, priority, staged, peak, stages_ms, retry, fails, cancelled_ms }
}

fn of_plans(tasks: Vec<TaskPlan>, workers: u32) -> Scenario {
    Scenario { device: ByteSize(DEVICE), workers, tasks, drains_ms: Vec::new(), order: None }
}

/// Tasks whose bytes fill the device to the last one, or exceed what is left by one.
fn tight() -> impl Strategy<Value = Scenario> {
    let off = prop_oneof![Just(0_u64), Just(1)];
    let task = (1..=4_u64, off, 0..=2_u64, stages(), 0..=1_i32, any::<bool>());
    let task = task.prop_map(|(parts, off, less, stages_ms, priority, retry)| {
        let peak = DEVICE / parts - off;
        let bytes = (ByteSize(peak >> less), ByteSize(peak));
        TaskPlan { priority, retry, ..plain(0, bytes, stages_ms) }
    });
    (prop::collection::vec(task, 1..=7), 1..=5_u32).prop_map(|(tasks, workers)| of_plans(tasks, workers))
}

/// Staged bytes and a peak of any size.
fn bytes() -> impl Strategy<Value = (ByteSize, ByteSize)> {
    sixteenths(0..=16, 0..=16)
}

/// Staged bytes and a peak in sixteenths of the device: the lesser and the greater of two numbers.
fn sixteenths(
    one: RangeInclusive<u64>,
    other: RangeInclusive<u64>,
) -> impl Strategy<Value = (ByteSize, ByteSize)> {
    let bytes = |count: u64| ByteSize(count * (DEVICE / 16));
    (one, other).prop_map(move |(one, other)| (bytes(one.min(other)), bytes(one.max(other))))
}

fn stages() -> impl Strategy<Value = [u64; 4]> {
    let short = || prop::array::uniform4(1..=20_u64);
    prop_oneof![3 => short(), 1 => [1..=300_u64, 1..=300, 1..=900, 1..=300], 1 => Just([1; 4])]
}

/// Whether it failed before, how it fails, and when it is given up: mostly none of it.
fn mishaps() -> impl Strategy<Value = (bool, Option<Failure>, Option<u64>)> {
    let fails = prop::sample::select(&Failure::ALL[..]).prop_map(Some);
    (
        prop::bool::weighted(0.1),
        prop_oneof![6 => Just(None), 1 => fails],
        prop_oneof![9 => Just(None), 1 => (0..=1_500_u64).prop_map(Some)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_number_make_one_scenario_which_can_be_run() {
        for number in 0..300 {
            let scenario = tree(7, number, usize::MAX).current();
            assert_eq!(scenario, tree(7, number, usize::MAX).current());
            assert_eq!(scenario.check(), Ok(()));
        }
        assert_ne!(tree(7, 0, usize::MAX).current(), tree(8, 0, usize::MAX).current());
    }

    #[test]
    fn what_is_shrunk_is_the_least_that_still_holds() {
        let mut found = (0..)
            .map(|number| tree(1, number, usize::MAX))
            .find(|tree| tree.current().tasks.len() > 4)
            .expect("one");
        let smallest = shrink(&mut found, 10_000, &mut |scenario| scenario.tasks.len() >= 3);
        assert_eq!(smallest.tasks.len(), 3);
        assert!(smallest.tasks.iter().all(|plan| plan.fails.is_none() && plan.at_ms == 0), "{smallest:?}");
    }

    #[test]
    fn some_are_long_and_shrink_to_as_many_tasks_as_it_takes() {
        let long: Vec<usize> = (0..2_000).filter_map(long_tasks).collect();
        assert_eq!(long, LONG);
        let mut found = tree(1, FIRST_LONG, usize::MAX);
        assert_eq!(found.current().tasks.len(), LONG[0]);
        let smallest = shrink(&mut found, 400, &mut |scenario| scenario.tasks.len() >= 97);
        assert_eq!(smallest.tasks.len(), 97);
        assert_eq!(tree(1, FIRST_LONG, 300).current().tasks.len(), 300);
    }
}
