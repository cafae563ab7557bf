//! The other end of the socket: finds an engine, asks it, reads what it answers.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ControlError;
use super::stream::{connect, peer};
use super::wire::{
    About, Answer, AnswerLine, LineError, Lines, MAX_ANSWER_BYTES, Request, RequestLine, VERSION, write_line,
};

/// How long an engine may take to take a client in, and its request.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long an engine may say nothing: it may have to load a policy on several devices.
const SILENCE_LIMIT: Duration = Duration::from_secs(120);
/// How long an engine may take to say who it is.
const ABOUT_LIMIT: Duration = Duration::from_secs(5);

/// Why an engine could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("{}: no engine listens there: {error}", .socket.display())]
    Unreachable {
        /// The socket.
        socket: PathBuf,
        /// The system's word.
        error: io::Error,
    },
    /// Somebody else listens there.
    #[error("{}: user {uid} listens there, who is neither you nor root", .socket.display())]
    Stranger {
        /// The socket.
        socket: PathBuf,
        /// Who.
        uid: u32,
    },
    /// It did not answer in time, or closed the connection.
    #[error("{}: the engine did not answer: {error}", .socket.display())]
    NoAnswer {
        /// The socket.
        socket: PathBuf,
        /// How.
        error: LineError,
    },
    /// It answered something else.
    #[error("{}: the engine's answer is not understood: {error}", .socket.display())]
    Garbled {
        /// The socket.
        socket: PathBuf,
        /// Why.
        error: serde_json::Error,
    },
}

/// An engine that said who it is.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its socket.
    pub socket: PathBuf,
    /// What it said.
    pub about: About,
}

/// The engines of this user that answer, by process. Sockets of engines that are gone are passed over; of those that do not
/// answer, the reason is the second value.
///
/// # Errors
/// The folder of the sockets is not to be trusted.
pub fn engines() -> Result<(Vec<Found>, Vec<ClientError>), ControlError> {
    let (mut found, mut silent) = (Vec::new(), Vec::new());
    for socket in super::sockets()? {
        match about(&socket) {
            Ok(about) => found.push(Found { socket, about }),
            Err(ClientError::Unreachable { .. }) => {}
            Err(error) => silent.push(error),
        }
    }
    Ok((found, silent))
}

fn about(socket: &Path) -> Result<About, ClientError> {
    let answer = Connection::open(socket)?.ask(&Request::About, ABOUT_LIMIT, |_| {})?;
    match answer {
        Answer::About(about) => Ok(*about),
        other => {
            let error = serde::de::Error::custom(format!("{other:?}"));
            Err(ClientError::Garbled { socket: socket.to_owned(), error })
        }
    }
}

/// Asks an engine; `progress` hears the lines that come before the answer.
///
/// # Errors
/// [`ClientError`]. That the engine refuses is an answer.
pub fn ask(socket: &Path, request: &Request, progress: impl FnMut(&Answer)) -> Result<Answer, ClientError> {
    Connection::open(socket)?.ask(request, SILENCE_LIMIT, progress)
}

struct Connection<'a> {
    socket: &'a Path,
    stream: UnixStream,
}

impl<'a> Connection<'a> {
    fn open(socket: &'a Path) -> Result<Self, ClientError> {
        let failed = |error| ClientError::Unreachable { socket: socket.to_owned(), error };
        let stream = connect(socket, CONNECT_LIMIT).map_err(failed)?;
        let peer = peer(&stream).map_err(failed)?;
        // Root may talk to anybody's engine: its answers are data.
        if !peer.is_trusted() && super::stream::own_uid() != 0 {
            return Err(ClientError::Stranger { socket: socket.to_owned(), uid: peer.uid });
        }
        stream.set_write_timeout(Some(CONNECT_LIMIT)).map_err(failed)?;
        Ok(Self { socket, stream })
    }

    fn ask(
        self,
        request: &Request,
        silence: Duration,
        mut progress: impl FnMut(&Answer),
    ) -> Result<Answer, ClientError> {
        let no_answer = |error| ClientError::NoAnswer { socket: self.socket.to_owned(), error };
        // An engine that is busy answers without reading, and closes: what it said counts.
        let sent = write_line(&self.stream, &RequestLine { interlock: VERSION, ask: request.clone() });
        let mut lines = Lines::new(self.stream, MAX_ANSWER_BYTES);
        loop {
            let line = lines.next_within(silence).map_err(|error| match (&sent, error) {
                (Err(unsent), LineError::Closed | LineError::Failed(_)) => {
                    no_answer(LineError::Failed(unsent.kind().into()))
                }
                (_, error) => no_answer(error),
            })?;
            let AnswerLine { answer, .. } = serde_json::from_slice(&line)
                .map_err(|error| ClientError::Garbled { socket: self.socket.to_owned(), error })?;
            if answer.is_last() {
                return Ok(answer);
            }
            progress(&answer);
        }
    }
}
