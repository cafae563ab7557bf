//! The report for people: a few lines that say what was done and under whom.

use std::fmt::Write;
use std::time::Duration;

use interlock_settings::units::bytes;

use super::RunReport;
use crate::pipeline::{DeviceReport, PartitionReport};

/// The report as text, several lines long.
pub fn render(report: &RunReport) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(&mut text, report);
    text
}

fn write_all(text: &mut String, report: &RunReport) -> std::fmt::Result {
    let statement = &report.statement;
    let verified = match report.proofs {
        0 => "",
        _ if report.verified => ", each verified",
        _ => ", not verified",
    };
    writeln!(
        text,
        "{} proofs of {} partitions in {:.2} s ({:.2} proofs/s){verified}",
        report.proofs,
        report.partitions.len(),
        report.wall_ns as f64 / 1e9,
        report.proofs_per_second(),
    )?;
    writeln!(
        text,
        "statement: {} constraints, {} variables, {} public inputs, domain {}, SRS {}",
        statement.constraints,
        statement.variables,
        statement.public_inputs,
        statement.domain,
        bytes(statement.srs_bytes),
    )?;
    writeln!(
        text,
        "policy {}, core {}, {} device workers, {} synthesis workers; a task plans {} staged and {} more to compute",
        report.policy,
        report.core,
        report.workers_per_device,
        report.synthesis_workers,
        bytes(report.plan.staged_bytes),
        bytes(report.plan.compute_extra),
    )?;
    write_stages(text, report)?;
    report.devices.iter().try_for_each(|device| write_device(text, device))
}

fn write_stages(text: &mut String, report: &RunReport) -> std::fmt::Result {
    let done: Vec<&PartitionReport> =
        report.partitions.iter().filter(|line| line.error.is_none()).map(|line| &line.report).collect();
    if done.is_empty() {
        return Ok(());
    }
    let mean = |pick: &dyn Fn(&PartitionReport) -> u64| {
        let sum: u64 = done.iter().map(|report| pick(report)).sum();
        duration(sum / done.len() as u64)
    };
    writeln!(
        text,
        "mean of a partition: synthesis {}, queue {}, Prepare {} (waited {}), Stage {} (waited {}), Compute {} (waited {}), \
         Finish {} (waited {}), verify {}",
        mean(&|report| report.synthesis_ns),
        mean(&|report| report.queue_ns),
        mean(&|report| report.prepare.run_ns),
        mean(&|report| report.prepare.wait_ns),
        mean(&|report| report.stage.run_ns),
        mean(&|report| report.stage.wait_ns),
        mean(&|report| report.compute.run_ns),
        mean(&|report| report.compute.wait_ns),
        mean(&|report| report.finish.run_ns),
        mean(&|report| report.finish.wait_ns),
        mean(&|report| report.verify_ns),
    )
}

fn write_device(text: &mut String, device: &DeviceReport) -> std::fmt::Result {
    let counters = &device.counters;
    let refused: u64 = counters.refusals.values().sum();
    writeln!(
        text,
        "device {} ({}): policy {}, peak reserved {} of {}, staged ahead {}, skipped {}, waits {}, refused verdicts {refused}",
        device.name,
        device.core,
        device.policy,
        bytes(counters.peak_reserved_bytes),
        bytes(device.capacity_bytes),
        counters.grants[1],
        counters.skips,
        counters.waits,
    )?;
    if let Some(reason) = &device.lost {
        writeln!(text, "  the device was lost: {reason}")?;
    }
    for (reason, count) in &counters.refusals {
        writeln!(text, "  refused {count} times: {reason}")?;
    }
    if let Some(quarantine) = &device.quarantine {
        writeln!(text, "  a policy was quarantined ({}): {}", quarantine.code, quarantine.sentence)?;
        if let Some(dump) = &quarantine.dump {
            writeln!(text, "  what led to it is in {}", dump.display())?;
        }
    }
    for (name, value) in &device.policy_stats {
        writeln!(text, "  {}: {name} = {value}", device.policy)?;
    }
    Ok(())
}

/// A duration with a unit that suits it.
pub(super) fn duration(ns: u64) -> String {
    format!("{:.1?}", Duration::from_nanos(ns))
}
