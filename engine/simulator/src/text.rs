//! The figures for people: a table, a column for each policy.

use std::fmt::Write;

use crate::{Figures, PolicyFigures};

/// A line of the table: what it says, and what it says of a policy.
type Line = (&'static str, fn(&PolicyFigures) -> String);

const LINES: [Line; 18] = [
    ("seconds a job", |of| match of.seconds_per_proof {
        Some(seconds) if seconds < 1.0 => format!("{seconds:.5}"),
        Some(seconds) => format!("{seconds:.2}"),
        None => "-".into(),
    }),
    ("jobs proved", |of| match of.failed {
        0 => of.proofs.to_string(),
        failed => format!("{}, {failed} failed", of.proofs),
    }),
    ("partitions a second", |of| format!("{:.3}", of.partitions_per_s)),
    ("latency of a job, median", |of| seconds(of.latency_s.median)),
    ("latency of a job, p95", |of| seconds(of.latency_s.p95)),
    ("latency of a partition, p95", |of| seconds(of.partition_latency_s.p95)),
    ("device busy", |of| percent(of.device_busy)),
    ("kernels busy", |of| percent(of.kernels_busy)),
    ("out of memory", |of| match of.first_out_of_memory_s {
        Some(first) => format!("{}, first at {first:.1} s", of.out_of_memory),
        None => of.out_of_memory.to_string(),
    }),
    ("skips", |of| of.skips.to_string()),
    ("uploads inside Compute", |of| of.inline.to_string()),
    ("retries", |of| of.retries.to_string()),
    ("fallbacks to the CPU", |of| of.fallbacks.to_string()),
    ("refused verdicts", |of| of.refused.values().sum::<u64>().to_string()),
    ("Compute, staged", |of| stage(of, "Compute")),
    ("Compute, inline", |of| stage(of, "Compute inline")),
    ("waits at Stage", |of| of.gate_wait_s.get("Stage").map_or("-".into(), |wait| seconds(*wait))),
    ("waits at Compute", |of| of.gate_wait_s.get("Compute").map_or("-".into(), |wait| seconds(*wait))),
];

/// A time with a unit that suits it.
fn seconds(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        ..1e-3 => format!("{:.1} us", seconds * 1e6),
        ..1.0 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

fn percent(part: f64) -> String {
    format!("{:.1}%", part * 100.0)
}

fn stage(of: &PolicyFigures, name: &str) -> String {
    of.stage_s.get(name).map_or("-".into(), |time| seconds(*time))
}

/// The figures as a table, several lines long.
pub fn render(figures: &Figures) -> String {
    let mut columns = vec![LINES.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>()];
    columns[0].insert(0, "policy".to_owned());
    for policy in &figures.policies {
        let mut column = vec![policy.name.clone()];
        column.extend(LINES.iter().map(|(_, of)| of(policy)));
        columns.push(column);
    }
    let mut text = String::new();
    for line in 0..=LINES.len() {
        for (index, column) in columns.iter().enumerate() {
            let width = column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
            // Writing to a String cannot fail.
            let _ = match index {
                0 => write!(text, "{:<width$}", column[line]),
                _ => write!(text, "  {:>width$}", column[line]),
            };
        }
        text.push('\n');
    }
    if figures.policies.iter().any(|policy| policy.partitions > policy.proofs) {
        text += "a job here is all its partitions; a proof in the figures of --json is such a job\n";
    }
    for policy in &figures.policies {
        for quarantined in &policy.quarantines {
            let _ = writeln!(
                text,
                "{} was quarantined on device {} at {:.2} s ({}): {}",
                quarantined.policy,
                quarantined.device,
                quarantined.at_s,
                quarantined.code,
                quarantined.sentence
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_that_suit_them() {
        let texts = [0.0, 0.000_012_34, 0.018, 0.999, 1.0, 72.095].map(seconds);
        assert_eq!(texts, ["0 s", "12.3 us", "18.00 ms", "999.00 ms", "1.00 s", "72.09 s"]);
    }
}
