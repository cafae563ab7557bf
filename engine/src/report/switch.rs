//! What a switch of the policy came to, for people.

use std::fmt::{self, Write};

use super::text::duration;
use crate::pipeline::{DeviceSwitch, Rate, SwapTimes, SwitchPhase, SwitchReport};

/// A switch as text, several lines.
pub fn render_switch(report: &SwitchReport) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_switch(&mut text, report);
    text
}

fn write_switch(text: &mut String, report: &SwitchReport) -> fmt::Result {
    let SwitchReport { number, policy, decisions, trial_decisions, .. } = report;
    write!(text, "switch {number} to {policy}: ")?;
    match &report.phase {
        SwitchPhase::Draining => writeln!(text, "devices drain")?,
        SwitchPhase::OnTrial => {
            writeln!(text, "seated, on trial: {decisions} of {trial_decisions} decisions")?;
        }
        SwitchPhase::Passed => writeln!(text, "seated, passed its trial of {trial_decisions} decisions")?,
        SwitchPhase::RollingBack { device, reason } => {
            writeln!(text, "rolling back: on device {device}, {reason}")?;
        }
        SwitchPhase::RolledBack { device, reason } => {
            writeln!(text, "ROLLED BACK after {decisions} decisions: on device {device}, {reason}")?;
        }
        SwitchPhase::Superseded { by } => {
            writeln!(text, "superseded by a later switch, to {by}, before its trial was over")?;
        }
    }
    report.devices.iter().try_for_each(|device| write_device(text, device))?;
    if let Some(pause_ns) = report.longest_pause_ns() {
        writeln!(text, "longest pause {}", duration(pause_ns))?;
    }
    let rates = [("before", report.before), ("during", report.during), ("after", report.after)];
    let rates = rates.into_iter().filter_map(|(when, rate)| Some(rate_text(when, rate?)));
    let rates: Vec<_> = rates.collect();
    if rates.is_empty() { Ok(()) } else { writeln!(text, "proofs: {}", rates.join(", ")) }
}

/// A single proof in a short time is no rate.
fn rate_text(when: &str, rate: Rate) -> String {
    if rate.proofs < 2 {
        return format!("{} {when} (in {:.2} s)", rate.proofs, rate.seconds);
    }
    format!("{:.2}/s {when} ({} in {:.2} s)", rate.per_second(), rate.proofs, rate.seconds)
}

fn write_device(text: &mut String, device: &DeviceSwitch) -> fmt::Result {
    let DeviceSwitch { device: index, name, from, seated, .. } = device;
    writeln!(text, "  device {index} ({name}): before {from}, now {seated}")?;
    if device.lost {
        writeln!(text, "    the device is lost")?;
    }
    for (what, swap) in [("drain", device.swap), ("drain back", device.back)] {
        if let Some(swap) = swap {
            writeln!(text, "    {}", swap_text(what, swap))?;
        }
    }
    Ok(())
}

fn swap_text(what: &str, SwapTimes { drain_ns, waited, pause_ns }: SwapTimes) -> String {
    let drain = duration(drain_ns);
    match (waited, pause_ns) {
        (0, _) => format!("{what} {drain}, no task waited"),
        (_, Some(pause_ns)) => format!("{what} {drain}, {waited} tasks waited, pause {}", duration(pause_ns)),
        (_, None) => format!("{what} {drain}, {waited} tasks waited, none let in since"),
    }
}
