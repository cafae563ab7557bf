//! What goes over the socket: one line of JSON each way, and lines on progress before the last one. The room's README
//! documents it.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::stream::ReadWithin;
use crate::host::ResidentLibrary;
use crate::pipeline::{DevicePolicyStats, SwitchReport};

/// Version of the wire. It grows when a request or an answer changes its meaning or goes away.
pub const VERSION: u32 = 1;

/// The longest request that is read, in bytes.
pub const MAX_REQUEST_BYTES: usize = 4 << 10;

/// The longest answer that a client reads, in bytes.
pub const MAX_ANSWER_BYTES: usize = 4 << 20;

/// A request line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestLine {
    /// [`VERSION`].
    pub interlock: u32,
    /// What is asked.
    pub ask: Request,
}

/// What can be asked of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Who it is and which policies sit on its devices.
    About,
    /// What its policies did.
    Stats,
    /// Seat this policy, by the engine's `plugins.ron` as it is now.
    #[serde(rename = "use")]
    UsePolicy(UseRequest),
    /// Seat the last good policy again.
    Restore(RestoreRequest),
}

/// See [`Request::UsePolicy`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UseRequest {
    /// Its name.
    pub policy: String,
    /// Milliseconds to wait for the end of its trial, once tasks go on under it.
    #[serde(default)]
    pub wait_ms: u64,
}

/// See [`Request::Restore`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// As in [`UseRequest::wait_ms`].
    #[serde(default)]
    pub wait_ms: u64,
}

/// An answer line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnswerLine {
    /// [`VERSION`].
    pub interlock: u32,
    /// What is answered.
    pub answer: Answer,
}

/// What an engine answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A switch is under way; another line follows within seconds.
    Progress(Box<SwitchReport>),
    /// To [`Request::About`].
    About(Box<About>),
    /// To [`Request::Stats`].
    Stats(Box<Stats>),
    /// To [`Request::UsePolicy`] and [`Request::Restore`].
    Switched(Box<Switched>),
    /// The request was not carried out; nothing was changed.
    Refused(Refused),
}

impl Answer {
    /// Whether it is the last one.
    pub fn is_last(&self) -> bool {
        !matches!(self, Self::Progress(_))
    }
}

/// Who an engine is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// What it is there for, in its own words.
    pub work: String,
    /// Seconds since it opened its socket.
    pub up_seconds: u64,
    /// Its `plugins.ron`; none when it runs on the defaults.
    pub config: Option<String>,
    /// Its devices, those of the fallback core last.
    pub devices: Vec<DeviceSeat>,
}

/// A device and who sits there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSeat {
    /// What its core calls it.
    pub name: String,
    /// The core.
    pub core: String,
    /// The policy in the seat.
    pub policy: String,
    /// Why the policy before it was quarantined, if one was.
    pub quarantine: Option<String>,
    /// Why it is lost, if it is.
    pub lost: Option<String>,
}

/// What an engine's policies did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// For each device, each policy that sat there.
    pub devices: Vec<DevicePolicyStats>,
    /// The latest switch, if there was one.
    pub last_switch: Option<SwitchReport>,
}

/// What a switch came to, as far as was waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Switched {
    /// The switch.
    pub switch: SwitchReport,
    /// The engine ended meanwhile.
    pub engine_ended: bool,
    /// Policy libraries that the engine's process holds; they are never unloaded.
    pub resident: Vec<ResidentLibrary>,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The kind of reason.
    pub code: RefusedCode,
    /// The reason, for people.
    pub message: String,
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedCode {
    /// The request is not one: no JSON, no line, too long, too slow, unknown.
    Malformed,
    /// Another version of the wire.
    Version,
    /// The client's user may not ask.
    NotAllowed,
    /// Too many clients at once, or another policy is being loaded.
    Busy,
    /// The configuration or the policy was refused.
    Policy,
    /// There is no policy to go back to.
    NothingToRestore,
    /// The engine is about to end.
    Ending,
    /// A kind that a later version knows.
    #[serde(other)]
    Other,
}

impl Refused {
    /// A reason of a kind.
    pub fn new(code: RefusedCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Why no line came.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The other side closed.
    #[error("the connection was closed before a whole line had come")]
    Closed,
    /// It took too long.
    #[error("no whole line within {} ms", .0.as_millis())]
    Slow(Duration),
    /// It is too long.
    #[error("a line of more than {0} bytes")]
    TooLong(usize),
    /// The system's word.
    #[error("the connection failed: {0}")]
    Failed(#[from] io::Error),
}

/// Lines from a stream, none longer than `most` bytes.
pub struct Lines<S> {
    stream: S,
    most: usize,
    pending: Vec<u8>,
}

impl<S: ReadWithin> Lines<S> {
    /// Reads from `stream`.
    pub fn new(stream: S, most: usize) -> Self {
        Self { stream, most, pending: Vec::new() }
    }

    /// The next line without its end, which has to be there within `limit`.
    ///
    /// # Errors
    /// [`LineError`].
    pub fn next_within(&mut self, limit: Duration) -> Result<Vec<u8>, LineError> {
        let until = Instant::now() + limit;
        let mut searched = 0;
        loop {
            if let Some(at) = self.pending[searched..].iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.pending.drain(..=searched + at).collect();
                line.pop();
                return if line.len() > self.most { Err(LineError::TooLong(self.most)) } else { Ok(line) };
            }
            searched = self.pending.len();
            if searched > self.most {
                return Err(LineError::TooLong(self.most));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LineError::Slow(limit));
            }
            let mut chunk = [0; 4096];
            match self.stream.read_within(&mut chunk, left) {
                Ok(0) => return Err(LineError::Closed),
                Ok(read) => self.pending.extend_from_slice(&chunk[..read]),
                Err(error) if is_timeout(&error) => return Err(LineError::Slow(limit)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A request as a line.
///
/// # Errors
/// What to answer instead of carrying it out.
pub fn parse_request(line: &[u8]) -> Result<Request, Refused> {
    #[derive(Deserialize)]
    struct Version {
        interlock: u32,
    }
    let malformed = |error: serde_json::Error| {
        Refused::new(RefusedCode::Malformed, format!("this is no request of the control socket: {error}"))
    };
    let Version { interlock } = serde_json::from_slice(line).map_err(malformed)?;
    if interlock != VERSION {
        let message = format!("version {interlock} was asked for, this engine speaks version {VERSION}");
        return Err(Refused::new(RefusedCode::Version, message));
    }
    Ok(serde_json::from_slice::<RequestLine>(line).map_err(malformed)?.ask)
}

/// Writes something as one line.
///
/// # Errors
/// The stream's.
pub fn write_line(mut stream: impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    stream.flush()
}

/// For tests of lines, and for anything else that is read without a clock.
impl ReadWithin for &[u8] {
    fn read_within(&mut self, into: &mut [u8], _limit: Duration) -> io::Result<usize> {
        self.read(into)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    #[test]
    fn lines_are_cut_where_they_end() {
        let mut lines = Lines::new(&b"one\n\ntwo\nthr"[..], 10);
        for expected in ["one", "", "two"] {
            assert_eq!(lines.next_within(SOON).expect("a line"), expected.as_bytes());
        }
        assert!(matches!(lines.next_within(SOON), Err(LineError::Closed)));
    }

    #[test]
    fn a_line_is_not_longer_than_it_may_be() {
        assert_eq!(Lines::new(&b"12345\n"[..], 5).next_within(SOON).expect("it is not"), b"12345");
        for long in [&b"123456\n"[..], &[b'x'; 100_000]] {
            assert!(matches!(Lines::new(long, 5).next_within(SOON), Err(LineError::TooLong(5))));
        }
    }

    #[test]
    fn requests_are_what_the_readme_shows() {
        let readme = include_str!("README.md");
        let requests: Vec<_> =
            readme.lines().filter(|line| line.starts_with("{\"interlock\":1,\"ask\"")).collect();
        assert_eq!(requests.len(), 4, "one for each kind");
        for line in requests {
            let ask = parse_request(line.as_bytes()).unwrap_or_else(|refused| panic!("{line}: {refused:?}"));
            let mut again = Vec::new();
            write_line(&mut again, &RequestLine { interlock: VERSION, ask }).expect("memory");
            assert_eq!(String::from_utf8(again).expect("text").trim_end(), line);
        }
    }

    #[test]
    fn what_is_no_request_is_told_so() {
        for (line, code) in [
            ("", RefusedCode::Malformed),
            ("{}", RefusedCode::Malformed),
            ("{\"interlock\":1}", RefusedCode::Malformed),
            ("{\"interlock\":1,\"ask\":\"reboot\"}", RefusedCode::Malformed),
            ("{\"interlock\":1,\"ask\":\"about\",\"and\":1}", RefusedCode::Malformed),
            ("{\"interlock\":1,\"ask\":{\"use\":{\"policy\":\"a\",\"wait_ms\":-1}}}", RefusedCode::Malformed),
            ("{\"interlock\":2,\"ask\":\"about\"}", RefusedCode::Version),
            ("{\"interlock\":2,\"ask\":\"something new\"}", RefusedCode::Version),
        ] {
            assert_eq!(parse_request(line.as_bytes()).expect_err(line).code, code, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut lines = Lines::new(&bytes[..], 100);
            while let Ok(line) = lines.next_within(SOON) {
                let _ = parse_request(&line);
            }
        }
    }
}
