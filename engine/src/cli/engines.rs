//! `interlock engines`, and how the other commands find theirs.

use std::path::{Path, PathBuf};

use super::{CliError, Exit, print};
use crate::control::client::{ClientError, Found, engines};
use crate::control::wire::{About, Answer, Refused, RefusedCode, Request};
use crate::control::{ControlError, client, socket_of};
use crate::host::{ControlSocket, find_config};

/// Which engine is meant.
#[derive(Debug, Default, clap::Args)]
pub struct WhichEngine {
    /// The process of the engine; not needed where only one is running
    #[arg(long, value_name = "PID", conflicts_with = "socket")]
    engine: Option<u32>,
    /// The control socket of the engine, where it is not in the usual folder
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl WhichEngine {
    fn find(&self, explicit_config: Option<&Path>) -> Result<PathBuf, CliError> {
        match (&self.socket, self.engine) {
            (Some(socket), _) => Ok(socket.clone()),
            (None, Some(pid)) => Ok(socket_of(pid)),
            (None, None) => match configured(explicit_config) {
                Some(socket) => Ok(socket),
                None => only(engines()?),
            },
        }
    }

    /// Asks the engine: the one that is named, else the one at the configuration's own socket, else the only one there is.
    ///
    /// # Errors
    /// There is none, or more than one; it cannot be reached; or it refuses.
    pub fn ask(
        &self,
        explicit_config: Option<&Path>,
        request: &Request,
        progress: impl FnMut(&Answer),
    ) -> Result<Answer, CliError> {
        match client::ask(&self.find(explicit_config)?, request, progress)? {
            Answer::Refused(refused) => Err(refused.into()),
            answer => Ok(answer),
        }
    }
}

/// The socket that the configuration names, when an engine is there. A configuration that cannot be read is none of the business of who
/// looks for an engine.
fn configured(explicit_config: Option<&Path>) -> Option<PathBuf> {
    match find_config(explicit_config).ok()?.control {
        ControlSocket::At(socket) if socket.exists() => Some(socket),
        _ => None,
    }
}

fn only((found, silent): (Vec<Found>, Vec<ClientError>)) -> Result<PathBuf, CliError> {
    match found.as_slice() {
        [one] => Ok(one.socket.clone()),
        [] => match silent.into_iter().next() {
            Some(error) => Err(error.into()),
            None => Err(CliError::new(Exit::Engine, "no engine of this user is running with its control socket in the usual folder").with_help(
                "`interlock prove` is one while it runs. One with its control socket elsewhere is named by --socket PATH.",
            )),
        },
        several => {
            let list: Vec<_> = several.iter().map(|found| line(&found.about)).collect();
            let message = format!("{} engines are running:\n{}", several.len(), list.join("\n"));
            Err(CliError::new(Exit::Usage, message).with_help("--engine PID says which one is meant."))
        }
    }
}

fn line(about: &About) -> String {
    let mut policies: Vec<_> = about.devices.iter().map(|device| device.policy.as_str()).collect();
    policies.dedup();
    format!("  {}  {}  policy {}, up {} s", about.pid, about.work, policies.join(" and "), about.up_seconds)
}

/// `interlock engines`.
pub fn run(json: bool) -> Result<Exit, CliError> {
    let (found, silent) = engines()?;
    for error in &silent {
        eprintln!("warning: {error}");
    }
    if json {
        print::json(&found.iter().map(|found| &found.about).collect::<Vec<_>>())?;
    } else if found.is_empty() {
        print::text("no engine of this user is running with its control socket in the usual folder\n")?;
    } else {
        found.iter().try_for_each(|found| print::line(line(&found.about)))?;
    }
    Ok(Exit::Done)
}

impl From<ControlError> for CliError {
    fn from(error: ControlError) -> Self {
        Self::new(Exit::Engine, error)
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        Self::new(Exit::Engine, error).with_help("`interlock engines` shows the engines that answer.")
    }
}

impl From<Refused> for CliError {
    fn from(Refused { code, message }: Refused) -> Self {
        match code {
            RefusedCode::Policy => Self::new(Exit::Config, message).with_help(
                "Nothing was changed. `interlock policy list` shows what is wrong with each policy.",
            ),
            RefusedCode::NothingToRestore => Self::new(Exit::Config, message),
            _ => Self::new(Exit::Engine, message),
        }
    }
}
