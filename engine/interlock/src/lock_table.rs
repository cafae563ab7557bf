//! Lock tables: which locks a policy declares, and over which stages a task holds them.

use std::sync::Arc;

use interlock_policy_api::{ManifestDoc, Stage};

/// The most locks a table may have: a task's locks are the bits of a `u32`.
pub const MAX_LOCKS: usize = 32;

/// A named, counted resource of one device, held over a span of stages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockSpec {
    /// Name, unique in the table.
    pub name: String,
    /// How many tasks may hold it at once.
    pub permits: u32,
    /// First stage of the span.
    pub first: Stage,
    /// Last stage of the span.
    pub last: Stage,
}

impl LockSpec {
    /// Whether a task inside `stage` has to hold the lock.
    pub fn covers(&self, stage: Stage) -> bool {
        self.first <= stage && stage <= self.last
    }

    fn crosses(&self, other: &LockSpec) -> bool {
        let disjoint = self.last < other.first || other.last < self.first;
        let inside = |a: &LockSpec, b: &LockSpec| b.covers(a.first) && b.covers(a.last);
        !(disjoint || inside(self, other) || inside(other, self))
    }
}

/// Why a lock table was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockTableError {
    /// More locks than a task's lock set has bits.
    #[error("the lock table has {count} locks, the most is {MAX_LOCKS}")]
    TooManyLocks {
        /// How many it has.
        count: usize,
    },
    /// A lock without a name.
    #[error("lock {index} of the table has an empty name; give each lock a name of its own")]
    EmptyName {
        /// Its position in the table.
        index: usize,
    },
    /// Two locks of one name.
    #[error("two locks are named '{name}'; give each lock a name of its own")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A lock nobody could take.
    #[error("lock '{name}' has 0 permits, so no task could ever take it; give it at least 1")]
    NoPermits {
        /// Name of the lock.
        name: String,
    },
    /// A span with a stage this host does not know.
    #[error("lock '{name}' names stage {stage}; the stages are 0 (Prepare) to 3 (Finish)")]
    UnknownStage {
        /// Name of the lock.
        name: String,
        /// The stage's number.
        stage: u32,
    },
    /// A span that ends before it begins.
    #[error("lock '{name}' spans {first}..{last}, which runs backwards")]
    BackwardsSpan {
        /// Name of the lock.
        name: String,
        /// First stage.
        first: Stage,
        /// Last stage.
        last: Stage,
    },
    /// Two spans that overlap without one lying inside the other.
    #[error(
        "the spans of locks '{a}' ({}..{}) and '{b}' ({}..{}) cross; \
         two spans must be disjoint, or one must lie inside the other",
        a_span.0, a_span.1, b_span.0, b_span.1
    )]
    CrossingSpans {
        /// Name of one lock.
        a: String,
        /// Its first and last stage.
        a_span: (Stage, Stage),
        /// Name of the other lock.
        b: String,
        /// Its first and last stage.
        b_span: (Stage, Stage),
    },
}

/// The locks of a policy, checked: at most [`MAX_LOCKS`], names unique, permits at least one, spans forward
/// and disjoint or nested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LockTable {
    // Shared: an arbiter is cloned for dumps and by the model checker, its table never changes.
    locks: Arc<[LockSpec]>,
}

impl LockTable {
    /// Checks a table.
    ///
    /// # Errors
    /// The first rule that is broken, see [`LockTableError`].
    pub fn new(locks: Vec<LockSpec>) -> Result<LockTable, LockTableError> {
        if locks.len() > MAX_LOCKS {
            return Err(LockTableError::TooManyLocks { count: locks.len() });
        }
        for (index, lock) in locks.iter().enumerate() {
            check_alone(index, lock)?;
            for earlier in &locks[..index] {
                check_pair(earlier, lock)?;
            }
        }
        Ok(LockTable { locks: locks.into() })
    }

    /// The table of a manifest. `resolve_permits` is given the name of an option that overrides a
    /// lock's permits and returns its value where it is configured.
    ///
    /// # Errors
    /// As [`LockTable::new`].
    pub fn from_manifest(
        manifest: &ManifestDoc,
        resolve_permits: impl Fn(&str) -> Option<u32>,
    ) -> Result<LockTable, LockTableError> {
        let locks = manifest.locks.iter().map(|lock| LockSpec {
            name: lock.name.clone(),
            permits: lock.permits_option.as_deref().and_then(&resolve_permits).unwrap_or(lock.permits),
            first: Stage(lock.first),
            last: Stage(lock.last),
        });
        LockTable::new(locks.collect())
    }

    /// The locks, in the order of the manifest.
    pub fn locks(&self) -> &[LockSpec] {
        &self.locks
    }

    /// The locks a task inside `stage` holds.
    pub(super) fn covering(&self, stage: Stage) -> LockSet {
        self.select(|lock| lock.covers(stage))
    }

    /// The locks whose span is over when a task stands at `gate`.
    pub(super) fn over_at(&self, gate: Stage) -> LockSet {
        self.select(|lock| lock.last < gate)
    }

    /// The names of the locks of a set.
    pub(super) fn names(&self, set: LockSet) -> Vec<String> {
        set.indices().map(|index| self.locks[index].name.clone()).collect()
    }

    fn select(&self, wanted: impl Fn(&LockSpec) -> bool) -> LockSet {
        let bits =
            self.locks.iter().enumerate().filter(|(_, lock)| wanted(lock)).map(|(index, _)| 1 << index);
        LockSet(bits.fold(0, |set, bit: u32| set | bit))
    }
}

fn check_alone(index: usize, lock: &LockSpec) -> Result<(), LockTableError> {
    let name = || lock.name.clone();
    if lock.name.is_empty() {
        return Err(LockTableError::EmptyName { index });
    }
    if lock.permits == 0 {
        return Err(LockTableError::NoPermits { name: name() });
    }
    for stage in [lock.first, lock.last] {
        if stage.name().is_none() {
            return Err(LockTableError::UnknownStage { name: name(), stage: stage.0 });
        }
    }
    if lock.first > lock.last {
        return Err(LockTableError::BackwardsSpan { name: name(), first: lock.first, last: lock.last });
    }
    Ok(())
}

fn check_pair(a: &LockSpec, b: &LockSpec) -> Result<(), LockTableError> {
    if a.name == b.name {
        return Err(LockTableError::DuplicateName { name: a.name.clone() });
    }
    if a.crosses(b) {
        return Err(LockTableError::CrossingSpans {
            a: a.name.clone(),
            a_span: (a.first, a.last),
            b: b.name.clone(),
            b_span: (b.first, b.last),
        });
    }
    Ok(())
}

/// A set of locks of one table: bit `i` is the table's lock `i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LockSet(u32);

impl LockSet {
    pub const EMPTY: LockSet = LockSet(0);

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn with(self, other: LockSet) -> LockSet {
        LockSet(self.0 | other.0)
    }

    pub fn without(self, other: LockSet) -> LockSet {
        LockSet(self.0 & !other.0)
    }

    pub fn common(self, other: LockSet) -> LockSet {
        LockSet(self.0 & other.0)
    }

    pub fn contains(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }

    pub fn indices(self) -> impl Iterator<Item = usize> {
        (0..MAX_LOCKS).filter(move |&index| self.contains(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock_policy_api::{Capabilities, LockDoc};

    fn lock(name: &str, permits: u32, first: u32, last: u32) -> LockSpec {
        LockSpec { name: name.into(), permits, first: Stage(first), last: Stage(last) }
    }

    fn spans(spans: &[(u32, u32)]) -> Result<LockTable, LockTableError> {
        let locks =
            spans.iter().enumerate().map(|(index, span)| lock(&format!("l{index}"), 1, span.0, span.1));
        LockTable::new(locks.collect())
    }

    #[test]
    fn nested_and_disjoint_spans_are_taken() {
        for good in [&[][..], &[(0, 3)], &[(1, 1), (2, 2)], &[(0, 3), (1, 2), (2, 2)], &[(1, 2), (1, 2)]] {
            assert!(spans(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn crossing_spans_are_refused() {
        for bad in [[(0, 1), (1, 2)], [(1, 3), (0, 2)], [(2, 3), (1, 2)], [(0, 2), (2, 3)]] {
            assert!(matches!(spans(&bad), Err(LockTableError::CrossingSpans { .. })), "{bad:?}");
        }
    }

    /// Of two spans, those cross that share a stage and each have one the other lacks.
    #[test]
    fn crossing_is_what_its_definition_says_for_all_pairs() {
        let all: Vec<(u32, u32)> =
            (0..4).flat_map(|first| (first..4).map(move |last| (first, last))).collect();
        for &a in &all {
            for &b in &all {
                let stages = |span: (u32, u32)| (span.0..=span.1).fold(0u32, |set, stage| set | 1 << stage);
                let (sa, sb) = (stages(a), stages(b));
                let crossing = sa & sb != 0 && sa & !sb != 0 && sb & !sa != 0;
                assert_eq!(spans(&[a, b]).is_err(), crossing, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn each_other_rule_has_its_error() {
        let check = |locks: Vec<LockSpec>| LockTable::new(locks).unwrap_err();
        assert_eq!(check(vec![lock("", 1, 0, 0)]), LockTableError::EmptyName { index: 0 });
        assert_eq!(
            check(vec![lock("a", 1, 0, 0), lock("a", 2, 3, 3)]),
            LockTableError::DuplicateName { name: "a".into() }
        );
        assert_eq!(check(vec![lock("a", 0, 0, 0)]), LockTableError::NoPermits { name: "a".into() });
        assert_eq!(
            check(vec![lock("a", 1, 0, 4)]),
            LockTableError::UnknownStage { name: "a".into(), stage: 4 }
        );
        assert_eq!(
            check(vec![lock("a", 1, 2, 1)]),
            LockTableError::BackwardsSpan { name: "a".into(), first: Stage::COMPUTE, last: Stage::STAGE }
        );
        let many = (0..33).map(|index| lock(&index.to_string(), 1, 0, 0)).collect();
        assert_eq!(check(many), LockTableError::TooManyLocks { count: 33 });
    }

    #[test]
    fn as_many_locks_as_there_are_bits_are_told_apart() {
        let table =
            LockTable::new((0..32).map(|index| lock(&index.to_string(), 1, index % 4, index % 4)).collect());
        let table = table.unwrap();
        assert_eq!(
            table.covering(Stage::FINISH).indices().collect::<Vec<_>>(),
            [3, 7, 11, 15, 19, 23, 27, 31]
        );
        assert_eq!(table.names(table.covering(Stage::PREPARE))[7], "28");
    }

    #[test]
    fn a_span_is_over_at_the_gate_after_its_last_stage() {
        let table = spans(&[(0, 1), (0, 3)]).unwrap();
        assert!(table.over_at(Stage::STAGE).is_empty());
        assert_eq!(table.names(table.over_at(Stage::COMPUTE)), ["l0"]);
    }

    #[test]
    fn an_option_overrides_permits_where_it_is_configured() {
        let doc = |name: &str, option: &str| LockDoc {
            name: name.into(),
            permits: 1,
            permits_option: Some(option.into()),
            first: 2,
            last: 2,
        };
        let manifest = ManifestDoc {
            abi_major: 1,
            abi_minor: 0,
            entry: "e".into(),
            name: "p".into(),
            version: "1".into(),
            description: "d".into(),
            capabilities: Capabilities::NONE,
            locks: vec![doc("a", "k"), doc("b", "other")],
            options: vec![],
        };
        let table = LockTable::from_manifest(&manifest, |option| (option == "k").then_some(5)).unwrap();
        assert_eq!((table.locks()[0].permits, table.locks()[1].permits), (5, 1));
        let zero = LockTable::from_manifest(&manifest, |_| Some(0));
        assert_eq!(zero, Err(LockTableError::NoPermits { name: "a".into() }));
    }
}
