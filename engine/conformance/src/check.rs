//! The check of all laws.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use interlock_arbiter::PolicySource;
use rayon::prelude::*;

use crate::cost::{self, Cost};
use crate::echo::{self, Echo};
use crate::exhaustive::{self, Small};
use crate::law::{Break, Law};
use crate::progress::{Phase, Progress};
use crate::random;
use crate::report::{Example, LawReport, Replay, Report, Standing};
use crate::run::{self, Run};
use crate::scenario::Scenario;
use crate::trace;

/// One random scenario in so many is asked again.
const AGAIN_EVERY: u32 = 4;
/// One random scenario in so many is asked again with what a later host may add.
const STRANGE_EVERY: u32 = 16;
/// Random scenarios that are asked again later.
const LATER: u32 = 3;
/// Runs that make a broken scenario smaller.
const MOST_SHRINKS: u32 = 400;
/// The same where each of them waits for a clock to go on.
const MOST_LATER_SHRINKS: u32 = 30;
/// Runs that end with the policy's process, or for which there is no instance, before the check gives up.
const MOST_LOST: u32 = 3;

/// The part of the time after which there are no more orders, and no more random scenarios; the rest is for making them smaller.
const ORDERS_END: f64 = 0.4;
const RANDOM_ENDS: f64 = 0.85;
/// The part of the time that a long scenario may take, as far as the cost of a decision tells.
const LONGEST_PART: f64 = 0.05;
/// About how often a policy is called for a task.
const CALLS: f64 = 16.0;

/// How a policy is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the random scenarios begin: the same seed makes the same ones.
    pub seed: u64,
    /// How many random scenarios there are.
    pub scenarios: u32,
    /// What the median of decisions may take. `None`: it is not measured, and the check has no clock.
    pub decision_budget: Option<Duration>,
    /// After which time no more scenarios are run. `None`: all are, and what is found does not depend on a clock.
    pub time: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { seed: 1, scenarios: 2_000, decision_budget: None, time: None }
    }
}

/// Checks a policy: every order of small scenarios, then random ones, on as many threads as there are processors. What is found
/// does not depend on their number.
pub fn check(source: &dyn PolicySource, settings: &Settings) -> Report {
    check_watched(source, settings, &Progress::new())
}

/// The same, for somebody who waits: `progress` says how far it is. What a decision costs is measured first, so that it is known
/// also of a policy that answers nothing for long.
pub fn check_watched(source: &dyn PolicySource, settings: &Settings, progress: &Progress) -> Report {
    let began = Instant::now();
    let part = |part: f64| settings.time.map(|time| began + time.mul_f64(part));
    progress.expect(settings.scenarios);
    progress.begin(Phase::Cost);
    let cost = settings.decision_budget.and_then(|budget| cost::measure(source, budget));
    let most_tasks = most_tasks(cost, settings.time);
    let mut check = Check {
        source,
        seed: settings.seed,
        most_tasks,
        lost: AtomicU32::new(0),
        ends: part(ORDERS_END),
        progress,
    };
    let mut findings = Findings::default();
    progress.begin(Phase::Scenarios);
    for found in exhaustive::each(&|small| check.orders(small)) {
        findings.exhaustive += found.runs;
        found.found.into_iter().for_each(|found| findings.look(found));
    }
    let mut time_was_up = check.time_is_up();
    check.ends = part(RANDOM_ENDS);
    let random: Vec<Option<Outcome>> =
        (0..settings.scenarios).into_par_iter().map(|number| check.random(number)).collect();
    for found in random.into_iter().flatten() {
        findings.random += found.runs;
        found.found.into_iter().for_each(|found| findings.look(found));
    }
    // What was asked again when the time was up was not asked to its end.
    time_was_up |= check.is_answered() && (findings.random < settings.scenarios || check.time_is_up());
    if check.is_answered() {
        progress.begin(Phase::Smaller);
        check.ends = part(1.0);
        findings.found.iter_mut().for_each(|found| check.make_smaller(found));
    }
    let cut_short = settings.time.filter(|_| time_was_up);
    findings.report(source.name(), settings, cost, check.is_answered(), cut_short)
}

/// How many tasks a scenario may have so that it takes a small part of the time.
fn most_tasks(cost: Option<Cost>, time: Option<Duration>) -> usize {
    let (Some(cost), Some(time)) = (cost, time) else { return usize::MAX };
    let of_task_ns = cost.median_ns as f64 * CALLS;
    // A number beyond the largest one becomes the largest one.
    (time.as_nanos() as f64 * LONGEST_PART / of_task_ns.max(1.0)) as usize
}

/// Runs one scenario, and asks again what was asked in it.
pub fn replay(source: &dyn PolicySource, scenario: &Scenario) -> Replay {
    let run = run::run(source, scenario, None);
    let mut breaks: Vec<Break> = run.broken.clone().into_iter().collect();
    if !run.is_lost() {
        let again = |echo: Echo| echo::ask_again(source, &run.entries, echo, None);
        breaks.extend([Echo::Same, Echo::Later].into_iter().find_map(again));
        if breaks.is_empty() {
            breaks.extend(Echo::STRANGE.into_iter().find_map(again));
        }
    }
    Replay { policy: source.name().to_owned(), trace: trace::text(&run.entries), breaks }
}

/// A check that is under way.
struct Check<'s> {
    source: &'s dyn PolicySource,
    seed: u64,
    /// Tasks of the longest scenario.
    most_tasks: usize,
    /// Runs that ended with the policy's process, or for which there was no instance.
    lost: AtomicU32,
    /// When what is under way has to end.
    ends: Option<Instant>,
    progress: &'s Progress,
}

/// A law that was broken, and where.
struct Found {
    broken: Break,
    scenario: Scenario,
    /// How many of its tasks there have to be for all that came before the break.
    tasks: usize,
    /// The number of a random scenario, and how it was asked again.
    random: Option<(u32, Option<Echo>)>,
}

/// What some runs showed.
struct Outcome {
    runs: u32,
    found: Vec<Found>,
}

impl Check<'_> {
    fn goes_on(&self) -> bool {
        self.is_answered() && !self.time_is_up()
    }

    fn is_answered(&self) -> bool {
        self.lost.load(Ordering::Relaxed) < MOST_LOST
    }

    fn time_is_up(&self) -> bool {
        self.ends.is_some_and(|ends| Instant::now() >= ends)
    }

    fn tree(&self, number: u32) -> random::Tree {
        random::tree(self.seed, number, self.most_tasks)
    }

    fn note(&self, run: &Run) {
        self.lost.fetch_add(u32::from(run.is_lost()), Ordering::Relaxed);
    }

    /// Every order of a small scenario.
    fn orders(&self, small: &Small) -> Outcome {
        let mut outcome = Outcome { runs: 0, found: Vec::new() };
        small.each_order(self.source, &mut |scenario, run| {
            outcome.runs += 1;
            self.progress.count_order();
            self.note(&run);
            if let Some(broken) = run.broken {
                let tasks = scenario.tasks.len();
                outcome.found.push(Found { broken, scenario, tasks, random: None });
            }
            self.goes_on()
        });
        outcome
    }

    /// One random scenario, and the same asked again. `None` when the check has given up, or gives up this one.
    fn random(&self, number: u32) -> Option<Outcome> {
        if !self.goes_on() {
            return None;
        }
        let scenario = self.tree(number).current();
        let run = run::run(self.source, &scenario, self.ends);
        if run.is_given_up {
            return None;
        }
        self.note(&run);
        let found = |broken: Break, echo| Found {
            tasks: run.tasks_within(broken.events),
            broken,
            scenario: scenario.clone(),
            random: Some((number, echo)),
        };
        let mut all: Vec<Found> = run.broken.clone().map(|broken| found(broken, None)).into_iter().collect();
        if !run.is_lost() {
            let broken = echoes(number, run.broken.is_none())
                .find_map(|echo| Some((echo::ask_again(self.source, &run.entries, echo, self.ends)?, echo)));
            // What comes after an answer that differs is no news.
            all.extend(broken.map(|(broken, echo)| found(broken, Some(echo))));
        }
        self.progress.count_random();
        Some(Outcome { runs: 1, found: all })
    }

    /// Takes away from a random scenario what is not needed to break its law.
    fn make_smaller(&self, found: &mut Found) {
        let Some((number, echo)) = found.random else { return };
        let law = found.broken.law;
        let breaks = |scenario: &Scenario| {
            if self.time_is_up() {
                return None;
            }
            let run = run::run(self.source, scenario, self.ends);
            let broken = match echo {
                None => run.broken.clone(),
                Some(echo) => echo::ask_again(self.source, &run.entries, echo, self.ends),
            };
            let broken = broken.filter(|broken| broken.law == law)?;
            Some((run.tasks_within(broken.events), broken))
        };
        let most = if echo == Some(Echo::Later) { MOST_LATER_SHRINKS } else { MOST_SHRINKS };
        let smallest = random::shrink(&mut self.tree(number), most, &mut |scenario| {
            let broken = breaks(scenario);
            let holds = broken.is_some();
            if let Some((tasks, broken)) = broken {
                (found.tasks, found.broken) = (tasks, broken);
            }
            holds
        });
        found.scenario = smallest;
        // Tasks that had not come yet. What a clock decided need not come again, so that nothing was taken away above.
        let mut without = found.scenario.clone();
        without.tasks.truncate(found.tasks);
        match breaks(&without) {
            Some((_, broken)) => (found.scenario, found.broken) = (without, broken),
            None if law == Law::Determinism => found.scenario = without,
            None => {}
        }
    }
}

/// What was found so far.
#[derive(Default)]
struct Findings {
    /// Of each broken law, where it was broken after the fewest events.
    found: Vec<Found>,
    exhaustive: u32,
    random: u32,
}

impl Findings {
    fn look(&mut self, new: Found) {
        match self.found.iter_mut().find(|found| found.broken.law == new.broken.law) {
            Some(found) if new.broken.events < found.broken.events => *found = new,
            Some(_) => {}
            None => self.found.push(new),
        }
    }

    /// Whether there was a run that could have broken the law.
    fn was_tried(&self, law: Law) -> bool {
        let is_of_random = matches!(law, Law::Determinism | Law::Strangers);
        self.random > 0 || (self.exhaustive > 0 && !is_of_random)
    }

    fn report(
        self,
        policy: &str,
        settings: &Settings,
        cost: Option<Cost>,
        is_whole: bool,
        cut_short: Option<Duration>,
    ) -> Report {
        let stopped = (!is_whole).then(|| {
            "the check ended early: too often the policy's process ended, or no instance could be made"
                .to_owned()
        });
        let laws = Law::ALL.map(|law| LawReport {
            law,
            text: law.text(),
            standing: match self.found.iter().find(|found| found.broken.law == law) {
                Some(found) => Standing::Broken(Example {
                    broken: found.broken.clone(),
                    scenario: Some(found.scenario.to_ron()),
                }),
                None if law == Law::DecisionCost => by_cost(cost),
                None if is_whole && self.was_tried(law) => Standing::Kept,
                None => Standing::NotChecked,
            },
        });
        let (exhaustive, random) = (self.exhaustive, self.random);
        let cut_short = cut_short.map(|time| {
            format!(
                "the time of {} s was up before all scenarios were run ({} random ones were asked for)",
                time.as_secs_f64(),
                settings.scenarios
            )
        });
        let (policy, seed, laws) = (policy.to_owned(), settings.seed, laws.into());
        Report { policy, seed, exhaustive, random, laws, cost, cut_short, stopped }
    }
}

fn by_cost(cost: Option<Cost>) -> Standing {
    match cost {
        None => Standing::NotChecked,
        Some(cost) if cost.median_ns <= cost.budget_ns => Standing::Kept,
        Some(cost) => {
            let what = format!("half of its decisions took longer than {} ns", cost.budget_ns);
            let broken = Break { law: Law::DecisionCost, at_ns: 0, events: 0, what };
            Standing::Broken(Example { broken, scenario: None })
        }
    }
}

/// How a random scenario is asked again. What a policy makes of strangers is asked where it has `kept` the laws without them.
fn echoes(number: u32, kept: bool) -> impl Iterator<Item = Echo> {
    let again = number.is_multiple_of(AGAIN_EVERY).then_some(Echo::Same);
    let later = (number < LATER).then_some(Echo::Later);
    let is_strange = kept && number.is_multiple_of(STRANGE_EVERY);
    let strange = Echo::STRANGE.into_iter().filter(move |_| is_strange);
    again.into_iter().chain(later).chain(strange)
}
