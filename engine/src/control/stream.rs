//! Sockets with limits: to connect, to read and to write, and who is at the other end.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_socket, socket_with, sockopt,
};

/// How often a full line of waiting clients is tried again.
const TRY_EVERY: Duration = Duration::from_millis(10);
/// The shortest time that a socket can be told to wait.
const SHORTEST: Duration = Duration::from_millis(1);

/// Reads with a limit of time.
pub trait ReadWithin {
    /// Reads some bytes, waiting `limit` at most.
    ///
    /// # Errors
    /// As `read`; `WouldBlock` or `TimedOut` when the time is over.
    fn read_within(&mut self, into: &mut [u8], limit: Duration) -> io::Result<usize>;
}

impl ReadWithin for UnixStream {
    fn read_within(&mut self, into: &mut [u8], limit: Duration) -> io::Result<usize> {
        self.set_read_timeout(Some(limit.max(SHORTEST)))?;
        self.read(into)
    }
}

/// Connects, waiting `limit` at most where many others wait.
///
/// # Errors
/// As `connect`; `ConnectionRefused` when nobody listens there any more.
pub fn connect(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let until = Instant::now() + limit;
    loop {
        match connect_socket(&socket, &address) {
            Ok(()) => break,
            // The listener's line is full.
            Err(error) if error == rustix::io::Errno::AGAIN && Instant::now() < until => {
                std::thread::sleep(TRY_EVERY);
            }
            Err(error) => return Err(error.into()),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The process and user at the other end, as the kernel knows them: of a client when it connected, of a server when it
/// began to listen.
///
/// # Errors
/// The system's.
pub fn peer(stream: &UnixStream) -> io::Result<Peer> {
    let credentials = sockopt::socket_peercred(stream)?;
    Ok(Peer { pid: credentials.pid.as_raw_pid(), uid: credentials.uid.as_raw() })
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
}

impl Peer {
    /// Whether it belongs to this process's user, or to root.
    pub fn is_trusted(self) -> bool {
        self.uid == 0 || self.uid == own_uid()
    }
}

/// The user of this process.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
