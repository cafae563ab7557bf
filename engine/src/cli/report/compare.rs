//! `interlock report --compare`.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crate::cli::{CliError, Exit, print};
use crate::experiment::{ExperimentReport, compare_saved};
use crate::report;

/// Holds the second report against the first.
pub fn run(first: &Path, second: &Path, anyway: bool, json: bool) -> Result<Exit, CliError> {
    let (one, other) = (read(first)?, read(second)?);
    let compared = compare_saved(&one, &other);
    if !compared.differences.is_empty() && !anyway {
        let what = compared.differences.join("; ");
        let error = format!("the experiments cannot be compared, they differ in {what}");
        return Err(CliError::new(Exit::Input, error)
            .with_help("--anyway compares them all the same: then what differs may be what is seen."));
    }
    if json {
        print::json(&compared)?;
    } else {
        print::text(&report::render_saved_comparison(&compared))?;
    }
    Ok(Exit::Done)
}

fn read(path: &Path) -> Result<ExperimentReport, CliError> {
    let bad = |error: String| {
        CliError::new(Exit::Input, format!("{}: {error}", path.display()))
            .with_help("Give a report that `interlock ab --json` wrote.")
    };
    let file = File::open(path).map_err(|error| bad(format!("cannot be read: {error}")))?;
    let report: ExperimentReport = serde_json::from_reader(BufReader::new(file))
        .map_err(|error| bad(format!("no report of an experiment: {error}")))?;
    if report.schema != ExperimentReport::SCHEMA {
        return Err(bad(format!(
            "has schema {}, this program reads {}",
            report.schema,
            ExperimentReport::SCHEMA
        )));
    }
    Ok(report)
}
