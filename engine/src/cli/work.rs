//! What is to be proved: circuit, SRS and where the witnesses come from.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;

use crate::circuit::file_chunk::FileChunk;
use crate::circuit::{bellpepper, r1cs, wtns};
use crate::cli::output::write_whole;
use crate::cli::setup::development_srs;
use crate::cli::{CliError, Exit};
use crate::core::ProvingKey;
use crate::format::{Input, PointCheck};
use crate::pipeline::Job;
use crate::proof::vkey;
use crate::srs::{params, zkey};

/// Which statement, and which witnesses.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("statement").required(true).args(["r1cs", "file"])))]
#[command(group(clap::ArgGroup::new("srs").args(["zkey", "params"])))]
pub struct WorkArgs {
    /// The circuit, as circom compiled it
    #[arg(long, value_name = "FILE", requires_all = ["srs", "witness"])]
    pub r1cs: Option<PathBuf>,
    /// The SRS, as snarkjs made it
    #[arg(long, value_name = "FILE", requires = "r1cs")]
    pub zkey: Option<PathBuf>,
    /// The SRS, in bellperson's layout
    #[arg(long, value_name = "FILE")]
    pub params: Option<PathBuf>,
    /// The witnesses, as circom's calculator made them, or folders of them: a proof for each
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "r1cs")]
    pub witness: Vec<PathBuf>,
    /// The file whose chunks are proved; without --params an SRS for development is made first
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Bytes of a chunk; the last one is padded with zero bytes
    #[arg(long, value_name = "BYTES", default_value_t = 256, requires = "file",
          value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub chunk_bytes: u32,
    /// How the points of the SRS are checked
    #[arg(long, value_enum, default_value_t = Check::Sampled)]
    pub check: Check,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Check {
    /// Every point is on the curve; a sample of each section is in the subgroup
    Sampled,
    /// Every point is on the curve and in the subgroup
    Full,
}

impl WorkArgs {
    /// The statement as it was named.
    pub fn name(&self) -> String {
        self.file.as_ref().or(self.r1cs.as_ref()).map_or(String::new(), |file| file.display().to_string())
    }

    /// The files that are read.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let single = [&self.r1cs, &self.zkey, &self.params, &self.file].into_iter().flatten();
        single.chain(&self.witness).map(PathBuf::as_path)
    }

    /// Puts the witnesses of a folder, `*.wtns` by name, in the place of the folder.
    ///
    /// # Errors
    /// [`Exit::Input`]: a folder that cannot be read, or that has none.
    pub fn look_into_folders(&mut self) -> Result<(), CliError> {
        let mut files = Vec::with_capacity(self.witness.len());
        for path in self.witness.drain(..) {
            if path.is_dir() {
                files.extend(witnesses_in(&path)?);
            } else {
                files.push(path);
            }
        }
        self.witness = files;
        Ok(())
    }
}

fn witnesses_in(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let entries = std::fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let paths = entries.map_err(|error| unreadable(folder, &error))?.into_iter().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "wtns")).collect();
    if files.is_empty() {
        return Err(CliError::new(
            Exit::Input,
            format!("{}: the folder has no witness, no *.wtns", folder.display()),
        ));
    }
    files.sort();
    Ok(files)
}

impl From<Check> for PointCheck {
    fn from(check: Check) -> Self {
        match check {
            Check::Sampled => PointCheck::Sampled,
            Check::Full => PointCheck::Full,
        }
    }
}

/// A statement and its witnesses, ready to become a job.
pub struct Work {
    key: Arc<ProvingKey>,
    source: Source,
}

enum Source {
    /// A file for each witness.
    Witnesses(Vec<PathBuf>),
    /// A file, cut into chunks.
    Chunks { file: Arc<File>, count: u64, chunk_bytes: usize },
}

/// What each partition is called: the stem of its witness file, or the number of its chunk.
pub fn names(args: &WorkArgs) -> Result<Vec<String>, CliError> {
    let Some(file) = &args.file else {
        let stem =
            |path: &PathBuf| path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        return Ok(args.witness.iter().map(stem).collect());
    };
    let count = chunk_count(file, &open(file)?, args.chunk_bytes)?;
    let width = (count - 1).to_string().len();
    Ok((0..count).map(|index| format!("{index:0width$}")).collect())
}

impl Work {
    /// Reads circuit and SRS, and holds them against each other.
    pub fn load(args: &WorkArgs) -> Result<Self, CliError> {
        match (&args.file, &args.r1cs) {
            (Some(file), _) => Self::chunks(args, file),
            (None, Some(circuit)) => Self::witnesses(args, circuit),
            (None, None) => Err(CliError::new(Exit::Usage, "neither --r1cs nor --file was given")),
        }
    }

    fn witnesses(args: &WorkArgs, circuit: &Path) -> Result<Self, CliError> {
        let circuit = r1cs::read(&Input::open(circuit)?)?;
        let check = args.check.into();
        let srs = match (&args.zkey, &args.params) {
            (Some(path), _) => zkey::read(&Input::open(path)?, &circuit, check)?,
            (None, Some(path)) => params::read(&Input::open(path)?, &circuit, check)?,
            (None, None) => return Err(CliError::new(Exit::Usage, "neither --zkey nor --params was given")),
        };
        Ok(Self {
            key: Arc::new(ProvingKey { circuit, srs }),
            source: Source::Witnesses(args.witness.clone()),
        })
    }

    fn chunks(args: &WorkArgs, path: &Path) -> Result<Self, CliError> {
        let chunk_bytes = args.chunk_bytes as usize;
        let file = open(path)?;
        let count = chunk_count(path, &file, args.chunk_bytes)?;
        let circuit = bellpepper::record(FileChunk::shape(chunk_bytes))?;
        let srs = match &args.params {
            Some(path) => params::read(&Input::open(path)?, &circuit, args.check.into())?,
            None => development_srs(&circuit)?,
        };
        Ok(Self {
            key: Arc::new(ProvingKey { circuit, srs }),
            source: Source::Chunks { file: Arc::new(file), count, chunk_bytes },
        })
    }

    /// Circuit and SRS.
    pub fn key(&self) -> Arc<ProvingKey> {
        self.key.clone()
    }

    /// Writes the verifying key as snarkjs's JSON.
    pub fn write_vkey(&self, path: &Path) -> Result<(), CliError> {
        write_whole(path, |writer| writer.write_all(vkey::to_json(&self.key.srs.vk).as_bytes()))
    }

    /// The job. Witnesses are read or computed when their turn comes, so that not all are in memory at once
    /// and a bad one fails its own partition only.
    pub fn job(&self, priority: i32) -> Job {
        let mut job = Job::new(self.key.clone()).with_priority(priority);
        match &self.source {
            Source::Witnesses(paths) => {
                for path in paths.clone() {
                    job.push_synthesis(move || Ok(wtns::read(&Input::open(&path)?)?));
                }
            }
            Source::Chunks { file, count, chunk_bytes } => {
                for index in 0..*count {
                    let (file, key, chunk_bytes) = (file.clone(), self.key.clone(), *chunk_bytes);
                    job.push_synthesis(move || {
                        let chunk = read_chunk(&file, index, chunk_bytes)?;
                        let circuit = FileChunk::new(&chunk, chunk_bytes)?;
                        Ok(bellpepper::synthesize_witness_for(&key.circuit, circuit)?)
                    });
                }
            }
        }
        job
    }
}

fn open(path: &Path) -> Result<File, CliError> {
    File::open(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> CliError {
    CliError::new(Exit::Input, format!("{}: cannot be read: {error}", path.display()))
}

/// How many chunks a file has.
fn chunk_count(path: &Path, file: &File, chunk_bytes: u32) -> Result<u64, CliError> {
    let metadata = file.metadata().map_err(|error| unreadable(path, &error))?;
    if !metadata.is_file() {
        return Err(CliError::new(Exit::Input, format!("{}: not a regular file", path.display())));
    }
    match metadata.len().div_ceil(u64::from(chunk_bytes)) {
        0 => Err(CliError::new(
            Exit::Input,
            format!("{}: the file is empty, there is nothing to prove", path.display()),
        )),
        count if count > u64::from(u32::MAX) => {
            let message = format!("{}: {count} chunks are more than a job takes", path.display());
            Err(CliError::new(Exit::Input, message).with_help("Raise --chunk-bytes."))
        }
        count => Ok(count),
    }
}

/// One chunk, shorter at the end of the file.
fn read_chunk(file: &File, index: u64, chunk_bytes: usize) -> io::Result<Vec<u8>> {
    let mut chunk = Vec::with_capacity(chunk_bytes);
    let mut at = index * chunk_bytes as u64;
    while chunk.len() < chunk_bytes {
        let mut buffer = [0; 4096];
        let wanted = buffer.len().min(chunk_bytes - chunk.len());
        match file.read_at(&mut buffer[..wanted], at)? {
            0 => break,
            read => {
                chunk.extend_from_slice(&buffer[..read]);
                at += read as u64;
            }
        }
    }
    Ok(chunk)
}
