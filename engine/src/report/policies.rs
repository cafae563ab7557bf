//! What policies did in their seats, for people.

use std::fmt::{self, Write};

use super::text::duration;
use crate::pipeline::{DevicePolicyStats, Distribution, PolicyStats};

/// The longest bar of a histogram, in characters.
const BAR: u64 = 40;

/// The figures of [`Engine::policy_stats`](crate::pipeline::Engine::policy_stats) as text, several lines for each policy.
pub fn render_policies(devices: &[DevicePolicyStats]) -> String {
    let mut text = String::new();
    for device in devices {
        // Writing to a String cannot fail.
        let _ = write_device(&mut text, device);
    }
    text
}

fn write_device(text: &mut String, device: &DevicePolicyStats) -> fmt::Result {
    writeln!(text, "device {}: {} ({})", device.device, device.name, device.core)?;
    device.policies.iter().try_for_each(|policy| write_policy(text, policy))
}

fn write_policy(text: &mut String, stats: &PolicyStats) -> fmt::Result {
    let identity = &stats.policy;
    let library = identity.library.as_ref().map_or("linked".into(), |file| file.display().to_string());
    let seat = if stats.seated { "in the seat" } else { "not in the seat" };
    let times = if stats.times_seated == 1 { "once".into() } else { format!("{} times", stats.times_seated) };
    writeln!(
        text,
        "  {} {} ({library}; {}): {seat}, seated {times}, {} in all",
        identity.policy,
        identity.version,
        identity.isolation,
        duration(stats.seated_ns),
    )?;
    writeln!(text, "    decisions   {}", line(&stats.decisions))?;
    write_histogram(text, &stats.decisions)?;
    let verdicts = stats.verdicts;
    write!(text, "    verdicts    {} enter, {} wait, {} skip", verdicts.enter, verdicts.wait, verdicts.skip)?;
    if verdicts.unknown + verdicts.none > 0 {
        write!(text, ", {} of no known kind, {} times none", verdicts.unknown, verdicts.none)?;
    }
    writeln!(text, "; {} refused", stats.refusals.values().sum::<u64>())?;
    if stats.slow > 0 {
        writeln!(text, "      {} calls took longer than their budget", stats.slow)?;
    }
    for (reason, count) in &stats.refusals {
        writeln!(text, "      refused {count} times: {reason}")?;
    }
    let waits = &stats.waits;
    for (gate, waits) in [
        ("Prepare", &waits.prepare),
        ("Stage", &waits.stage),
        ("Compute", &waits.compute),
        ("Finish", &waits.finish),
    ] {
        writeln!(text, "    at {gate:<8} {}", line(waits))?;
    }
    match &stats.quarantine {
        None => writeln!(text, "    quarantine  never")?,
        Some(quarantine) => {
            let at = duration(quarantine.at_ns);
            let (code, sentence) = (&quarantine.code, &quarantine.sentence);
            writeln!(text, "    quarantine  {code} ({at} after the start): {sentence}")?;
            if let Some(dump) = &quarantine.dump {
                writeln!(text, "      dump: {}", dump.display())?;
            }
            if let Some(reason) = &quarantine.dump_error {
                writeln!(text, "      no dump: {reason}")?;
            }
        }
    }
    stats.counters.iter().try_for_each(|(name, value)| writeln!(text, "    its own     {name} = {value}"))
}

fn line(durations: &Distribution) -> String {
    if durations.count == 0 {
        return "none".to_owned();
    }
    let Distribution { count, mean_ns, p50_ns, p90_ns, p99_ns, max_ns, .. } = *durations;
    let [mean, p50, p90, p99, max] = [mean_ns, p50_ns, p90_ns, p99_ns, max_ns].map(duration);
    format!("{count}: mean {mean}, p50 {p50}, p90 {p90}, p99 {p99}, max {max}")
}

fn write_histogram(text: &mut String, durations: &Distribution) -> fmt::Result {
    let most = durations.buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0).max(1);
    durations.buckets.iter().try_for_each(|bucket| {
        let bar = "#".repeat((bucket.count.saturating_mul(BAR)).div_ceil(most) as usize);
        writeln!(text, "      below {:>9}  {bar} {}", duration(bucket.below_ns), bucket.count)
    })
}
