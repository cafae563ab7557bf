//! The figures for people: a table, a column for each policy.

use std::fmt::Write;

use crate::{Figures, PolicyFigures};

/// A line of the table: what it says, and what it says of a policy.
type Line = (&'static str, fn(&PolicyFigures) -> String);

const LINES: [Line; 18] = [
    ("seconds per proof", |of| of.seconds_per_proof.map_or("-".into(), |seconds| format!("{seconds:.2}"))),
    ("proofs", |of| {
        format!(
            "{}{}",
            of.proofs,
            if of.failed > 0 { format!(", {} failed", of.failed) } else { String::new() }
        )
    }),
    ("partitions per second", |of| format!("{:.3}", of.partitions_per_s)),
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

fn seconds(seconds: f64) -> String {
    format!("{seconds:.2} s")
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
