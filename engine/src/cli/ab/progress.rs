//! What is shown while an experiment runs: on a terminal only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::experiment::{Arm, Tell, letter};

/// A line with the round, the arm that runs, and how many rounds there may be.
pub struct Progress {
    bar: ProgressBar,
    names: Vec<String>,
    rates: Vec<Option<f64>>,
}

impl Progress {
    /// Of an experiment with these arms.
    pub fn new(arms: &[Arm]) -> Self {
        let name = |(index, arm): (usize, &Arm)| format!("{} ({})", letter(index), arm.policy.name());
        let bar = ProgressBar::new(interlock_experiment::MIN_ROUNDS as u64);
        if let Ok(style) =
            ProgressStyle::with_template("{bar:30} round {pos} of about {len}, {elapsed}: {wide_msg}")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, names: arms.iter().enumerate().map(name).collect(), rates: vec![None; arms.len()] }
    }

    /// Takes what happened.
    pub fn tell(&mut self, tell: &Tell<'_>) {
        match tell {
            Tell::Begins { arm, .. } => self.show(*arm),
            Tell::Ended { arm, result: Ok(figures) } => self.rates[*arm] = Some(figures.proofs_per_s),
            Tell::Ended { arm, result: Err(error) } => {
                let name = &self.names[*arm];
                self.bar.suspend(|| eprintln!("error: arm {name}: {error}"));
            }
            Tell::Round { run, needed } => {
                self.bar.set_length(*needed as u64);
                self.bar.set_position(*run as u64);
            }
        }
    }

    fn show(&self, running: usize) {
        let rates = self.names.iter().zip(&self.rates).filter_map(|(name, rate)| {
            let letter = name.split(' ').next()?;
            Some(format!("{letter} {:.2}/s", (*rate)?))
        });
        let rates: Vec<String> = rates.collect();
        self.bar.set_message(format!("running {} {}", self.names[running], rates.join(", ")));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
