//! One client: its request is read, carried out and answered.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::server::Shared;
use super::stream::{Peer, peer};
use super::wire::{
    About, Answer, AnswerLine, DeviceSeat, LineError, Lines, MAX_REQUEST_BYTES, Refused, RefusedCode,
    Request, Stats, Switched, VERSION, parse_request, write_line,
};
use crate::host::{Config, PolicyLibrary, resident_list};
use crate::pipeline::{RestoreError, Switch, SwitchReport};

/// How long a client may take for its request, and to take a line of the answer.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// How long a client waits for others' policies to be loaded.
const LOADING_LIMIT: Duration = Duration::from_secs(30);
/// How often a client that waits hears something, and how soon it is noticed that it is gone.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// How often a wait looks whether the engine ends.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The longest that a client is kept waiting, whatever it asked for.
const LONGEST_WAIT: Duration = Duration::from_secs(900);

/// Serves a client. Whatever it does ends here.
pub fn serve(shared: &Shared, stream: &UnixStream) {
    let session = Session { shared, stream };
    let answer = match session.request() {
        Ok(Some((request, peer))) => session.carry_out(request, peer),
        Ok(None) => return,
        Err(refused) => Ok(Answer::Refused(refused)),
    };
    if let Err(error) = answer.and_then(|answer| session.send(answer)) {
        tracing::debug!(%error, "a client of the control socket went away before its answer");
    }
}

struct Session<'a> {
    shared: &'a Shared,
    stream: &'a UnixStream,
}

impl Session<'_> {
    /// The request, and who made it; `None` when the client went away without one.
    fn request(&self) -> Result<Option<(Request, Peer)>, Refused> {
        let failed = |error: io::Error| Refused::new(RefusedCode::Malformed, error.to_string());
        let peer = peer(self.stream).map_err(failed)?;
        if !peer.is_trusted() {
            tracing::warn!(pid = peer.pid, uid = peer.uid, "a client of another user was turned away");
            let message = "only the engine's user and root may talk to it";
            return Err(Refused::new(RefusedCode::NotAllowed, message));
        }
        self.stream.set_write_timeout(Some(REQUEST_LIMIT)).map_err(failed)?;
        let stream = self.stream.try_clone().map_err(failed)?;
        match Lines::new(stream, MAX_REQUEST_BYTES).next_within(REQUEST_LIMIT) {
            Ok(line) => parse_request(&line).map(|request| Some((request, peer))),
            Err(LineError::Closed) => Ok(None),
            Err(_) if self.shared.is_closing() => Ok(None),
            Err(error) => Err(Refused::new(RefusedCode::Malformed, error.to_string())),
        }
    }

    fn carry_out(&self, request: Request, peer: Peer) -> io::Result<Answer> {
        match request {
            Request::About => Ok(Answer::About(Box::new(self.about()))),
            Request::Stats => Ok(Answer::Stats(Box::new(Stats {
                devices: self.shared.stats(),
                last_switch: self.shared.engine.last_switch(),
            }))),
            Request::UsePolicy(wanted) => {
                tracing::info!(policy = ?wanted.policy, pid = peer.pid, uid = peer.uid, "a policy is asked for");
                self.switched(self.use_policy(&wanted.policy), wanted.wait_ms)
            }
            Request::Restore(wanted) => {
                tracing::info!(pid = peer.pid, uid = peer.uid, "the last good policy is asked for");
                self.switched(self.restore(), wanted.wait_ms)
            }
        }
    }

    fn about(&self) -> About {
        let device = |device: crate::pipeline::DeviceReport| DeviceSeat {
            name: device.name,
            core: device.core.to_owned(),
            policy: device.policy,
            quarantine: device.quarantine.map(|quarantine| quarantine.sentence),
            lost: device.lost,
        };
        About {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            work: self.shared.described.work.clone(),
            up_seconds: self.shared.opened.elapsed().as_secs(),
            config: self.shared.described.config.as_ref().map(|file| file.display().to_string()),
            devices: self.shared.engine.devices().into_iter().map(device).collect(),
        }
    }

    fn use_policy(&self, name: &str) -> Result<Switch, Refused> {
        let _one = self.loading()?;
        let refused = |error: &dyn std::fmt::Display| Refused::new(RefusedCode::Policy, error.to_string());
        let config = match &self.shared.described.config {
            Some(file) => Config::read(file).map_err(|error| refused(&error))?,
            None => Config::default(),
        };
        let library = PolicyLibrary::configured(&config, name).map_err(|error| refused(&error))?;
        self.shared.engine.switch_policy(&library).map_err(|error| refused(&error))
    }

    fn restore(&self) -> Result<Switch, Refused> {
        let _one = self.loading()?;
        self.shared.engine.restore_policy().map_err(|error| {
            let code = match &error {
                RestoreError::Load(_) => RefusedCode::Policy,
                RestoreError::NoOther | RestoreError::RolledBack { .. } => RefusedCode::NothingToRestore,
            };
            Refused::new(code, error.to_string())
        })
    }

    /// One policy is loaded at a time: loading runs a library's constructors, and may take `load_ms`.
    fn loading(&self) -> Result<parking_lot::MutexGuard<'_, ()>, Refused> {
        let busy = || Refused::new(RefusedCode::Busy, "another policy is being loaded; ask again later");
        let guard = self.shared.loading.try_lock_for(LOADING_LIMIT).ok_or_else(busy)?;
        if self.shared.is_closing() {
            return Err(Refused::new(RefusedCode::Ending, "the engine has done its work and ends"));
        }
        Ok(guard)
    }

    /// Tells how a switch goes until there is enough to say.
    fn switched(&self, switch: Result<Switch, Refused>, wait_ms: u64) -> io::Result<Answer> {
        let switch = match switch {
            Ok(switch) => switch,
            Err(refused) => return Ok(Answer::Refused(refused)),
        };
        let begun = Instant::now();
        let mut gone_on: Option<Instant> = None;
        let mut told: Option<(Instant, SwitchReport)> = None;
        loop {
            let report =
                switch.wait(LOOK_EVERY, |report| has_news(report, told.as_ref().map(|(_, last)| last)));
            if gone_on.is_none() && report.during.is_some() {
                gone_on = Some(Instant::now());
            }
            let waited = gone_on.is_some_and(|at| at.elapsed() >= Duration::from_millis(wait_ms));
            let engine_ended = self.shared.is_closing();
            if report.phase.is_final() || waited || engine_ended || begun.elapsed() >= LONGEST_WAIT {
                let resident = resident_list();
                return Ok(Answer::Switched(Box::new(Switched { switch: report, engine_ended, resident })));
            }
            let stale = told
                .as_ref()
                .is_none_or(|(at, last)| has_news(&report, Some(last)) || at.elapsed() >= PROGRESS_EVERY);
            if stale {
                self.send(Answer::Progress(Box::new(report.clone())))?;
                told = Some((Instant::now(), report));
            }
        }
    }

    fn send(&self, answer: Answer) -> io::Result<()> {
        write_line(self.stream, &AnswerLine { interlock: VERSION, answer })
    }
}

/// Whether a report says something that a client should hear at once.
fn has_news(report: &SwitchReport, last: Option<&SwitchReport>) -> bool {
    last.is_none_or(|last| last.phase != report.phase || last.during.is_some() != report.during.is_some())
}
