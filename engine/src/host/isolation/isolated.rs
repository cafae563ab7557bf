//! A policy in a process of its own, as the engine holds it.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use interlock_policy_api::{DeviceView, Observation, Request, Verdict, View};

use super::brief::{Brief, StartFault, Started};
use super::host_end::{HostEnd, Reply, Rubbish};
use super::process::{Handed, PolicyProcess};
use super::region::MappedRegion;
use super::wire::{
    CallKind, ReplyStatus, get_bytes, put_bare, put_observation, put_place, put_question, verdict_of,
};
use super::{ProcessSettings, serve};
use crate::host::{LoadFault, OptionsText, printable};
use crate::interlock::{PolicyEnd, PolicyFault};

/// How long each side waits actively before it sleeps, where there is a processor for either.
const SPIN: Duration = Duration::from_micros(20);
/// How often the engine looks whether a process that it waits for is still there.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A library's sealed copy and all that is needed to run it in a process.
#[derive(Clone)]
pub(in crate::host) struct Image {
    pub library: Arc<File>,
    /// The manifest, as it stands in the library.
    pub manifest: Arc<str>,
    pub settings: ProcessSettings,
}

/// One instance, in a process of its own. Dropping it kills the process.
pub(in crate::host) struct IsolatedPolicy {
    end: HostEnd,
    process: PolicyProcess,
    /// How the latest observation was taken that the policy has been told of.
    observed: Result<(), PolicyFault>,
    budget: Duration,
}

impl IsolatedPolicy {
    /// Starts the process and waits until the policy is ready.
    pub fn start(image: &Image, name: &str, options: &OptionsText) -> Result<Self, LoadFault> {
        let settings = &image.settings;
        let failed = |error| LoadFault::NoProcess { program: settings.program.to_string(), error };
        let spin = if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
            SPIN
        } else {
            Duration::ZERO
        };
        let brief = Brief {
            version: Brief::own_version(),
            engine: std::process::id(),
            manifest: image.manifest.to_string(),
            options: options.as_str().to_owned(),
            filtered: settings.filtered,
            memory_bytes: settings.memory_bytes,
            spin_ns: spin.as_nanos() as u64,
        };
        let (region, channel) = MappedRegion::create().map_err(failed)?;
        let library = image.library.try_clone().map_err(failed)?;
        let handed = Handed { channel, library, brief: brief.write().map_err(failed)? };
        let process = PolicyProcess::start(&settings.program, name, handed).map_err(failed)?;
        let end = HostEnd::new(region, spin);
        let mut policy = Self { end, process, observed: Ok(()), budget: settings.load };
        let started = policy.ask(|words, _| put_bare(words, CallKind::START));
        let reply = started.map_err(|end| settings.fault_of_start(end))?;
        let missing = policy.report(&reply)?.missing;
        if !missing.is_empty() {
            let missing: Vec<_> = missing.iter().map(|what| printable(what)).collect();
            let (process, missing) = (policy.process.id(), missing.join("; "));
            tracing::warn!(policy = name, process, %missing, "a policy's process is less confined than it should be");
        }
        policy.budget = settings.decision;
        Ok(policy)
    }

    pub fn decide(&mut self, request: &Request, view: &View<'_>) -> Result<Verdict, PolicyFault> {
        let write = |words: &[_], _: &[_]| put_question(words, CallKind::DECIDE, request, view);
        self.answered(write).map(|reply| verdict_of(reply.answer))
    }

    pub fn rank(&mut self, request: &Request, view: &View<'_>) -> Result<i64, PolicyFault> {
        let write = |words: &[_], _: &[_]| put_question(words, CallKind::RANK, request, view);
        self.answered(write).map(|reply| reply.answer[0] as i64)
    }

    /// The chosen device: any number, which the caller checks.
    pub fn place(&mut self, request: &Request, devices: &[DeviceView]) -> Result<u32, PolicyFault> {
        let reply = self.answered(|words, long| put_place(words, long, request, devices))?;
        Ok(u32::try_from(reply.answer[0]).unwrap_or(u32::MAX))
    }

    /// Writes an observation down for the policy, which sees it before the next question. So the result is that of the latest
    /// one it has seen.
    pub fn observe(&mut self, observation: &Observation) -> Result<(), PolicyFault> {
        self.make_room().map_err(PolicyFault::Ended)?;
        self.end.make(|words, _| put_observation(words, observation));
        self.observed
    }

    pub fn stats(&mut self) -> Result<Vec<(String, u64)>, PolicyFault> {
        let reply = self.answered(|words, _| put_bare(words, CallKind::STATS))?;
        let counters: Option<Vec<(String, u64)>> =
            get_bytes(self.end.long(), reply.answer[0]).and_then(|json| serde_json::from_slice(&json).ok());
        let counters = counters.ok_or_else(|| PolicyFault::Ended(self.process.kill(PolicyEnd::Rubbish)))?;
        Ok(counters.into_iter().map(|(name, value)| (printable(&name), value)).collect())
    }

    /// The process's id.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    fn report(&mut self, reply: &Reply) -> Result<Started, LoadFault> {
        let report = get_bytes(self.end.long(), reply.answer[0])
            .and_then(|json| serde_json::from_slice::<Result<Started, StartFault>>(&json).ok());
        match report {
            Some(report) => report.map_err(LoadFault::from),
            None => Err(LoadFault::EndedAtStart { end: self.process.kill(PolicyEnd::Rubbish) }),
        }
    }

    /// Asks and judges how the policy took it.
    fn answered(&mut self, write: impl FnOnce(&[AtomicU64], &[AtomicU64])) -> Result<Reply, PolicyFault> {
        let reply = self.ask(write).map_err(PolicyFault::Ended)?;
        took(&reply).map(|()| reply)
    }

    /// Makes a call and waits for its answer. The budget covers what was written down before and not yet seen.
    fn ask(&mut self, write: impl FnOnce(&[AtomicU64], &[AtomicU64])) -> Result<Reply, PolicyEnd> {
        self.make_room()?;
        let call = self.end.make(write);
        self.end.wake();
        let mut left = self.budget;
        loop {
            let reply = self.next_answer(&mut left)?;
            if reply.call == call {
                return Ok(reply);
            }
            self.observed = took(&reply);
        }
    }

    /// Makes room for one more call. All that can be under way are observations: other calls are waited for.
    fn make_room(&mut self) -> Result<(), PolicyEnd> {
        if let Some(end) = self.process.known_end() {
            return Err(end);
        }
        if self.end.has_room() {
            return Ok(());
        }
        self.end.wake();
        let mut left = self.budget;
        let reply = self.next_answer(&mut left)?;
        self.observed = took(&reply);
        Ok(())
    }

    /// Waits for the next answer in order, as long as there is budget `left`.
    fn next_answer(&mut self, left: &mut Duration) -> Result<Reply, PolicyEnd> {
        loop {
            match self.end.take() {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(Rubbish) => return Err(self.process.kill(PolicyEnd::Rubbish)),
            }
            if left.is_zero() {
                let budget_ms = self.budget.as_millis() as u64;
                return Err(self.process.kill(PolicyEnd::Silent { budget_ms }));
            }
            let start = Instant::now();
            let answered = self.end.wait(LOOK_EVERY.min(*left));
            // A machine that was suspended, or an engine that had no processor, does not count against the policy.
            *left = left.saturating_sub(start.elapsed().min(2 * LOOK_EVERY));
            if answered {
                continue;
            }
            if let Some(end) = self.process.ended() {
                return Err(end);
            }
        }
    }
}

fn took(reply: &Reply) -> Result<(), PolicyFault> {
    match reply.status {
        ReplyStatus::OK => Ok(()),
        ReplyStatus::PANICKED => Err(PolicyFault::Panicked),
        _ => Err(PolicyFault::Unreachable),
    }
}

impl ProcessSettings {
    /// What an end before the policy was ready means.
    fn fault_of_start(&self, end: PolicyEnd) -> LoadFault {
        if end == (PolicyEnd::Exited { code: i32::from(serve::OTHER_VERSION) }) {
            return LoadFault::OtherVersion { program: self.program.to_string() };
        }
        LoadFault::EndedAtStart { end }
    }
}
