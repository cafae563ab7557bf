//! Bars that overlap go into lanes of their own; lanes with too many bars are condensed; and how they are written.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::{Bar, Chart, Lane};

/// Bars that a chart keeps one by one. Where there are more, neighbours that are too short to be seen when the whole run is
/// looked at are put together.
pub const MOST_BARS: usize = 250_000;

/// Parts of the axis that can be told apart at first when bars are put together.
const FINEST: u64 = 1 << 16;

/// Puts bars into as few lanes as they need, in each of which none overlap.
pub(super) fn pack(mut bars: Vec<Bar>) -> Vec<Vec<Bar>> {
    bars.sort_by_key(|bar| (bar.begin_ns, bar.length_ns));
    let mut lanes: Vec<Vec<Bar>> = Vec::new();
    // The lanes that are free again, by when: the one that has been for the longest is taken first.
    let mut ends = std::collections::BinaryHeap::new();
    for bar in bars {
        let end = bar.begin_ns + bar.length_ns;
        let free = ends.peek().is_some_and(|std::cmp::Reverse((end, _))| *end <= bar.begin_ns);
        let lane = if free { ends.pop().map(|std::cmp::Reverse((_, lane))| lane) } else { None };
        let lane = lane.unwrap_or_else(|| {
            lanes.push(Vec::new());
            lanes.len() - 1
        });
        lanes[lane].push(bar);
        ends.push(std::cmp::Reverse((end, lane)));
    }
    lanes
}

/// Lanes of these bars: `name` for the first, with a number for those below it.
pub(super) fn lanes(name: &str, bars: Vec<Bar>) -> Vec<Lane> {
    let lanes = pack(bars).into_iter().enumerate();
    lanes
        .map(|(index, bars)| {
            let name = if index == 0 { name.to_owned() } else { format!("{name} ({})", index + 1) };
            Lane { name, bars }
        })
        .collect()
}

impl Chart {
    /// How many bars it has.
    pub fn bars(&self) -> usize {
        self.groups.iter().flat_map(|group| &group.lanes).map(|lane| lane.bars.len()).sum()
    }

    /// Puts short neighbours together until there are no more than `most` bars, or one for each lane.
    pub(super) fn condense(&mut self, most: usize) {
        let mut shortest_ns = (self.length_ns / FINEST).max(1);
        while self.bars() > most && shortest_ns <= self.length_ns.saturating_mul(2) {
            for lane in self.groups.iter_mut().flat_map(|group| &mut group.lanes) {
                lane.bars = condensed(&lane.bars, shortest_ns);
            }
            shortest_ns = shortest_ns.saturating_mul(2);
        }
    }
}

/// Neighbours that together take no longer than `longest_ns`, gaps included, become one bar. It is of the kind of its longest.
fn condensed(bars: &[Bar], longest_ns: u64) -> Vec<Bar> {
    let mut condensed: Vec<Bar> = Vec::new();
    let mut longest_in_last = 0;
    for bar in bars {
        let end_ns = bar.begin_ns + bar.length_ns;
        match condensed.last_mut() {
            Some(last) if end_ns - last.begin_ns <= longest_ns => {
                last.length_ns = end_ns - last.begin_ns;
                last.count += bar.count;
                last.ending = last.ending.max(bar.ending);
                if bar.length_ns > longest_in_last {
                    longest_in_last = bar.length_ns;
                    (last.kind, last.subject, last.inline) = (bar.kind, bar.subject, bar.inline);
                    (last.waited_ns, last.bytes) = (bar.waited_ns, bar.bytes);
                }
            }
            _ => {
                longest_in_last = bar.length_ns;
                condensed.push(*bar);
            }
        }
    }
    condensed
}

/// One array for each field: a tenth of what objects would take. Begins count from the end before.
pub(super) fn in_columns<S: Serializer>(bars: &[Bar], serializer: S) -> Result<S::Ok, S::Error> {
    let column = |field: fn(&Bar) -> u64| bars.iter().map(field).collect::<Vec<u64>>();
    let mut end = 0;
    let gaps: Vec<u64> = bars
        .iter()
        .map(|bar| {
            let gap = bar.begin_ns - end;
            end = bar.begin_ns + bar.length_ns;
            gap
        })
        .collect();
    let mut columns = serializer.serialize_struct("Bars", 9)?;
    columns.serialize_field("gap", &gaps)?;
    columns.serialize_field("length", &column(|bar| bar.length_ns))?;
    columns.serialize_field("kind", &column(|bar| bar.kind as u64))?;
    columns.serialize_field("subject", &column(|bar| bar.subject as u64))?;
    // These are zero, or one, for whole lanes: then they are left out.
    columns.serialize_field("waited", &unless_all(column(|bar| bar.waited_ns), 0))?;
    columns.serialize_field("bytes", &unless_all(column(|bar| bar.bytes), 0))?;
    columns.serialize_field("ending", &unless_all(column(|bar| bar.ending.into()), 0))?;
    columns.serialize_field("inline", &unless_all(column(|bar| bar.inline.into()), 0))?;
    columns.serialize_field("count", &unless_all(column(|bar| bar.count.into()), 1))?;
    columns.end()
}

fn unless_all(column: Vec<u64>, value: u64) -> impl Serialize {
    Some(column).filter(|column| column.iter().any(|field| *field != value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bars() -> impl Strategy<Value = Vec<Bar>> {
        let bar = (0..1000_u64, 0..100_u64, 0..3_usize).prop_map(|(begin_ns, length_ns, kind)| Bar {
            begin_ns,
            length_ns,
            kind,
            count: 1,
            ..Bar::default()
        });
        prop::collection::vec(bar, 0..60)
    }

    fn apart(lane: &[Bar]) -> bool {
        lane.windows(2).all(|two| two[0].begin_ns + two[0].length_ns <= two[1].begin_ns)
    }

    proptest! {
        #[test]
        fn packed_lanes_hold_every_bar_apart(bars in bars()) {
            let lanes = pack(bars.clone());
            prop_assert!(lanes.iter().all(|lane| apart(lane)));
            let mut all: Vec<_> = lanes.concat().iter().map(|bar| (bar.begin_ns, bar.length_ns)).collect();
            let mut given: Vec<_> = bars.iter().map(|bar| (bar.begin_ns, bar.length_ns)).collect();
            all.sort_unstable();
            given.sort_unstable();
            prop_assert_eq!(all, given);
        }

        /// No bar is lost, nothing is moved, and what is long stays as it was.
        #[test]
        fn condensed_lanes_cover_what_was_there(bars in bars(), longest in 1..200_u64) {
            for lane in pack(bars) {
                let short = condensed(&lane, longest);
                prop_assert!(apart(&short));
                prop_assert_eq!(short.iter().map(|bar| bar.count).sum::<u32>() as usize, lane.len());
                for bar in &lane {
                    let inside = |out: &&Bar| {
                        out.begin_ns <= bar.begin_ns
                            && bar.begin_ns + bar.length_ns <= out.begin_ns + out.length_ns
                    };
                    // One without length may lie at the edge of two.
                    let mut covers = short.iter().filter(inside);
                    prop_assert!(covers.any(|out| out.length_ns <= longest || out == bar));
                }
            }
        }
    }
}
