//! What a scenario has to keep, beyond what its types say. Each fault comes with the way to the value.

use std::collections::HashMap;

use interlock_settings::ByteSize;

use super::read::Step::{self, Field, Item};
use super::{Arrivals, CpuWork, Fault, Kernels, Scenario, ScenarioFault, TaskClass, TraceJob};
use crate::Distribution;

/// The most devices of a scenario.
pub const MAX_DEVICES: u64 = 1_024;
/// The most workers of one kind.
pub const MAX_WORKERS: u64 = 1_024;
/// The most tasks of a run.
pub const MAX_PARTITIONS: u64 = 10_000_000;

/// A fault, and the way to the value that is wrong.
type Placed = (Vec<Step>, ScenarioFault);

impl Scenario {
    pub(super) fn faults_at(&self) -> Result<(), Placed> {
        self.check_machine()?;
        if self.classes.is_empty() {
            return Err((vec![Field("classes")], ScenarioFault::Empty("classes")));
        }
        for (index, class) in self.classes.iter().enumerate() {
            self.check_class(index, class).map_err(under(&[Field("classes"), Item(index)]))?;
        }
        if self.arrivals.is_empty() {
            return Err((vec![Field("arrivals")], ScenarioFault::Empty("arrivals")));
        }
        let mut partitions: u64 = 0;
        for (index, arrivals) in self.arrivals.iter().enumerate() {
            let path = [Field("arrivals"), Item(index)];
            let more = self.check_arrivals(arrivals).map_err(under(&path))?;
            partitions = partitions.saturating_add(more);
            at_most("tasks", partitions, MAX_PARTITIONS).map_err(|fault| (path.to_vec(), fault))?;
        }
        for (index, fault) in self.faults.iter().enumerate() {
            self.check_fault(fault).map_err(under(&[Field("faults"), Item(index)]))?;
        }
        positive("refusals", self.limits.refusals.into())
            .map_err(at(&[Field("limits"), Field("refusals")]))?;
        positive("stall", self.limits.stall.0).map_err(at(&[Field("limits"), Field("stall")]))
    }

    /// How many devices there are.
    pub fn device_count(&self) -> u64 {
        self.devices.iter().map(|device| u64::from(device.count)).sum()
    }

    fn check_machine(&self) -> Result<(), Placed> {
        if self.devices.is_empty() {
            return Err((vec![Field("devices")], ScenarioFault::Empty("devices")));
        }
        for (index, device) in self.devices.iter().enumerate() {
            let counts = [
                ("count", u64::from(device.count)),
                ("vram", device.vram.0),
                ("copy_engines", device.copy_engines.into()),
                ("compute_engines", device.compute_engines.into()),
            ];
            for (what, count) in counts {
                positive(what, count).map_err(at(&[Field("devices"), Item(index), Field(what)]))?;
            }
            if let Some(cores) = device.host_cores {
                let path = [Field("devices"), Item(index), Field("host_cores")];
                above_zero("number of cores", cores).map_err(at(&path))?;
                if let Some(there) = self.host.cores.filter(|there| cores > *there) {
                    let fault = ScenarioFault::MoreThanHost { what: "cores", asked: cores, there };
                    return Err((path.to_vec(), fault));
                }
            }
            if let Kernels::Shared { throughput } = device.kernels {
                let path = [Field("devices"), Item(index), Field("kernels"), Field("throughput")];
                above_zero("throughput", throughput).map_err(at(&path))?;
            }
        }
        at_most("devices", self.device_count(), MAX_DEVICES).map_err(at(&[Field("devices")]))?;
        if let Some(cores) = self.host.cores {
            above_zero("number of cores", cores).map_err(at(&[Field("host"), Field("cores")]))?;
        }
        if let Some(ByteSize(bandwidth)) = self.host.bandwidth {
            positive("bandwidth", bandwidth).map_err(at(&[Field("host"), Field("bandwidth")]))?;
        }
        let synthesis = Field("synthesis");
        let mut counts = vec![
            (vec![Field("workers")], "workers", self.workers),
            (vec![synthesis, Field("workers")], "workers", self.synthesis.workers),
        ];
        counts.extend(self.synthesis.ahead.map(|ahead| (vec![synthesis, Field("ahead")], "ahead", ahead)));
        for (path, what, count) in counts {
            positive(what, count.into()).map_err(at(&path))?;
            at_most(what, count.into(), MAX_WORKERS).map_err(at(&path))?;
        }
        Ok(())
    }

    fn check_class(&self, index: usize, class: &TaskClass) -> Result<(), Placed> {
        if class.name.trim().is_empty() {
            return Err((vec![Field("name")], ScenarioFault::NoName { what: "class" }));
        }
        if self.classes[..index].iter().any(|other| other.name == class.name) {
            let name = class.name.clone();
            return Err((vec![Field("name")], ScenarioFault::Duplicate { what: "class", name }));
        }
        positive("partitions", class.partitions.into()).map_err(at(&[Field("partitions")]))?;
        let peak = u128::from(class.staged.0) + u128::from(class.extra.0);
        let largest = self.devices.iter().map(|device| device.vram.0).max().unwrap_or(0);
        if peak > u128::from(largest) {
            let fault = ScenarioFault::LargerThanDevice { class: class.name.clone(), peak, largest };
            return Err((vec![Field(if class.staged.0 > largest { "staged" } else { "extra" })], fault));
        }
        let times = [
            ("stage", Some(&class.stage)),
            ("inline", class.inline.as_ref()),
            ("compute", Some(&class.compute)),
        ];
        for (name, time) in times {
            time.map_or(Ok(()), Distribution::check).map_err(|error| (vec![Field(name)], error.into()))?;
        }
        class.cpu_work().try_for_each(|(name, work)| self.check_work(work).map_err(under(&[Field(name)])))
    }

    fn check_work(&self, work: &CpuWork) -> Result<(), Placed> {
        work.time.check().map_err(|error| (vec![Field("time")], error.into()))?;
        above_zero("number of cores", work.cores).map_err(at(&[Field("cores")]))?;
        let bandwidth = |bytes: ByteSize| bytes.0 as f64;
        let asked = [
            ("cores", work.cores, self.host.cores),
            ("bandwidth", bandwidth(work.bandwidth), self.host.bandwidth.map(bandwidth)),
        ];
        for (what, asked, there) in asked {
            if let Some(there) = there.filter(|there| asked > *there) {
                return Err((vec![Field(what)], ScenarioFault::MoreThanHost { what, asked, there }));
            }
        }
        Ok(())
    }

    /// How many tasks they are.
    fn check_arrivals(&self, arrivals: &Arrivals) -> Result<u64, Placed> {
        let partitions = |class: &str| {
            let class = self.class(class).map_err(at(&[Field("class")]))?;
            Ok(u64::from(class.partitions))
        };
        match arrivals {
            Arrivals::Closed { class, jobs, in_flight } => {
                positive("jobs", *jobs).map_err(at(&[Field("jobs")]))?;
                positive("in_flight", *in_flight).map_err(at(&[Field("in_flight")]))?;
                Ok(partitions(class)?.saturating_mul(*jobs))
            }
            Arrivals::Poisson { class, jobs, every: _ } => {
                positive("jobs", *jobs).map_err(at(&[Field("jobs")]))?;
                Ok(partitions(class)?.saturating_mul(*jobs))
            }
            Arrivals::Trace { jobs } => {
                if jobs.is_empty() {
                    return Err((vec![Field("jobs")], ScenarioFault::Empty("jobs")));
                }
                check_trace(jobs).map_err(under(&[Field("jobs")]))?;
                let mut sum: u64 = 0;
                for (index, job) in jobs.iter().enumerate() {
                    let more = partitions(&job.class).map_err(under(&[Field("jobs"), Item(index)]))?;
                    sum = sum.saturating_add(more);
                }
                Ok(sum)
            }
        }
    }

    fn check_fault(&self, fault: &Fault) -> Result<(), Placed> {
        let probability = |value: &f64| {
            if (0.0..=1.0).contains(value) {
                return Ok(());
            }
            let (what, instead) = ("probability", "a number from 0 to 1");
            Err((vec![Field(what)], ScenarioFault::BadNumber { what, value: *value, instead }))
        };
        match fault {
            Fault::AllocationFailure { class, probability: value } => {
                self.class(class).map_err(at(&[Field("class")]))?;
                probability(value)
            }
            Fault::SlowTask { class, probability: value, factor } => {
                self.class(class).map_err(at(&[Field("class")]))?;
                probability(value)?;
                above_zero("factor", *factor).map_err(at(&[Field("factor")]))
            }
            Fault::DeviceLoss { device, .. } => {
                let count = self.device_count();
                if u64::from(*device) < count {
                    return Ok(());
                }
                let known = (0..count).map(|index| index.to_string()).collect();
                let fault = ScenarioFault::Unknown { what: "device", name: device.to_string(), known };
                Err((vec![Field("device")], fault))
            }
        }
    }

    fn class(&self, name: &str) -> Result<&TaskClass, ScenarioFault> {
        self.classes.iter().find(|class| class.name == name).ok_or_else(|| ScenarioFault::Unknown {
            what: "class",
            name: name.to_owned(),
            known: self.classes.iter().map(|class| class.name.clone()).collect(),
        })
    }
}

/// Times in order, names that are there once, and nobody who waits for himself.
fn check_trace(jobs: &[TraceJob]) -> Result<(), Placed> {
    let mut named = HashMap::new();
    for (index, job) in jobs.iter().enumerate() {
        if let Some(before) =
            index.checked_sub(1).map(|before| jobs[before].at).filter(|before| *before > job.at)
        {
            let fault = ScenarioFault::BackwardsTrace { at: job.at, before };
            return Err((vec![Item(index), Field("at")], fault));
        }
        if job.name.as_ref().is_some_and(|name| name.trim().is_empty()) {
            return Err((vec![Item(index), Field("name")], ScenarioFault::NoName { what: "job" }));
        }
        if let Some(name) = &job.name
            && named.insert(name.as_str(), index).is_some()
        {
            let fault = ScenarioFault::Duplicate { what: "job", name: name.clone() };
            return Err((vec![Item(index), Field("name")], fault));
        }
    }
    for (index, job) in jobs.iter().enumerate() {
        for (at, name) in job.after.iter().enumerate() {
            if !named.contains_key(name.as_str()) {
                let known = jobs.iter().filter_map(|job| job.name.clone()).collect();
                let fault = ScenarioFault::Unknown { what: "job", name: name.clone(), known };
                return Err((vec![Item(index), Field("after"), Item(at)], fault));
            }
        }
    }
    match cycle(jobs, &named) {
        Some(cycle) => {
            let name = |index: &usize| jobs[*index].name.clone().unwrap_or_default();
            let names = cycle.iter().chain(&cycle[..1]).map(name).collect();
            Err((vec![Item(cycle[0]), Field("after")], ScenarioFault::Cycle { names }))
        }
        None => Ok(()),
    }
}

/// Jobs that wait for each other, each for the next one and the last for the first.
fn cycle(jobs: &[TraceJob], named: &HashMap<&str, usize>) -> Option<Vec<usize>> {
    let after = |index: usize| jobs[index].after.iter().filter_map(|name| named.get(name.as_str()).copied());
    let mut settled = vec![false; jobs.len()];
    for start in 0..jobs.len() {
        // Depth first, with a stack of its own: a trace may be a chain of any length.
        let mut way: Vec<(usize, Vec<usize>)> = vec![(start, after(start).collect())];
        let mut on_way = HashMap::from([(start, 0)]);
        while let Some((at, next)) = way.last_mut() {
            match next.pop() {
                Some(next) if settled[next] => {}
                Some(next) => {
                    if let Some(from) = on_way.get(&next) {
                        return Some(way[*from..].iter().map(|(index, _)| *index).collect());
                    }
                    on_way.insert(next, way.len());
                    way.push((next, after(next).collect()));
                }
                None => {
                    settled[*at] = true;
                    on_way.remove(at);
                    way.pop();
                }
            }
        }
    }
    None
}

fn positive(what: &'static str, count: u64) -> Result<(), ScenarioFault> {
    if count > 0 { Ok(()) } else { Err(ScenarioFault::Zero { what }) }
}

fn at_most(what: &'static str, count: u64, most: u64) -> Result<(), ScenarioFault> {
    if count <= most { Ok(()) } else { Err(ScenarioFault::TooMany { what, count, most }) }
}

/// A number that can be meant for an amount: not NaN, not infinite, and at least a millionth, which is the finest that is counted.
fn above_zero(what: &'static str, value: f64) -> Result<(), ScenarioFault> {
    if (1e-6..=1e6).contains(&value) {
        return Ok(());
    }
    Err(ScenarioFault::BadNumber { what, value, instead: "a number from 0.000001 to 1000000" })
}

fn at(path: &[Step]) -> impl Fn(ScenarioFault) -> Placed {
    move |fault| (path.to_vec(), fault)
}

fn under(path: &[Step]) -> impl Fn(Placed) -> Placed {
    move |(rest, fault)| ([path, &rest].concat(), fault)
}
