//! `interlock report`: a timeline as a page to look at.

use std::path::{Path, PathBuf};

use interlock_timeline::Timeline;
use interlock_timeline::figures::Figures;
use interlock_timeline::page::RunPage;
use interlock_timeline::units;

use super::output::{check_distinct, write_whole};
use super::{CliError, Exit, print};

/// One HTML file, which needs no network: who did what when, on each worker, device and lock, and the figures of the run.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// The timeline, as `prove --timeline` or `simulate --timeline` wrote it
    #[arg(value_name = "FILE")]
    timeline: PathBuf,
    /// Where the page goes; beside the timeline, with the extension html, when left out
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ReportArgs) -> Result<Exit, CliError> {
    let output = args.output.clone().unwrap_or_else(|| args.timeline.with_extension("html"));
    check_distinct([output.as_path()], [args.timeline.as_path()])?;
    let page = RunPage::new(&args.timeline, &Timeline::open(&args.timeline)?);
    write_whole(&output, |writer| page.write(writer))?;
    if args.json {
        print::json(page.figures())?;
    } else {
        print::text(&summary(page.figures(), &output))?;
    }
    Ok(Exit::Done)
}

fn summary(figures: &Figures, output: &Path) -> String {
    let Figures { proofs, partitions, wall_ns, proofs_per_s, .. } = figures;
    let wall = units::time(*wall_ns);
    let rate = units::three_digits(*proofs_per_s);
    let latency = figures.latency.map_or(String::new(), |latency| {
        let [median, p95] = [latency.median_ns, latency.p95_ns].map(units::time);
        format!("latency of a proof, from synthesis to verified: median {median}, p95 {p95}\n")
    });
    format!(
        "{proofs} proofs of {partitions} partitions in {wall} ({rate} proofs/s)\n{latency}page: {}\n",
        output.display()
    )
}
