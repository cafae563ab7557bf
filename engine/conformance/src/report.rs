//! What a check found.

use std::fmt;

use serde::Serialize;

use crate::cost::Cost;
use crate::law::{Break, Law};

/// What is said of `determinism`.
const MAY_NOT_REPEAT: &str = "A break of determinism need not come again when a scenario is replayed: a policy that looks at a \
    clock, or at chance, answers otherwise each time.";

/// What the check of a policy found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the policy.
    pub policy: String,
    /// The seed of the random scenarios.
    pub seed: u64,
    /// Orders of small scenarios that were run.
    pub exhaustive: u32,
    /// Random scenarios that were run.
    pub random: u32,
    /// Each law, with how the policy stands to it.
    pub laws: Vec<LawReport>,
    /// What decisions cost, where that was measured.
    pub cost: Option<Cost>,
    /// Why not all scenarios were run, where the policy had no part in it: what was run is judged.
    pub cut_short: Option<String>,
    /// Why the check gave up on the policy.
    pub stopped: Option<String>,
}

/// A law, and how the policy stands to it.
#[derive(Clone, Debug, Serialize)]
pub struct LawReport {
    /// The law.
    pub law: Law,
    /// What it asks for.
    pub text: &'static str,
    /// How the policy stands to it.
    pub standing: Standing,
}

/// How a policy stands to a law.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// No scenario broke it.
    Kept,
    /// Here is the shortest scenario found that breaks it.
    Broken(Example),
    /// Nothing is known: what could have broken it was not run.
    NotChecked,
}

/// A scenario that breaks a law.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// What happens in it.
    #[serde(flatten)]
    pub broken: Break,
    /// The scenario as RON, for `--replay`. A law about time has none.
    pub scenario: Option<String>,
}

/// What a scenario showed.
#[derive(Clone, Debug, Serialize)]
pub struct Replay {
    /// Name of the policy.
    pub policy: String,
    /// Events, questions and verdicts, a line each.
    pub trace: String,
    /// The laws that were broken.
    pub breaks: Vec<Break>,
}

impl Report {
    /// Whether no law was broken.
    pub fn is_kept(&self) -> bool {
        self.broken().next().is_none() && self.stopped.is_none()
    }

    /// The laws that were broken.
    pub fn broken(&self) -> impl Iterator<Item = Law> {
        self.laws
            .iter()
            .filter(|report| matches!(report.standing, Standing::Broken(_)))
            .map(|report| report.law)
    }

    /// For tests.
    ///
    /// # Panics
    /// When a law was broken: with the report as its message.
    #[track_caller]
    pub fn assert_kept(&self) {
        assert!(self.is_kept(), "\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} orders of small scenarios and {} random ones, seed {}",
            self.policy, self.exhaustive, self.random, self.seed
        )?;
        for LawReport { law, text, standing } in &self.laws {
            let word = match standing {
                Standing::Kept => "kept",
                Standing::Broken(_) => "BROKEN",
                Standing::NotChecked => "not checked",
            };
            writeln!(f, "  {law:<18} {word:<13} {text}{}", self.figure(*law))?;
        }
        for LawReport { law, standing, .. } in &self.laws {
            let Standing::Broken(Example { broken, scenario }) = standing else { continue };
            writeln!(f, "\n{law}, after {} events: {}", broken.events, broken.what)?;
            if let Some(scenario) = scenario {
                f.write_str(scenario)?;
            }
            if *law == Law::Determinism {
                writeln!(f, "{MAY_NOT_REPEAT}")?;
            }
        }
        [&self.cut_short, &self.stopped].into_iter().flatten().try_for_each(|why| writeln!(f, "\n{why}"))
    }
}

impl Report {
    fn figure(&self, law: Law) -> String {
        match self.cost.filter(|_| law == Law::DecisionCost) {
            None => String::new(),
            Some(cost) => format!(
                ": median {} ns, 99 of 100 within {} ns, may take {} ns",
                cost.median_ns, cost.p99_ns, cost.budget_ns
            ),
        }
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.trace)?;
        if self.breaks.is_empty() {
            writeln!(f, "{} keeps every law here. {MAY_NOT_REPEAT}", self.policy)?;
        }
        self.breaks.iter().try_for_each(|broken| writeln!(f, "BROKEN {broken}"))
    }
}
