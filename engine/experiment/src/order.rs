//! The order of the arms in each round.

/// In which order round number `round` runs `arms` arms, as indices.
///
/// The rounds are the rows of a Williams design: over a full turn, of `arms` rounds where that is even and twice as many where it is odd,
/// each arm runs at each place equally often, and right after each other arm equally often. So neither a machine that warms up
/// nor what an arm leaves behind favours anybody. For two arms the rounds are AB, BA: `ABBA`.
///
/// E. J. Williams, *Experimental designs balanced for the estimation of residual effects of treatments* (1949).
pub fn round_order(arms: usize, round: usize) -> Vec<usize> {
    if arms == 0 {
        return Vec::new();
    }
    let turn = if arms.is_multiple_of(2) { arms } else { 2 * arms };
    let row = round % turn;
    // 0, 1, n - 1, 2, n - 2, …: neighbours differ by each number once.
    let first =
        (0..arms).map(|place| if place % 2 == 1 { place.div_ceil(2) } else { (arms - place / 2) % arms });
    let mut order: Vec<usize> = first.map(|arm| (arm + row) % arms).collect();
    if row >= arms {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn two_arms_are_run_as_abba() {
        let order: Vec<usize> = (0..4).flat_map(|round| round_order(2, round)).collect();
        assert_eq!(order, [0, 1, 1, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn over_a_turn_every_arm_is_everywhere_and_after_everybody_equally_often() {
        for arms in 1..=7 {
            let turn = if arms % 2 == 0 { arms } else { 2 * arms };
            let mut places = BTreeMap::new();
            let mut neighbours = BTreeMap::new();
            for round in 0..turn {
                let order = round_order(arms, round);
                for (place, arm) in order.iter().enumerate() {
                    *places.entry((*arm, place)).or_insert(0) += 1;
                }
                for pair in order.windows(2) {
                    *neighbours.entry((pair[0], pair[1])).or_insert(0) += 1;
                }
            }
            assert_eq!(places.len(), arms * arms, "{arms} arms: every place");
            assert!(places.values().all(|count| *count == turn / arms), "{arms} arms: {places:?}");
            assert_eq!(neighbours.len(), arms * (arms - 1), "{arms} arms: every neighbour");
            assert!(neighbours.values().all(|count| *count == turn / arms), "{arms} arms: {neighbours:?}");
        }
    }

    #[test]
    fn no_arms_have_no_order() {
        assert_eq!(round_order(0, 3), Vec::<usize>::new());
    }
}
