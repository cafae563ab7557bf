//! How much time a number of spans cover.

type Times = Vec<(u64, u64)>;

/// Joins what touches or overlaps: what comes out is in order and apart.
fn joined(mut spans: Times) -> Times {
    spans.sort_unstable();
    let mut joined: Times = Vec::new();
    for (begin, end) in spans {
        match joined.last_mut() {
            Some((_, last)) if *last >= begin => *last = end.max(*last),
            _ => joined.push((begin, end)),
        }
    }
    joined
}

/// The time in which at least one of the spans goes on.
pub(crate) fn covered_ns(spans: Times) -> u64 {
    joined(spans).into_iter().map(|(begin, end)| end - begin).sum()
}

/// The time in which at least one span of each goes on.
pub(crate) fn overlap_ns(some: Times, others: Times) -> u64 {
    let (some, others) = (joined(some), joined(others));
    let (mut left, mut right, mut total) = (0, 0, 0);
    while let (Some(a), Some(b)) = (some.get(left), others.get(right)) {
        total += a.1.min(b.1).saturating_sub(a.0.max(b.0));
        if a.1 <= b.1 {
            left += 1;
        } else {
            right += 1;
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spans() -> impl Strategy<Value = Times> {
        prop::collection::vec((0..50_u64, 0..9_u64).prop_map(|(begin, length)| (begin, begin + length)), 0..9)
    }

    /// Whether a span goes on from `at` to `at + 1`.
    fn goes_on(spans: &Times, at: u64) -> bool {
        spans.iter().any(|(begin, end)| (*begin..*end).contains(&at))
    }

    proptest! {
        /// Against counting moment by moment.
        #[test]
        fn covers_and_overlaps_are_what_counting_gives(some in spans(), others in spans()) {
            let count = |holds: &dyn Fn(u64) -> bool| (0..60).filter(|at| holds(*at)).count() as u64;
            prop_assert_eq!(covered_ns(some.clone()), count(&|at| goes_on(&some, at)));
            let both = count(&|at| goes_on(&some, at) && goes_on(&others, at));
            prop_assert_eq!(overlap_ns(some, others), both);
        }
    }
}
