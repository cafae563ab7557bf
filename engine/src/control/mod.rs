//! The control socket: talking to an engine that runs.
//!
//! Each engine opens a Unix-domain socket for its user. A request is a line of JSON, and so is the answer. This folder's
//! README has the wire, the states of a switch, and what a client cannot do; `SECURITY.md` says who may talk.
//!
//! | module | what it does |
//! |---|---|
//! | `place` | where sockets are: folders, modes, stale files |
//! | `stream` | sockets with limits, and who is at the other end |
//! | [`wire`] | requests, answers, lines |
//! | `server` | takes clients in, few at a time |
//! | `session` | one client: a request carried out |
//! | [`client`] | the other end, for `interlock policy use` and the like |

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

pub mod client;
mod place;
mod server;
mod session;
mod stream;
pub mod wire;

pub use place::{default_folder, socket_of, sockets};
pub use server::{Described, Server};

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The folder cannot be used.
    #[error("{}: the folder of the control socket cannot be used: {error}", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The system's word.
        error: io::Error,
    },
    /// Somebody else could put something in the socket's place.
    #[error("{}: the folder of the control socket {reason}", .folder.display())]
    Distrusted {
        /// The folder.
        folder: PathBuf,
        /// Why.
        reason: Cow<'static, str>,
    },
    /// Something else stands where the socket should be, or another engine listens there.
    #[error("{}: another engine listens there, or it is no socket", .path.display())]
    Taken {
        /// Where.
        path: PathBuf,
    },
    /// The socket cannot be opened.
    #[error("{}: the control socket cannot be opened: {error}", .path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// The system's word.
        error: io::Error,
    },
    /// No thread could be made.
    #[error("no thread for the control socket: {0}")]
    Thread(io::Error),
}
