//! The process that hosts one policy: `interlock policy-host`.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::brief::{Brief, StartFault, Started, report_bytes};
use super::child_end::ChildEnd;
use super::confine;
use super::filter::Filters;
use super::process::Handed;
use super::region::{LONG_WORDS, MappedRegion};
use super::wire::{ANSWER_WORDS, Call, ReplyStatus, get_devices, put_bytes, verdict_words};
use crate::host::{LoadedPolicy, OptionsText, PolicyLibrary};
use crate::interlock::{PolicyFault, PolicyPort};

/// What the process exits with when it was not started by an engine.
const NOT_STARTED_BY_AN_ENGINE: u8 = 2;
/// What it exits with when it cannot set up the channel.
const NO_CHANNEL: u8 = 71;
/// What it exits with when the engine is another build of this crate.
pub(super) const OTHER_VERSION: u8 = 70;

/// The most counters of a policy that are shown, and the most characters of a name.
const MAX_COUNTERS: usize = 128;
const MAX_COUNTER_NAME: usize = 64;

/// Hosts one policy: takes the library, the channel and the brief that an engine hands over, gives up what a policy does not
/// need, loads the library, and answers until it is killed.
///
/// Not for people: without an engine it says so and returns an exit code.
pub(super) fn serve() -> ExitCode {
    let mut handed = match confine::take_descriptors() {
        Ok(handed) => handed,
        Err(error) => {
            eprintln!(
                "interlock policy-host hosts a policy for an engine, which starts it by itself: {error}"
            );
            return NOT_STARTED_BY_AN_ENGINE.into();
        }
    };
    // From here on there is nobody to talk to but the engine.
    let Ok(brief) = Brief::read(&mut handed.brief) else { return OTHER_VERSION.into() };
    if brief.version != Brief::own_version() {
        return OTHER_VERSION.into();
    }
    let Ok(region) = MappedRegion::open(&handed.channel) else { return NO_CHANNEL.into() };
    let Handed { channel, library, brief: told } = handed;
    drop((channel, told));
    let mut end = ChildEnd::new(region, Duration::from_nanos(brief.spin_ns));
    let mut host = Host { brief, library: Some(library), policy: None };
    loop {
        end.wait();
        end.serve_waiting(|call, long| host.answer(call, long));
    }
}

struct Host {
    brief: Brief,
    library: Option<File>,
    policy: Option<LoadedPolicy>,
}

type Answer = (ReplyStatus, [u64; ANSWER_WORDS]);

const NOTHING: [u64; ANSWER_WORDS] = [0; ANSWER_WORDS];

impl Host {
    fn answer(&mut self, call: Option<Call>, long: &[AtomicU64]) -> Answer {
        if let Some(Call::Start) = call {
            return self.start(long);
        }
        let (Some(call), Some(policy)) = (call, &mut self.policy) else {
            return (ReplyStatus::UNREACHABLE, NOTHING);
        };
        let answered = match call {
            Call::Start => Err(PolicyFault::Unreachable),
            Call::Decide(request, view) => {
                policy.decide(&request, &view.as_view()).map(|verdict| verdict_words(&verdict))
            }
            Call::Rank(request, view) => {
                policy.rank(&request, &view.as_view()).map(|rank| [rank as u64, 0, 0])
            }
            Call::Place(request, devices) => {
                policy.choose(&request, &get_devices(long, devices)).map(|chosen| [u64::from(chosen), 0, 0])
            }
            Call::Observe(observation) => policy.observe(&observation).map(|()| NOTHING),
            Call::Stats => policy.stats().map(|counters| [put_counters(long, counters), 0, 0]),
        };
        match answered {
            Ok(words) => (ReplyStatus::OK, words),
            Err(PolicyFault::Panicked) => (ReplyStatus::PANICKED, NOTHING),
            Err(PolicyFault::Unreachable | PolicyFault::Ended(_)) => (ReplyStatus::UNREACHABLE, NOTHING),
        }
    }

    fn start(&mut self, long: &[AtomicU64]) -> Answer {
        let report = self.load();
        let status = if report.is_ok() { ReplyStatus::OK } else { ReplyStatus::PANICKED };
        let len = put_bytes(long, &report_bytes(&report));
        (status, [len as u64, 0, 0])
    }

    /// Confines the process, loads the library, and makes the instance.
    fn load(&mut self) -> Result<Started, StartFault> {
        let library = self.library.take().ok_or_else(|| StartFault::Other("started twice".to_owned()))?;
        let (filters, missing) = self.confine()?;
        // Not the bytes that were read but the file itself: it is the engine's sealed copy of what was checked.
        let path = PathBuf::from(format!("/proc/self/fd/{}", library.as_raw_fd()));
        let manifest = self.brief.manifest.as_bytes();
        let options = OptionsText::new(self.brief.options.as_str());
        let loaded = PolicyLibrary::from_image(&path, manifest, &options)?;
        drop(library);
        confine::open_no_more().map_err(|error| unconfined("limits", &error))?;
        if let Some(filters) = filters {
            filters.before_serving().map_err(StartFault::Unconfined)?;
        }
        self.policy = Some(loaded.instantiate().map_err(|error| error.fault)?);
        Ok(Started { missing })
    }

    fn confine(&self) -> Result<(Option<Filters>, Vec<String>), StartFault> {
        let Brief { engine, memory_bytes, filtered, .. } = self.brief;
        confine::die_with(engine).map_err(|error| unconfined("its end with the engine", &error))?;
        confine::drop_capabilities().map_err(|error| unconfined("no capabilities", &error))?;
        confine::limit(memory_bytes).map_err(|error| unconfined("limits", &error))?;
        let mut missing: Vec<String> = confine::hide_files().into_iter().collect();
        let filters = Filters::compile(std::process::id())
            .and_then(|filters| filters.before_loading().map(|()| filters));
        match filters {
            Ok(filters) => Ok((Some(filters), missing)),
            Err(reason) if filtered => Err(StartFault::Unconfined(reason)),
            Err(reason) => {
                missing.push(reason);
                Ok((None, missing))
            }
        }
    }
}

fn unconfined(what: &str, error: &std::io::Error) -> StartFault {
    StartFault::Unconfined(format!("{what}: {error}"))
}

/// Puts a policy's counters into the area for long data, as JSON. Returns its length in bytes.
fn put_counters(long: &[AtomicU64], counters: Vec<(String, u64)>) -> u64 {
    let short = |name: String| name.chars().take(MAX_COUNTER_NAME).collect();
    let counters: Vec<(String, u64)> =
        counters.into_iter().take(MAX_COUNTERS).map(|(name, value)| (short(name), value)).collect();
    // A character is at most six bytes of JSON for each of its own.
    const { assert!(MAX_COUNTERS * (MAX_COUNTER_NAME * 6 + 32) <= LONG_WORDS * 8) };
    let json = serde_json::to_vec(&counters).unwrap_or_default();
    put_bytes(long, &json) as u64
}
