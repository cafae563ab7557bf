//! The check of all laws.

use std::time::Duration;

use interlock_arbiter::PolicySource;

use crate::cost;
use crate::echo::{self, Echo};
use crate::law::{Break, Law};
use crate::random;
use crate::report::{Example, LawReport, Replay, Report, Standing};
use crate::run::{self, Run};
use crate::scenario::Scenario;
use crate::{exhaustive, trace};

/// One random scenario in so many is asked again with what a later host may add.
const STRANGE_EVERY: u32 = 8;
/// Random scenarios that are asked again later.
const LATER: u32 = 3;
/// Runs that make a broken scenario smaller.
const MOST_SHRINKS: u32 = 400;
/// The same where each of them waits for a clock to go on.
const MOST_LATER_SHRINKS: u32 = 30;
/// Runs that end with the policy's process, or for which there is no instance, before the check gives up.
const MOST_LOST: u32 = 3;

/// How a policy is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the random scenarios begin: the same seed makes the same ones.
    pub seed: u64,
    /// How many random scenarios there are.
    pub scenarios: u32,
    /// What the median of decisions may take. `None`: it is not measured, and the check has no clock.
    pub decision_budget: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { seed: 1, scenarios: 2_000, decision_budget: None }
    }
}

/// Checks a policy: every order of small scenarios, then random ones.
pub fn check(source: &dyn PolicySource, settings: &Settings) -> Report {
    let mut findings = Findings::default();
    exhaustive::each(source, &mut |scenario, run| {
        findings.exhaustive += 1;
        findings.look(&run, || scenario);
        findings.goes_on()
    });
    for number in 0..settings.scenarios {
        if !findings.goes_on() {
            break;
        }
        findings.random(source, settings.seed, number);
    }
    let cost = settings
        .decision_budget
        .filter(|_| findings.goes_on())
        .and_then(|budget| cost::measure(source, budget));
    findings.report(source.name(), settings.seed, cost)
}

/// Runs one scenario, and asks again what was asked in it.
pub fn replay(source: &dyn PolicySource, scenario: &Scenario) -> Replay {
    let run = run::run(source, scenario);
    let mut breaks: Vec<Break> = run.broken.clone().into_iter().collect();
    if !run.is_lost() {
        let echoes = [Echo::Same, Echo::Later].into_iter().chain(Echo::STRANGE);
        for broken in echoes.filter_map(|echo| echo::ask_again(source, &run.entries, echo)) {
            if breaks.iter().all(|known| known.law != broken.law) {
                breaks.push(broken);
            }
        }
    }
    Replay { policy: source.name().to_owned(), trace: trace::text(&run.entries), breaks }
}

/// What was found so far.
#[derive(Default)]
struct Findings {
    found: Vec<Found>,
    exhaustive: u32,
    random: u32,
    lost: u32,
}

struct Found {
    broken: Break,
    scenario: Scenario,
}

impl Findings {
    fn goes_on(&self) -> bool {
        self.lost < MOST_LOST
    }

    /// Takes note of how a run ended.
    fn look(&mut self, run: &Run, scenario: impl FnOnce() -> Scenario) {
        self.lost += u32::from(run.is_lost());
        if let Some(broken) = &run.broken
            && self.is_shorter(broken)
        {
            self.keep(broken.clone(), scenario());
        }
    }

    fn is_shorter(&self, broken: &Break) -> bool {
        self.found.iter().all(|found| found.broken.law != broken.law || found.broken.events > broken.events)
    }

    fn keep(&mut self, broken: Break, scenario: Scenario) {
        self.found.retain(|found| found.broken.law != broken.law);
        self.found.push(Found { broken, scenario });
    }

    /// Runs one random scenario. One that breaks a law in fewer events than was known is made smaller first.
    fn random(&mut self, source: &dyn PolicySource, seed: u64, number: u32) {
        self.random += 1;
        let scenario = random::tree(seed, number).current();
        let run = run::run(source, &scenario);
        let broken = run.broken.clone();
        self.look(&run, || scenario);
        if let Some(broken) = broken {
            let breaks = &mut |scenario: &Scenario| run::run(source, scenario).broken;
            self.shrink(source, random::tree(seed, number), broken.law, MOST_SHRINKS, breaks);
        }
        if run.is_lost() {
            return;
        }
        for echo in echoes(number) {
            let Some(broken) = echo::ask_again(source, &run.entries, echo) else { continue };
            let law = broken.law;
            if self.is_shorter(&broken) {
                self.keep(broken, random::tree(seed, number).current());
                let most = if echo == Echo::Later { MOST_LATER_SHRINKS } else { MOST_SHRINKS };
                self.shrink(source, random::tree(seed, number), law, most, &mut |scenario| {
                    let run = run::run(source, scenario);
                    echo::ask_again(source, &run.entries, echo)
                });
            }
            // What comes after an answer that differs is no news.
            break;
        }
    }

    /// Makes a scenario smaller, if it is what is known of the law.
    fn shrink(
        &mut self,
        source: &dyn PolicySource,
        mut tree: random::Tree,
        law: Law,
        most: u32,
        breaks: &mut dyn FnMut(&Scenario) -> Option<Break>,
    ) {
        let is_known = |found: &Found| found.broken.law == law && found.scenario == tree.current();
        if !self.found.iter().any(is_known) || source.seat().is_err() {
            return;
        }
        let mut last = None;
        let smallest = random::shrink(&mut tree, most, &mut |scenario| {
            let broken = breaks(scenario).filter(|broken| broken.law == law);
            let holds = broken.is_some();
            last = broken.or(last.take());
            holds
        });
        if let Some(broken) = last {
            self.keep(broken, smallest);
        }
    }

    fn report(self, policy: &str, seed: u64, cost: Option<cost::Cost>) -> Report {
        let stopped = (!self.goes_on()).then(|| {
            "the check ended early: the policy's process ended, or no instance could be made, too often"
                .to_owned()
        });
        let standing = |law: Law| {
            if let Some(found) = self.found.iter().find(|found| found.broken.law == law) {
                let (broken, scenario) = (found.broken.clone(), found.scenario.to_ron());
                return Standing::Broken(Example { broken, scenario: Some(scenario) });
            }
            match (law, cost) {
                (Law::DecisionCost, Some(cost)) if cost.median_ns > cost.budget_ns => {
                    let what = format!("half of its decisions took longer than {} ns", cost.budget_ns);
                    let broken = Break { law, at_ns: 0, events: 0, what };
                    Standing::Broken(Example { broken, scenario: None })
                }
                (Law::DecisionCost, None) => Standing::NotMeasured,
                _ if stopped.is_some() => Standing::NotMeasured,
                _ => Standing::Kept,
            }
        };
        let laws = Law::ALL.map(|law| LawReport { law, text: law.text(), standing: standing(law) });
        Report {
            policy: policy.to_owned(),
            seed,
            exhaustive: self.exhaustive,
            random: self.random,
            laws: laws.into(),
            cost,
            stopped,
        }
    }
}

/// How a random scenario is asked again.
fn echoes(number: u32) -> impl Iterator<Item = Echo> {
    let later = (number < LATER).then_some(Echo::Later);
    let strange = Echo::STRANGE.into_iter().filter(move |_| number.is_multiple_of(STRANGE_EVERY));
    std::iter::once(Echo::Same).chain(later).chain(strange)
}
