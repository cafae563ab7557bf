//! Takes clients in: a thread waits for them, and each of a few at a time has a thread of its own.

use std::collections::HashMap;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::place::Bound;
use super::wire::{Answer, AnswerLine, Refused, RefusedCode, VERSION, write_line};
use super::{ControlError, session};
use crate::host::ControlSocket;
use crate::pipeline::{DevicePolicyStats, Engine};

/// Clients that are served at once. Others are told to come again.
const MOST_CLIENTS: usize = 16;
/// The least time between two clients: however many come, they cost little of a processor.
const PAUSE: Duration = Duration::from_millis(2);
/// How long clients have, at the end, to be told so.
const GRACE: Duration = Duration::from_millis(500);
/// How long what was counted is good for: asking a policy for its counters holds up its device, so clients cannot have
/// that done as often as they like.
const STATS_EVERY: Duration = Duration::from_millis(100);

/// What an engine says about itself.
#[derive(Clone, Debug)]
pub struct Described {
    /// What it is there for, in a few words.
    pub work: String,
    /// Its `plugins.ron`, which is read again when a policy is to be seated; none when it runs on the defaults.
    pub config: Option<PathBuf>,
}

/// An open control socket. Dropping it tells clients that the engine ends, and removes the socket.
pub struct Server {
    bound: Bound,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the threads of a server share.
pub(super) struct Shared {
    pub engine: Arc<Engine>,
    pub described: Described,
    pub opened: Instant,
    /// Held while a policy is loaded.
    pub loading: Mutex<()>,
    stats: Mutex<Option<(Instant, Vec<DevicePolicyStats>)>>,
    closing: AtomicBool,
    clients: Mutex<HashMap<u64, UnixStream>>,
    client_left: Condvar,
}

impl Server {
    /// Opens the socket of an engine; `None` when the setting says that there is to be none.
    ///
    /// # Errors
    /// [`ControlError`]: the engine can go on without.
    pub fn open(
        socket: &ControlSocket,
        engine: Arc<Engine>,
        described: Described,
    ) -> Result<Option<Self>, ControlError> {
        let bound = match socket {
            ControlSocket::Off => return Ok(None),
            ControlSocket::Default => Bound::in_default_folder()?,
            ControlSocket::At(path) => Bound::at(path)?,
        };
        let shared = Arc::new(Shared {
            engine,
            described,
            opened: Instant::now(),
            loading: Mutex::new(()),
            stats: Mutex::new(None),
            closing: AtomicBool::new(false),
            clients: Mutex::new(HashMap::new()),
            client_left: Condvar::new(),
        });
        let listener = bound.listener.try_clone().map_err(ControlError::Thread)?;
        let accepting = shared.clone();
        let thread = std::thread::Builder::new()
            .name("control".into())
            .spawn(move || accept(&listener, &accepting))
            .map_err(ControlError::Thread)?;
        tracing::info!(socket = %bound.path().display(), "control socket open");
        Ok(Some(Self { bound, shared, thread: Some(thread) }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.bound.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.closing.store(true, Ordering::SeqCst);
        // Ends the wait for clients.
        if let Err(error) = rustix::net::shutdown(&self.bound.listener, rustix::net::Shutdown::Both) {
            tracing::warn!(%error, "the control socket could not be shut down");
            return;
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the control thread panicked");
        }
        // Whoever reads a request comes to its end, whoever waits for a switch sees `closing`.
        shared.hang_up(Shutdown::Read);
        shared.wait_for_clients();
        // Whoever writes to a client that does not read comes to an end.
        shared.hang_up(Shutdown::Both);
        shared.wait_for_clients();
    }
}

impl Shared {
    /// Whether the engine is about to end.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// What each policy did, not older than a moment.
    pub fn stats(&self) -> Vec<DevicePolicyStats> {
        let mut kept = self.stats.lock();
        if let Some((at, stats)) = &*kept
            && at.elapsed() < STATS_EVERY
        {
            return stats.clone();
        }
        let stats = self.engine.policy_stats();
        *kept = Some((Instant::now(), stats.clone()));
        stats
    }

    fn hang_up(&self, how: Shutdown) {
        for stream in self.clients.lock().values() {
            // It may be gone already.
            let _ = stream.shutdown(how);
        }
    }

    fn wait_for_clients(&self) {
        let until = Instant::now() + GRACE;
        let mut clients = self.clients.lock();
        while !clients.is_empty() {
            if self.client_left.wait_until(&mut clients, until).timed_out() {
                return;
            }
        }
    }
}

fn accept(listener: &std::os::unix::net::UnixListener, shared: &Arc<Shared>) {
    let mut number = 0;
    loop {
        let accepted = listener.accept();
        if shared.is_closing() {
            return;
        }
        match accepted {
            Ok((stream, _)) => {
                number += 1;
                take_in(shared, number, stream);
            }
            // Such as no more descriptors: it may be better later.
            Err(error) => {
                tracing::warn!(%error, "a client of the control socket could not be taken in");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        std::thread::sleep(PAUSE);
    }
}

fn take_in(shared: &Arc<Shared>, number: u64, stream: UnixStream) {
    let Ok(kept) = stream.try_clone() else { return };
    {
        let mut clients = shared.clients.lock();
        if clients.len() >= MOST_CLIENTS {
            drop(clients);
            let refused = Refused::new(RefusedCode::Busy, "too many clients at once; ask again");
            // A line fits into a socket that nothing was written to.
            let _ = stream.set_nonblocking(true);
            let _ = write_line(&stream, &AnswerLine { interlock: VERSION, answer: Answer::Refused(refused) });
            return;
        }
        clients.insert(number, kept);
    }
    let leaving = Leaving { shared: shared.clone(), number };
    // When no thread can be had the client is dropped, with its place.
    let spawned = std::thread::Builder::new().name(format!("control-{number}")).spawn(move || {
        session::serve(&leaving.shared, &stream);
        drop(leaving);
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "no thread for a client of the control socket");
    }
}

/// Gives a client's place back, however its session ends.
struct Leaving {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let kept = self.shared.clients.lock().remove(&self.number);
        drop(kept);
        self.shared.client_left.notify_all();
    }
}
