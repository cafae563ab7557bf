//! Several charts on one axis.

use std::collections::HashMap;

use super::lanes::MOST_BARS;
use super::{Bar, Chart, Group, Kind};

impl Chart {
    /// Charts under each other on one axis, each from its own beginning; the names stand before those of their groups.
    pub fn side_by_side(charts: impl IntoIterator<Item = (String, Chart)>) -> Self {
        let mut all = Self::default();
        let mut kinds: HashMap<Kind, usize> = HashMap::new();
        for (name, chart) in charts {
            let kind_of: Vec<usize> = chart
                .kinds
                .iter()
                .map(|kind| {
                    *kinds.entry(kind.clone()).or_insert_with(|| {
                        all.kinds.push(kind.clone());
                        all.kinds.len() - 1
                    })
                })
                .collect();
            let first_subject = all.subjects.len();
            all.length_ns = all.length_ns.max(chart.length_ns);
            all.subjects.extend(chart.subjects);
            all.groups.extend(chart.groups.into_iter().map(|group| {
                let mut group = Group { name: format!("{name} – {}", group.name), ..group };
                for bar in group.lanes.iter_mut().flat_map(|lane| &mut lane.bars) {
                    *bar = Bar { kind: kind_of[bar.kind], subject: first_subject + bar.subject, ..*bar };
                }
                group
            }));
        }
        all.condense(MOST_BARS);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Lane;

    fn chart(looks: &[&'static str], length_ns: u64, kind: usize) -> Chart {
        let bar = Bar { length_ns, kind, count: 1, ..Bar::default() };
        let lane = Lane { name: "worker 0".into(), bars: vec![bar] };
        Chart {
            begin_ns: 500,
            length_ns,
            kinds: looks.iter().map(|look| Kind { name: look.to_uppercase(), look }).collect(),
            groups: vec![Group { name: "Device 0".into(), lanes: vec![lane], ..Group::default() }],
            subjects: vec![format!("job of {length_ns}")],
        }
    }

    #[test]
    fn bars_keep_what_they_are_and_whom_they_are_about() {
        let charts = [
            ("A".into(), chart(&["stage", "compute"], 10, 1)),
            ("B".into(), chart(&["compute", "wait"], 30, 0)),
        ];
        let both = Chart::side_by_side(charts);
        assert_eq!((both.begin_ns, both.length_ns, both.kinds.len()), (0, 30, 3));
        let names: Vec<&str> = both.groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["A – Device 0", "B – Device 0"]);
        for (group, subject) in both.groups.iter().zip(["job of 10", "job of 30"]) {
            let bar = group.lanes[0].bars[0];
            assert_eq!(
                (both.kinds[bar.kind].look, both.subjects[bar.subject].as_str()),
                ("compute", subject)
            );
        }
    }
}
