//! Comparisons as text.

use std::fmt::Write;

use super::compare::{Comparison, PEER_BATCH};

/// All figures of one size, several lines long.
pub fn details(comparison: &Comparison) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_details(&mut text, comparison);
    text
}

fn write_details(text: &mut String, of: &Comparison) -> std::fmt::Result {
    writeln!(
        text,
        "2^{}: {} constraints, domain {}, {} variables, {} of them neither 0 nor 1; medians of {} rounds, {} proofs a batch",
        of.log_size, of.constraints, of.domain, of.variables, of.wide_values, of.rounds, of.proofs
    )?;
    let (alone, in_turns) = (of.peer_alone, of.peer_in_turns);
    writeln!(
        text,
        "  supraseal-c2, prover alone:    {:8.2} ms for one, {:8.2} ms a proof in a batch of {PEER_BATCH}; in turns with our core \
         {:.2} and {:.2} ms; best {:.2} proofs/s",
        alone.one_ms, alone.batch_ms, in_turns.one_ms, in_turns.batch_ms, of.peer_rate
    )?;
    let ratio = |rate: f64| rate / of.peer_rate;
    writeln!(
        text,
        "  our core, one task at a time:  {:8.2} ms, {:.2} proofs/s, {:.2} times supraseal-c2's best",
        of.core_one_ms,
        of.core_one_rate,
        ratio(of.core_one_rate)
    )?;
    for at_once in &of.core_at_once {
        writeln!(
            text,
            "  our core, {} tasks at once:     {:.2} proofs/s, {:.2} times",
            at_once.tasks,
            at_once.rate,
            ratio(at_once.rate)
        )?;
    }
    writeln!(text, "  a task plans {} bytes staged, {} more to compute", of.plan_bytes.0, of.plan_bytes.1)?;
    if let Some(from) = &of.from_inputs {
        writeln!(
            text,
            "  from inputs to a verified proof: supraseal-c2 {:.1} ms ({:.1} of it bellperson's synthesis), ours {:.1} ms ({:.1} of it \
             the witness): {:.2} times",
            from.peer_ms,
            from.peer_synthesis_ms,
            from.core_ms,
            from.witness_ms,
            from.peer_ms / from.core_ms
        )?;
    }
    writeln!(
        text,
        "  {:<32} {:>7} {:>9} {:>6} {:>7} {:>13} {:>9} {:>8} {:>9}",
        "through the engine",
        "workers",
        "proofs/s",
        "ratio",
        "busy, %",
        "lock wait, ms",
        "skips",
        "refused",
        "peak, MB"
    )?;
    for row in &of.engine {
        writeln!(
            text,
            "  {:<32} {:>7} {:>9.2} {:>6.2} {:>7.1} {:>13.2} {:>9} {:>8} {:>9.1}",
            row.policy,
            row.workers,
            row.rate,
            row.ratio,
            100.0 * row.busy,
            row.lock_wait_ms,
            format!("{}/{}", row.skips, row.proofs),
            row.refused,
            row.peak_bytes as f64 / 1e6
        )?;
    }
    Ok(())
}

/// One line for each size, as a Markdown table. Proofs a second; ratios over supraseal-c2's best.
pub fn summary(comparisons: &[Comparison]) -> String {
    let mut text = String::new();
    let _ = write_summary(&mut text, comparisons);
    text
}

fn write_summary(text: &mut String, comparisons: &[Comparison]) -> std::fmt::Result {
    writeln!(
        text,
        "| proofs/s | supraseal-c2, best | our core, one | ratio | our core, several at once | ratio | how many | engine, best | ratio | under |"
    )?;
    writeln!(text, "|---|---|---|---|---|---|---|---|---|---|")?;
    for of in comparisons {
        let ratio = |rate: f64| rate / of.peer_rate;
        write!(
            text,
            "| 2^{} | {:.2} | {:.2} | {:.2} |",
            of.log_size,
            of.peer_rate,
            of.core_one_rate,
            ratio(of.core_one_rate)
        )?;
        match of.best_at_once() {
            Some(best) => write!(text, " {:.2} | {:.2} | {} |", best.rate, ratio(best.rate), best.tasks)?,
            None => write!(text, " | | |")?,
        }
        match of.best_engine() {
            Some(row) => {
                writeln!(
                    text,
                    " {:.2} | {:.2} | {}, {} workers |",
                    row.rate, row.ratio, row.policy, row.workers
                )?;
            }
            None => writeln!(text, " | | |")?,
        }
    }
    Ok(())
}
