//! Outcomes as they come: files written, progress shown, lines for the report.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::{ProofFormat, ProveArgs};
use crate::cli::error::{chain, task_help};
use crate::cli::output::{check_distinct, names as output_names, write_whole};
use crate::cli::{CliError, Exit};
use crate::pipeline::{JobHandle, PartitionOutcome, Proved, TaskError};
use crate::proof;
use crate::report::PartitionLine;

/// Where the proofs and public inputs of all partitions go.
pub struct Outputs {
    proofs: Vec<PathBuf>,
    publics: Vec<PathBuf>,
    format: ProofFormat,
}

impl Outputs {
    /// The files of partitions with these names; none of them another output or an input.
    pub fn new(args: &ProveArgs, names: &[String]) -> Result<Self, CliError> {
        let proofs = output_names(&args.proof, names)?;
        let publics = output_names(&args.public, names)?;
        let single = [&args.vkey, &args.report.trace, &args.report.timeline];
        let outputs = single.into_iter().flatten().chain(&proofs).chain(&publics);
        check_distinct(outputs.map(PathBuf::as_path), args.work.files())?;
        Ok(Self { proofs, publics, format: args.proof_format })
    }

    /// Writes both files of a partition; the proof last, so that where it is, the rest is too.
    fn write(&self, partition: usize, proved: &Proved) -> Result<PathBuf, CliError> {
        let public = proof::public_to_json(&proved.public_inputs);
        write_whole(&self.publics[partition], |writer| writer.write_all(public.as_bytes()))?;
        let path = &self.proofs[partition];
        write_whole(path, |writer| match self.format {
            ProofFormat::Snarkjs => writer.write_all(proof::to_json(&proved.proof).as_bytes()),
            ProofFormat::Bellperson => writer.write_all(&proof::to_bytes(&proved.proof)),
        })?;
        Ok(path.clone())
    }
}

/// What came of all partitions.
pub struct Collected {
    /// A line for each partition, in order.
    pub lines: Vec<PartitionLine>,
    /// Partitions that failed.
    pub failed: usize,
    /// Partitions that were not begun.
    pub cancelled: usize,
    /// The exit code that the first failure asks for.
    pub worst: Exit,
}

/// Takes outcomes until there is one for each partition.
pub fn collect(handle: &JobHandle, names: &[String], outputs: &Outputs) -> Collected {
    let bar = progress_bar(handle.partitions() as u64);
    let mut collected = Collected { lines: Vec::new(), failed: 0, cancelled: 0, worst: Exit::Done };
    for outcome in handle.outcomes() {
        let line = collected.take(outcome, names, outputs, &bar);
        collected.lines.push(line);
        bar.inc(1);
    }
    bar.finish_and_clear();
    collected.lines.sort_by_key(|line| line.report.partition);
    collected
}

impl Collected {
    fn take(
        &mut self,
        outcome: PartitionOutcome,
        names: &[String],
        outputs: &Outputs,
        bar: &ProgressBar,
    ) -> PartitionLine {
        let PartitionOutcome { result, report } = outcome;
        let partition = report.partition as usize;
        let name = names[partition].clone();
        let written = match result {
            Ok(proved) => {
                outputs.write(partition, &proved).map_err(|error| (error.exit, error.message(), None))
            }
            Err(error) => Err((exit_of(&error), chain(&error), task_help(&error))),
        };
        let (proof, error) = match written {
            Ok(path) => (Some(path), None),
            Err((exit, message, help)) => {
                self.count(exit);
                bar.suspend(|| {
                    eprintln!("error: {name}: {message}");
                    if let Some(help) = help {
                        eprintln!("help: {help}");
                    }
                });
                (None, Some(message))
            }
        };
        PartitionLine { name, proof, error, report }
    }

    fn count(&mut self, exit: Exit) {
        if exit == Exit::Done {
            self.cancelled += 1;
            return;
        }
        self.failed += 1;
        if self.worst == Exit::Done {
            self.worst = exit;
        }
    }
}

/// The exit code that a partition without a proof asks for; none by itself for one that was not begun.
fn exit_of(error: &TaskError) -> Exit {
    match error {
        TaskError::Cancelled => Exit::Done,
        TaskError::Synthesis(_) | TaskError::Witness(_) => Exit::Input,
        TaskError::Failed { .. } => Exit::NotProved,
    }
}

/// On a terminal only: indicatif hides it elsewhere.
fn progress_bar(partitions: u64) -> ProgressBar {
    let bar = ProgressBar::new(partitions);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} proofs, {elapsed} (left {eta})") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
