//! From spans to work: how long each would have taken with nothing in its way.

use std::collections::HashMap;

use interlock_policy_api::Stage;
use interlock_simulator::Kernels;
use interlock_timeline::{Activity, Actor, Ending, Span, Timeline};

use crate::conditions::is_main;
use crate::shared_clock::{Demand, SharedClock};

/// What is assumed of sharing is given up when work and company correlate by so many standard errors.
const SIGNIFICANT: f64 = 3.0;
/// What becomes of kernels of several tasks, unless the run says otherwise.
pub(crate) const ASSUMED: Kernels = Kernels::Shared { throughput: 1.0 };
/// Parts of all processors that a stage on the host is tried with.
const PARTS: u32 = 8;
/// What two kernels at once are tried to get done, in hundredths of what one alone does.
const THROUGHPUTS: std::ops::RangeInclusive<u32> = 50..=200;

/// Something that was measured, and what it took of what it shared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    pub span: Span,
    /// Nanoseconds that it would have taken alone.
    pub work_ns: f64,
    /// How much it was slowed down when it began. What goes on then does not depend on how long this will take: that makes it a
    /// measure of company that says nothing about the work itself.
    company: f64,
}

/// What is shared, and everything that was measured, as work.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    pub observed: Vec<Observed>,
    /// Cores that Prepare, and on the CPU core Stage and Compute, ask for.
    pub stage_cores: f64,
    /// What becomes of kernels of several tasks; `None` where there never were two at once.
    pub kernels: Option<Kernels>,
}

/// Who uses what.
struct Shares<'a> {
    timeline: &'a Timeline,
    processors: f64,
    on_host: bool,
}

impl Fit {
    /// Fits a run on a machine with so many processors, or always enough, whose devices may be the host itself.
    pub fn of(timeline: &Timeline, processors: Option<u64>, on_host: bool) -> Self {
        let processors = processors.map_or(f64::INFINITY, |processors| processors.max(1) as f64);
        let shares = Shares { timeline, processors, on_host };
        let stage_cores = if on_host { shares.fitted_cores() } else { 1.0 };
        let kernels = if on_host { None } else { shares.fitted_kernels() };
        let observed = shares.observed(stage_cores, kernels.unwrap_or(ASSUMED));
        Self { observed, stage_cores, kernels }
    }
}

impl Shares<'_> {
    /// Cores that stages on the host ask for: those with which work that had much company comes out as no more than work that had little.
    fn fitted_cores(&self) -> f64 {
        let all = self.processors;
        let candidates = (1..=PARTS).map(|part| all * f64::from(part) / f64::from(PARTS));
        best(candidates, all, |cores| self.observed(cores, ASSUMED))
    }

    /// What becomes of kernels of several tasks, found in the same way.
    fn fitted_kernels(&self) -> Option<Kernels> {
        let mut kernels: Vec<&Span> = self.kernels().collect();
        kernels.sort_by_key(|span| span.begin_ns);
        let mut until_ns = 0;
        let overlap = kernels.iter().any(|span| {
            let overlaps = span.begin_ns < until_ns;
            until_ns = until_ns.max(span.end_ns);
            overlaps
        });
        overlap.then(|| {
            let throughputs = THROUGHPUTS.step_by(5).map(|hundredths| f64::from(hundredths) / 100.0);
            let candidates = throughputs.map(|throughput| Kernels::Shared { throughput });
            best(candidates.chain([Kernels::Alone]), ASSUMED, |kernels| self.observed(1.0, kernels))
        })
    }

    fn kernels(&self) -> impl Iterator<Item = &Span> {
        self.timeline.spans.iter().filter(|span| span.activity == Activity::Run(Stage::COMPUTE))
    }

    /// How long an upload takes in the mean; nothing where nothing was staged.
    fn upload_ns(&self) -> u64 {
        let uploads = self.timeline.spans.iter().filter(|span| span.activity == Activity::Run(Stage::STAGE));
        let (count, total_ns) =
            uploads.fold((0, 0_u64), |(count, total), span| (count + 1, total + span.length_ns()));
        total_ns.checked_div(count).unwrap_or(0)
    }

    /// How many cores a span uses; `None` where it does not use the host.
    fn host_demand(&self, span: &Span, stage_cores: f64) -> Option<f64> {
        let on_device = match span.actor {
            Actor::Device { device, .. } => self.on_host || !is_main(self.timeline, device),
            Actor::Synthesis(_) => true,
        };
        match span.activity {
            Activity::Synthesis | Activity::Verify | Activity::Run(Stage::FINISH) => Some(1.0),
            Activity::Run(Stage::PREPARE) => Some(stage_cores),
            Activity::Run(_) => on_device.then_some(stage_cores),
            Activity::Wait(_) | Activity::Hold(_) => None,
        }
    }

    fn observed(&self, stage_cores: f64, kernels: Kernels) -> Vec<Observed> {
        let spans = &self.timeline.spans;
        let on_host =
            spans.iter().filter_map(|span| Some(demand(span, self.host_demand(span, stage_cores)?)));
        let host = SharedClock::new(on_host, |asked| (self.processors / asked).min(1.0));
        let upload_ns = self.upload_ns();
        let devices: Vec<(u32, Engines)> = self
            .timeline
            .devices
            .iter()
            .map(|device| {
                let here = self.kernels().filter(|span| device_of(span) == Some(device.index));
                (device.index, Engines::new(here, kernels, upload_ns))
            })
            .collect();
        let observe = |span: &Span| {
            let (work_ns, rate) = if self.host_demand(span, stage_cores).is_some() {
                (host.work_ns(span.begin_ns, span.end_ns), host.rate_at(span.begin_ns))
            } else {
                let is_kernels = span.activity == Activity::Run(Stage::COMPUTE);
                let device = devices.iter().find(|(index, _)| is_kernels && device_of(span) == Some(*index));
                device.map_or((span.length_ns() as f64, 1.0), |(_, engines)| engines.work_and_rate(span))
            };
            Observed { span: *span, work_ns, company: 1.0 - rate }
        };
        let measured = spans.iter().filter(|span| {
            let takes_time = !matches!(span.activity, Activity::Wait(_) | Activity::Hold(_));
            takes_time && span.ending == Ending::Done
        });
        measured.map(observe).collect()
    }
}

fn demand(span: &Span, asks: f64) -> Demand {
    Demand { begin_ns: span.begin_ns, end_ns: span.end_ns, asks }
}

/// The kernels of one device.
struct Engines {
    turns: Turns,
    /// How long an upload inside Compute takes, while which no kernels run.
    upload_ns: u64,
}

/// Who runs when.
enum Turns {
    /// One after the other: when each could begin, by when it was handed over.
    One(HashMap<(u64, u64), u64>),
    /// All at once.
    All(SharedClock),
}

impl Engines {
    fn new<'a>(spans: impl Iterator<Item = &'a Span>, kernels: Kernels, upload_ns: u64) -> Self {
        let mut times: Vec<(u64, u64)> = spans.map(|span| kernel_times(span, upload_ns)).collect();
        let turns = match kernels {
            Kernels::Alone => {
                times.sort_unstable();
                let mut free_ns = 0;
                let begun = times.into_iter().map(|(begin_ns, end_ns)| {
                    let begun_ns = free_ns.clamp(begin_ns, end_ns);
                    free_ns = free_ns.max(end_ns);
                    ((begin_ns, end_ns), begun_ns)
                });
                Turns::One(begun.collect())
            }
            Kernels::Shared { throughput } => {
                let rate = |tasks: f64| if tasks > 1.0 { (throughput / tasks).min(1.0) } else { 1.0 };
                let demands =
                    times.into_iter().map(|(begin_ns, end_ns)| Demand { begin_ns, end_ns, asks: 1.0 });
                Turns::All(SharedClock::new(demands, rate))
            }
        };
        Self { turns, upload_ns }
    }

    /// The work of a span, and the rate at which its kernels began.
    fn work_and_rate(&self, span: &Span) -> (f64, f64) {
        let (begin_ns, end_ns) = kernel_times(span, self.upload_ns);
        let (kernels_ns, rate) = match &self.turns {
            Turns::One(begun) => {
                let begun_ns = begun.get(&(begin_ns, end_ns)).copied().unwrap_or(begin_ns);
                ((end_ns - begun_ns) as f64, if begun_ns > begin_ns { 0.0 } else { 1.0 })
            }
            Turns::All(clock) => (clock.work_ns(begin_ns, end_ns), clock.rate_at(begin_ns)),
        };
        ((begin_ns - span.begin_ns) as f64 + kernels_ns, rate)
    }
}

/// When the kernels of a Compute ran.
fn kernel_times(span: &Span, upload_ns: u64) -> (u64, u64) {
    let upload_ns = if span.inline { upload_ns.min(span.length_ns()) } else { 0 };
    (span.begin_ns + upload_ns, span.end_ns)
}

pub(crate) fn device_of(span: &Span) -> Option<u32> {
    match span.actor {
        Actor::Device { device, .. } => Some(device),
        Actor::Synthesis(_) => None,
    }
}

/// The candidate with which work and company correlate least; what is assumed, if that correlates by no more than chance.
fn best<T: Copy>(
    candidates: impl Iterator<Item = T>,
    assumed: T,
    observed: impl Fn(T) -> Vec<Observed>,
) -> T {
    let reference = observed(assumed);
    let company: Vec<f64> = reference.iter().map(|one| one.company).collect();
    let of_assumed = correlation(&reference, &company);
    if of_assumed.abs() * (reference.len() as f64).sqrt() < SIGNIFICANT {
        return assumed;
    }
    let scored = candidates.map(|candidate| (correlation(&observed(candidate), &company).abs(), candidate));
    let least = scored.min_by(|left, right| left.0.total_cmp(&right.0));
    least.map_or(assumed, |(_, candidate)| candidate)
}

/// How work and company correlate within each kind, kinds with more work counting for more.
fn correlation(observed: &[Observed], company: &[f64]) -> f64 {
    let mut kinds: HashMap<(Activity, bool), Vec<(f64, f64)>> = HashMap::new();
    for (one, company) in observed.iter().zip(company) {
        // An upload inside Compute makes it another kind.
        let kind = (one.span.activity, one.span.inline);
        kinds.entry(kind).or_default().push((one.work_ns.max(1.0), *company));
    }
    let (mut both, mut works, mut companies) = (0.0, 0.0, 0.0);
    for kind in kinds.values() {
        let count = kind.len() as f64;
        let weight = kind.iter().map(|(work, _)| work).sum::<f64>() / count;
        let mean_log = kind.iter().map(|(work, _)| work.ln()).sum::<f64>() / count;
        let mean_company = kind.iter().map(|(_, company)| company).sum::<f64>() / count;
        for (work, company) in kind {
            let (work, company) = (work.ln() - mean_log, company - mean_company);
            both += weight * work * company;
            works += weight * work * work;
            companies += weight * company * company;
        }
    }
    let scale = (works * companies).sqrt();
    if scale > 0.0 { both / scale } else { 0.0 }
}
