//! The process of a policy: started, watched, killed and reaped by its own descriptor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use parking_lot::Mutex;
use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, pidfd_send_signal, waitid,
};

use super::Program;
use crate::interlock::PolicyEnd;

/// The word that makes a program host a policy, as its first argument.
pub(super) const SUBCOMMAND: &str = "policy-host";

/// A running policy process. Dropping it kills and reaps it.
pub(super) struct PolicyProcess {
    pidfd: OwnedFd,
    id: u32,
    end: Option<PolicyEnd>,
}

/// What a policy process has as its first three descriptors.
pub(super) struct Handed {
    pub channel: File,
    pub library: File,
    pub brief: File,
}

impl PolicyProcess {
    /// Starts `program` as the host of a policy named `name`.
    ///
    /// The descriptors travel as the standard ones, so that nothing has to be made inheritable in this process, where other
    /// threads may be starting programs too, and no code has to run between fork and exec.
    pub fn start(program: &Program, name: &str, handed: Handed) -> io::Result<Self> {
        let mut command = Command::new(program.path());
        command
            .arg0("interlock")
            .args([SUBCOMMAND, name])
            .env_clear()
            .current_dir("/")
            // A Ctrl-C at the terminal is for the engine, which finishes what runs and needs its policy for that.
            .process_group(0)
            .stdin(Stdio::from(handed.channel))
            .stdout(Stdio::from(handed.library))
            .stderr(Stdio::from(handed.brief));
        let child = spawn(command)?;
        let id = child.id();
        match pidfd_of(&child) {
            Ok(pidfd) => Ok(Self { pidfd, id, end: None }),
            Err(error) => {
                let mut child = child;
                child.kill()?;
                child.wait()?;
                Err(error)
            }
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// How it ended, if that is known already.
    pub fn known_end(&self) -> Option<PolicyEnd> {
        self.end
    }

    /// How it ended, if it has. Reaps it.
    pub fn ended(&mut self) -> Option<PolicyEnd> {
        if self.end.is_none() {
            self.end = self.reap(WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
        self.end
    }

    /// Kills and reaps it, for the reason `why`. Returns how it ended: that may have been by itself just before.
    pub fn kill(&mut self, why: PolicyEnd) -> PolicyEnd {
        if let Some(end) = self.ended() {
            return end;
        }
        // It can only be gone already, and then waiting for it says so too.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        let killed = PolicyEnd::Signal { signal: Signal::KILL.as_raw() };
        let end = match self.reap(WaitIdOptions::EXITED) {
            Some(end) if end != killed => end,
            _ => why,
        };
        self.end = Some(end);
        end
    }

    fn reap(&self, options: WaitIdOptions) -> Option<PolicyEnd> {
        match retry_on_intr(|| waitid(WaitId::PidFd(self.pidfd.as_fd()), options)) {
            Ok(None) => None,
            Ok(Some(status)) => Some(end_of(&status)),
            // Somebody else has reaped it, or this process has children reaped by themselves.
            Err(_) => Some(PolicyEnd::Lost),
        }
    }
}

impl Drop for PolicyProcess {
    fn drop(&mut self) {
        self.kill(PolicyEnd::Lost);
    }
}

fn end_of(status: &WaitIdStatus) -> PolicyEnd {
    if let Some(code) = status.exit_status() {
        PolicyEnd::Exited { code }
    } else if let Some(signal) = status.terminating_signal() {
        PolicyEnd::Signal { signal }
    } else {
        PolicyEnd::Lost
    }
}

fn pidfd_of(child: &Child) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(child.id() as i32).ok_or_else(|| io::Error::other("a process without an id"))?;
    // The child is not reaped before this value's owner does it: the id is its own.
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

struct Order {
    command: Command,
    answer: mpsc::Sender<io::Result<Child>>,
}

static SPAWNER: Mutex<Option<mpsc::Sender<Order>>> = Mutex::new(None);

/// Starts a program from a thread that lives as long as this process: a policy process asks to be killed when the
/// thread that started it ends (`PR_SET_PDEATHSIG` goes by threads).
fn spawn(command: Command) -> io::Result<Child> {
    let (answer, answered) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts policy processes is gone");
    {
        let mut spawner = SPAWNER.lock();
        if spawner.is_none() {
            let (orders, incoming) = mpsc::channel::<Order>();
            thread::Builder::new().name("policy-spawner".to_owned()).spawn(move || {
                for Order { mut command, answer } in incoming {
                    // Whoever asked waits for it.
                    let _ = answer.send(command.spawn());
                }
            })?;
            *spawner = Some(orders);
        }
        let orders = spawner.as_ref().ok_or_else(gone)?;
        orders.send(Order { command, answer }).map_err(|_| gone())?;
    }
    answered.recv().map_err(|_| gone())?
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[expect(clippy::zombie_processes, reason = "what is returned waits for it")]
    fn started(script: &str) -> PolicyProcess {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let child = spawn(command).expect("there is a shell");
        PolicyProcess { pidfd: pidfd_of(&child).expect("it runs"), id: child.id(), end: None }
    }

    fn end_by_itself(mut process: PolicyProcess) -> PolicyEnd {
        loop {
            if let Some(end) = process.ended() {
                assert_eq!(process.kill(PolicyEnd::Rubbish), end, "the first end stays");
                return end;
            }
            thread::yield_now();
        }
    }

    #[test]
    fn how_a_process_ended_is_known() {
        assert_eq!(end_by_itself(started("exit 7")), PolicyEnd::Exited { code: 7 });
        assert_eq!(end_by_itself(started("kill -SEGV $$")), PolicyEnd::Signal { signal: 11 });
    }

    #[test]
    fn one_that_is_killed_ends_for_the_given_reason_and_is_reaped() {
        let mut process = started("while :; do :; done");
        assert_eq!(process.ended(), None);
        assert_eq!(process.kill(PolicyEnd::Rubbish), PolicyEnd::Rubbish);
        assert!(fs::metadata(format!("/proc/{}", process.id())).is_err(), "not even a zombie is left");
        let process = started("while :; do :; done");
        let id = process.id();
        drop(process);
        assert!(fs::metadata(format!("/proc/{id}")).is_err());
    }
}
