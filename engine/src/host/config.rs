//! `plugins.ron`: which policies there are, which one is used, and how the engine runs.
//!
//! ```ron
//! (
//!     policy: "two-lock",
//!     policies: [
//!         (name: "two-lock", options: (wait_ms: 500)),
//!         (name: "mine", library: "/opt/policies/libmine.so", sha256: "9f86d08188…"),
//!     ],
//!     core: Cpu(memory: "4GiB"),
//!     workers_per_device: 2,
//! )
//! ```
//!
//! Every key may be left out but the names. Unknown keys are errors. Errors say file, line and column.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ron::extensions::Extensions;
use ron::value::RawValue;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};

use super::core_config::CoreConfig;
use super::trust::TrustConfig;
use super::walk::{Way, Writers};
use super::writers::{self, Trusted};
use super::{ByteSize, FileError, Isolation, OptionsText, Position, Sha256};

/// The policy that needs no library: linked into the engine.
pub const FALLBACK: &str = "serialized-fallback";

/// The largest `plugins.ron` that is read, in bytes.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// The verdicts for which a new policy is on trial, unless it is said otherwise.
///
/// A task takes at least four, at its gates, and more where it has to wait. So a thousand are a hundred tasks or
/// more: each kind of gate was passed often, with devices empty and full. It is seconds of work for small circuits and
/// minutes for the largest; the trial costs nothing but an idle instance of the policy before.
pub const TRIAL_DECISIONS: u64 = 1_000;

/// The most workers of one kind, and the most threads of a core.
pub const MAX_WORKERS: usize = 1_024;

const NS_PER_MS: u64 = 1_000_000;

/// Everything `plugins.ron` says, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file it came from; `None` for the built-in defaults.
    pub file: Option<PathBuf>,
    /// Name of the policy in use unless another one is asked for.
    pub policy: String,
    /// The policies that have a library, in the order of the file.
    pub policies: Vec<PolicyConfig>,
    /// The proving core.
    pub core: CoreConfig,
    /// Tasks that may be between their gates at once on one device.
    pub workers_per_device: usize,
    /// Threads that make witnesses.
    pub synthesis_workers: usize,
    /// Whether each proof is verified before it is returned.
    pub verify_proofs: bool,
    /// When a policy is taken out of its seat.
    pub limits: Limits,
    /// The folder for dumps as written, where it is not the usual one.
    pub dumps: Option<PathBuf>,
    /// The program that policies with [`Isolation::Process`] run in, where it is not this one.
    pub policy_host: Option<PathBuf>,
    /// Which libraries are believed.
    pub trust: TrustConfig,
    /// Where a running engine can be talked to.
    pub control: ControlSocket,
    /// Verdicts for which a policy is on trial after a switch; 0 for no trials.
    pub trial_decisions: u64,
}

/// Where a running engine can be talked to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ControlSocket {
    /// In the folder of the user's engines, by the number of the process.
    #[default]
    Default,
    /// At this path.
    At(PathBuf),
    /// Nowhere.
    Off,
}

/// A policy with a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyConfig {
    /// Its name; the library's manifest must say the same.
    pub name: String,
    /// The library as written: a path, or a bare file name to be looked for.
    pub library: PathBuf,
    /// What the library's SHA-256 has to be, where that is pinned.
    pub sha256: Option<Sha256>,
    /// Where the library's signature is, if it is not beside it.
    pub signature: Option<PathBuf>,
    /// Its options.
    pub options: OptionsText,
    /// Where it runs.
    pub isolation: Isolation,
    /// Where the entry's name stands in the file.
    pub position: Position,
}

/// When a policy is taken out of its seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Refused verdicts in a row about one task.
    #[serde(deserialize_with = "positive")]
    pub refusals: u32,
    /// Milliseconds for which the device may stand idle while tasks wait to be let in, or for which a task may wait that could be
    /// let in with nothing before it.
    #[serde(deserialize_with = "positive")]
    pub stall_ms: u64,
    /// Milliseconds after which a task that waits at one gate may not be passed by later ones any more.
    #[serde(deserialize_with = "positive")]
    pub starve_ms: u64,
    /// Milliseconds for one answer. A policy with a process of its own is ended at once when it takes longer, what it was told
    /// before included; one in this process when it did so `slow` times.
    #[serde(deserialize_with = "positive")]
    pub decision_ms: u64,
    /// Answers of a policy in this process that took longer than `decision_ms`.
    #[serde(deserialize_with = "positive")]
    pub slow: u32,
    /// For a policy with a process of its own: milliseconds to load its library and make an instance.
    #[serde(deserialize_with = "positive")]
    pub load_ms: u64,
    /// For a policy with a process of its own: memory that it may take.
    #[serde(deserialize_with = "some_memory")]
    pub policy_memory: ByteSize,
}

impl Default for Limits {
    fn default() -> Self {
        let arbiter = crate::interlock::Limits::DEFAULT;
        Self {
            refusals: arbiter.refusals,
            stall_ms: arbiter.stall_ns / NS_PER_MS,
            starve_ms: arbiter.starve_ns / NS_PER_MS,
            decision_ms: arbiter.decision_ns / NS_PER_MS,
            slow: arbiter.slow,
            load_ms: 10_000,
            policy_memory: ByteSize(256 << 20),
        }
    }
}

impl From<Limits> for crate::interlock::Limits {
    fn from(limits: Limits) -> Self {
        let Limits { refusals, stall_ms, starve_ms, decision_ms, slow, .. } = limits;
        Self {
            refusals,
            stall_ns: stall_ms.saturating_mul(NS_PER_MS),
            starve_ns: starve_ms.saturating_mul(NS_PER_MS),
            decision_ns: decision_ms.saturating_mul(NS_PER_MS),
            slow,
        }
    }
}

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", place(.file, *.position))]
pub struct ConfigError {
    /// The configuration file.
    pub file: PathBuf,
    /// Where in it, when it is about its text.
    pub position: Option<Position>,
    /// What is wrong.
    pub fault: ConfigFault,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFault {
    /// The file could not be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// Nobody named it, and others than the user could have put it there.
    #[error("{0}{advice}", advice = config_advice(.0))]
    Untrusted(FileError),
    /// The file is too long to be a configuration.
    #[error("longer than {MAX_CONFIG_BYTES} bytes, which is the most that is read")]
    TooLong,
    /// The file is not UTF-8.
    #[error("not UTF-8 text")]
    NotText,
    /// The text is not what the configuration looks like: syntax, unknown keys, wrong types, values out of range.
    #[error("{0}")]
    Syntax(String),
    /// A policy's name has characters that names do not have.
    #[error("\"{name}\" is no policy name; use lower-case letters, digits and '-', at most 64")]
    BadName {
        /// The name.
        name: String,
    },
    /// Two policies have one name.
    #[error("policy \"{name}\" is already configured at {first}; give each its own name")]
    DuplicatePolicy {
        /// The name.
        name: String,
        /// Where the first one is.
        first: Position,
    },
    /// `policy` names one that is not there.
    #[error("policy \"{name}\" is not configured; there are {}", .known.join(", "))]
    UnknownPolicy {
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
}

/// What else can be done about a configuration that others may write. What is said about owners has it already.
fn config_advice(error: &FileError) -> &'static str {
    match error {
        FileError::ForeignOwner { .. } | FileError::ForeignStep { .. } => "",
        _ => "; or, if you trust who may write it, name the file by --config",
    }
}

fn place(file: &Path, position: Option<Position>) -> String {
    match position {
        Some(position) => format!("{}:{position}", file.display()),
        None => file.display().to_string(),
    }
}

impl Default for Config {
    /// What holds with no `plugins.ron`: the linked `serialized-fallback` on the CPU core.
    fn default() -> Self {
        Self {
            file: None,
            policy: FALLBACK.to_owned(),
            policies: Vec::new(),
            core: CoreConfig::default(),
            workers_per_device: 2,
            synthesis_workers: 1,
            verify_proofs: true,
            limits: Limits::default(),
            dumps: None,
            policy_host: None,
            trust: TrustConfig::default(),
            control: ControlSocket::default(),
            trial_decisions: TRIAL_DECISIONS,
        }
    }
}

impl Config {
    /// Reads and checks a configuration file that somebody named, and so vouches for: where others may write it, the log warns.
    ///
    /// # Errors
    /// A [`ConfigError`] with the place in the file.
    pub fn read(file: &Path) -> Result<Config, ConfigError> {
        let (opened, writers) = ConfigFile::open(file);
        let config = Self::read_opened(file, opened)?;
        match writers.and_then(|writers| writers.check(&config.trust.owners)) {
            // Who starts a program with a pipe knows what writes into it.
            Ok(()) | Err(FileError::NotRegular) => (),
            Err(error) => tracing::warn!("{}: {error}", file.display()),
        }
        Ok(config)
    }

    /// Reads and checks a configuration file that nobody named: only who may run programs as this user may have put it there.
    ///
    /// # Errors
    /// As [`Config::read`], and [`ConfigFault::Untrusted`].
    pub(super) fn read_found(file: &Path) -> Result<Config, ConfigError> {
        let (opened, writers) = ConfigFile::open(file);
        writers.and_then(|writers| writers.check(&[])).map_err(|fault| ConfigError {
            file: file.to_owned(),
            position: None,
            fault: match fault {
                FileError::Unreadable(error) => ConfigFault::Unreadable(error),
                fault => ConfigFault::Untrusted(fault),
            },
        })?;
        Self::read_opened(file, opened)
    }

    fn read_opened(file: &Path, opened: io::Result<File>) -> Result<Config, ConfigError> {
        let failed = |fault| ConfigError { file: file.to_owned(), position: None, fault };
        let mut bytes = Vec::new();
        opened
            .map_err(|error| failed(error.into()))?
            .take(MAX_CONFIG_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| failed(ConfigFault::Unreadable(error)))?;
        if bytes.len() as u64 > MAX_CONFIG_BYTES {
            return Err(failed(ConfigFault::TooLong));
        }
        let text = String::from_utf8(bytes).map_err(|_| failed(ConfigFault::NotText))?;
        Config::parse(&text, file)
    }

    /// Checks a configuration that has been read; `file` is its name in errors, and what
    /// relative library paths start from.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn parse(text: &str, file: &Path) -> Result<Config, ConfigError> {
        let source = Source { text, file };
        let raw: RawConfig<'_> =
            ron_options().from_str(text).map_err(|error| source.syntax(error, Position::START))?;
        let policies = source.policies(&raw.policies)?;
        let config = Config {
            file: Some(file.to_owned()),
            policy: match raw.policy {
                Some(raw) => source.value(raw)?.0,
                None => policies.first().map_or(FALLBACK.to_owned(), |policy| policy.name.clone()),
            },
            policies,
            core: raw.core,
            workers_per_device: raw.workers_per_device,
            synthesis_workers: raw.synthesis_workers,
            verify_proofs: raw.verify_proofs,
            limits: raw.limits,
            dumps: raw.dumps,
            policy_host: raw.policy_host,
            trust: raw.trust,
            control: match raw.control {
                ControlSocket::At(path) => {
                    ControlSocket::At(file.parent().unwrap_or(Path::new("")).join(path))
                }
                other => other,
            },
            trial_decisions: raw.trial_decisions,
        };
        if config.has(&config.policy) {
            return Ok(config);
        }
        let position = raw.policy.map(|raw| Position::of_part(text, raw.get_ron()));
        let fault = ConfigFault::UnknownPolicy { known: config.names(), name: config.policy };
        Err(ConfigError { file: file.to_owned(), position, fault })
    }

    /// The folder for dumps, when it is not the usual one. A relative path starts from the configuration's folder.
    pub fn dumps_folder(&self) -> Option<PathBuf> {
        let folder = self.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        let dumps = folder.join(self.dumps.as_ref()?);
        Some(std::path::absolute(&dumps).unwrap_or(dumps))
    }

    /// The entry of a policy, if it has one.
    pub fn policy(&self, name: &str) -> Option<&PolicyConfig> {
        self.policies.iter().find(|policy| policy.name == name)
    }

    /// Whether a policy of this name can be had.
    pub fn has(&self, name: &str) -> bool {
        name == FALLBACK || self.policy(name).is_some()
    }

    /// The names of all policies that can be had.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.policies.iter().map(|policy| policy.name.clone()).collect();
        if self.policy(FALLBACK).is_none() {
            names.push(FALLBACK.to_owned());
        }
        names
    }
}

/// How `plugins.ron` is read: `sha256: "…"` without `Some(…)` around it, `Cuda(devices: […])` without a second
/// pair of parentheses.
pub(super) fn ron_options() -> ron::Options {
    ron::Options::default()
        .with_default_extension(Extensions::IMPLICIT_SOME | Extensions::UNWRAP_VARIANT_NEWTYPES)
}

/// The file as serde sees it. Names and options stay raw, so that their places are known.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default, rename = "Config")]
struct RawConfig<'a> {
    #[serde(borrow)]
    policy: Option<&'a RawValue>,
    #[serde(borrow)]
    policies: Vec<RawPolicy<'a>>,
    core: CoreConfig,
    #[serde(deserialize_with = "workers")]
    workers_per_device: usize,
    #[serde(deserialize_with = "workers")]
    synthesis_workers: usize,
    verify_proofs: bool,
    limits: Limits,
    #[serde(deserialize_with = "dumps")]
    dumps: Option<PathBuf>,
    policy_host: Option<PathBuf>,
    trust: TrustConfig,
    #[serde(deserialize_with = "control")]
    control: ControlSocket,
    trial_decisions: u64,
}

impl Default for RawConfig<'_> {
    fn default() -> Self {
        let Config { core, workers_per_device, synthesis_workers, verify_proofs, limits, .. } =
            Config::default();
        let policies = Vec::new();
        Self {
            policy: None,
            policies,
            core,
            workers_per_device,
            synthesis_workers,
            verify_proofs,
            limits,
            dumps: None,
            policy_host: None,
            trust: TrustConfig::default(),
            control: ControlSocket::default(),
            trial_decisions: TRIAL_DECISIONS,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename = "Policy")]
struct RawPolicy<'a> {
    #[serde(borrow)]
    name: &'a RawValue,
    #[serde(default)]
    library: Option<PathBuf>,
    #[serde(default)]
    sha256: Option<Sha256>,
    #[serde(default)]
    signature: Option<PathBuf>,
    #[serde(borrow, default)]
    options: Option<&'a RawValue>,
    #[serde(default)]
    isolation: Isolation,
}

/// A path, or `None`.
fn control<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ControlSocket, D::Error> {
    match Option::<PathBuf>::deserialize(deserializer)? {
        None => Ok(ControlSocket::Off),
        Some(path) if path.as_os_str().is_empty() => {
            Err(D::Error::custom("an empty path; write None for no control socket"))
        }
        Some(path) => Ok(ControlSocket::At(path)),
    }
}

fn workers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let count = usize::deserialize(deserializer)?;
    if (1..=MAX_WORKERS).contains(&count) {
        return Ok(count);
    }
    Err(D::Error::custom(format!("{count} workers; write 1 to {MAX_WORKERS}")))
}

pub(super) fn threads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let count = usize::deserialize(deserializer)?;
    if count <= MAX_WORKERS {
        return Ok(count);
    }
    Err(D::Error::custom(format!(
        "{count} threads; write 1 to {MAX_WORKERS}, or 0 for one for each processor"
    )))
}

fn positive<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default + PartialEq>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value = T::deserialize(deserializer)?;
    if value == T::default() {
        return Err(D::Error::custom("0 is no limit that can be kept; write at least 1"));
    }
    Ok(value)
}

fn some_memory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    match ByteSize::deserialize(deserializer)? {
        ByteSize(0) => {
            Err(D::Error::custom("0 bytes are no memory that a process can run in; write 256MiB, say"))
        }
        size => Ok(size),
    }
}

fn dumps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    match Option::<PathBuf>::deserialize(deserializer)? {
        Some(path) if path.as_os_str().is_empty() => {
            Err(D::Error::custom("an empty path; leave dumps out for the usual folder"))
        }
        path => Ok(path),
    }
}

/// Who could have written a configuration file.
struct ConfigFile {
    way: Way,
    writers: Writers,
}

impl ConfigFile {
    /// Opens it. What is no regular file, such as a pipe, is opened too, and nothing is known of who writes it.
    fn open(file: &Path) -> (io::Result<File>, Result<ConfigFile, FileError>) {
        let by_folders = || -> Result<(File, ConfigFile), FileError> {
            let way = Way::of(file)?;
            let opened = way.open()?.ok_or(FileError::NotRegular)?;
            let writers = Writers::of_file(&opened)?;
            Ok((opened, ConfigFile { way, writers }))
        };
        match by_folders() {
            Ok((opened, known)) => (Ok(opened), Ok(known)),
            // The way to a pipe, such as /dev/stdin, is no way of folders.
            Err(error) => match File::open(file) {
                Ok(opened) => (Ok(opened), Err(FileError::NotRegular)),
                failed => (failed, Err(error)),
            },
        }
    }

    fn check(&self, owners: &[u32]) -> Result<(), FileError> {
        let trusted = Trusted::with(owners);
        writers::check_file(&self.writers, &trusted)?;
        writers::check_way(&self.way, &trusted)
    }
}

/// The text with its file, for errors.
struct Source<'a> {
    text: &'a str,
    file: &'a Path,
}

impl Source<'_> {
    fn error(&self, position: Position, fault: ConfigFault) -> ConfigError {
        ConfigError { file: self.file.to_owned(), position: Some(position), fault }
    }

    fn syntax(&self, error: ron::error::SpannedError, start: Position) -> ConfigError {
        let position = Position::from(error.span.start).within(start);
        self.error(position, ConfigFault::Syntax(error.code.to_string()))
    }

    /// The value of a raw part of the file, and where it stands.
    fn value<T: DeserializeOwned>(&self, raw: &RawValue) -> Result<(T, Position), ConfigError> {
        let start = Position::of_part(self.text, raw.get_ron());
        let value = ron_options().from_str(raw.get_ron()).map_err(|error| self.syntax(error, start))?;
        Ok((value, start))
    }

    fn policies(&self, raw: &[RawPolicy<'_>]) -> Result<Vec<PolicyConfig>, ConfigError> {
        let mut policies: Vec<PolicyConfig> = Vec::with_capacity(raw.len());
        for entry in raw {
            let (name, position): (String, _) = self.value(entry.name)?;
            if !super::manifest::is_name(&name) {
                return Err(self.error(position, ConfigFault::BadName { name }));
            }
            if let Some(earlier) = policies.iter().find(|policy| policy.name == name) {
                let first = earlier.position;
                return Err(self.error(position, ConfigFault::DuplicatePolicy { name, first }));
            }
            let options = entry.options.map_or_else(OptionsText::default, |raw| {
                let text = raw.get_ron();
                OptionsText::in_file(text, self.file.to_owned(), Position::of_part(self.text, text))
            });
            let library = entry.library.clone().unwrap_or_else(|| default_library(&name));
            policies.push(PolicyConfig {
                name,
                library,
                sha256: entry.sha256,
                signature: entry.signature.clone(),
                options,
                isolation: entry.isolation,
                position,
            });
        }
        Ok(policies)
    }
}

/// The file name of a policy's library when none is given: what cargo calls the crate `interlock-NAME`.
fn default_library(name: &str) -> PathBuf {
    format!("libinterlock_{}.so", name.replace('-', "_")).into()
}
