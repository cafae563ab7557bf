//! What is counted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use interlock_engine::pipeline::{Recorder, TimelineEvent, TimelineKind};
use parking_lot::Mutex;

/// Of one round, or of all.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Proofs asked for.
    pub asked: u64,
    /// Proofs that came and hold for what was asked.
    pub verified: u64,
    /// Partitions that ended more than once, or whose proof a core made more than once.
    pub duplicates: u64,
    /// Partitions that ended without a proof, or with that of another.
    pub losses: u64,
    /// Attempts that a core failed on purpose.
    pub failures: u64,
    /// Devices lost on purpose.
    pub lost_devices: u64,
    /// Switches that were begun.
    pub switches: u64,
    /// Policies that could not be made.
    pub refused_at_start: u64,
    /// Switches taken back, because the policy failed its trial.
    pub rolled_back: u64,
    /// Policies taken out of their seats, by the reason's first words.
    pub quarantines: BTreeMap<String, u64>,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.asked += other.asked;
        self.verified += other.verified;
        self.duplicates += other.duplicates;
        self.losses += other.losses;
        self.failures += other.failures;
        self.lost_devices += other.lost_devices;
        self.switches += other.switches;
        self.refused_at_start += other.refused_at_start;
        self.rolled_back += other.rolled_back;
        for (reason, count) in &other.quarantines {
            *self.quarantines.entry(reason.clone()).or_default() += count;
        }
    }

    /// The cards were played and not just dealt: policies were refused, stalled, and ended.
    pub fn assert_seen_enough(&self) {
        assert!(self.failures > 0 && self.rolled_back + self.refused_at_start > 0, "{self}");
        assert!(self.quarantines.len() >= 3, "{self}");
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { asked, verified, duplicates, losses, failures, lost_devices, .. } = self;
        writeln!(f, "asked {asked}, verified {verified}, duplicates {duplicates}, losses {losses}")?;
        writeln!(f, "failures injected {failures}, devices lost {lost_devices}")?;
        let Counts { switches, refused_at_start, rolled_back, quarantines, .. } = self;
        writeln!(f, "switches {switches}, refused at start {refused_at_start}, rolled back {rolled_back}")?;
        write!(f, "quarantines {quarantines:?}")
    }
}

/// Counts what an engine says.
#[derive(Default)]
pub struct Ear {
    rolled_back: AtomicU64,
    quarantines: Mutex<BTreeMap<String, u64>>,
}

impl Ear {
    pub fn tell(&self, counts: &mut Counts) {
        counts.rolled_back += self.rolled_back.load(Ordering::Relaxed);
        counts.quarantines.append(&mut self.quarantines.lock());
    }
}

impl Recorder for Ear {
    fn record(&self, event: &TimelineEvent) {
        match event.event {
            TimelineKind::RolledBack => {
                self.rolled_back.fetch_add(1, Ordering::Relaxed);
            }
            TimelineKind::Quarantined => {
                let letters = |word: &&str| word.chars().all(char::is_alphabetic);
                let words: Vec<&str> = event.detail.split_whitespace().filter(letters).take(4).collect();
                *self.quarantines.lock().entry(words.join(" ")).or_default() += 1;
            }
            _ => {}
        }
    }
}

/// A proof that never comes would be waited for for ever: without progress, this ends the test.
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    const PATIENCE: Duration = Duration::from_secs(180);

    pub fn watched(seed: u64) -> Self {
        let made = Arc::new(AtomicU64::new(0));
        let watched = Arc::downgrade(&made);
        std::thread::spawn(move || {
            let mut last = None;
            loop {
                std::thread::sleep(Self::PATIENCE);
                // The test is over.
                let Some(made) = watched.upgrade().map(|made| made.load(Ordering::Relaxed)) else { return };
                if last == Some(made) {
                    eprintln!(
                        "no outcome for {:?} after {made}: INTERLOCK_CHAOS_SEED={seed}",
                        Self::PATIENCE
                    );
                    std::process::abort();
                }
                last = Some(made);
            }
        });
        Self(made)
    }

    pub fn one_more(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
