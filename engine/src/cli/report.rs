//! `interlock report`: a timeline as a page to look at, or two experiments held against each other.

use std::path::{Path, PathBuf};

use interlock_settings::units;
use interlock_timeline::Timeline;
use interlock_timeline::figures::Figures;
use interlock_timeline::page::RunPage;

use super::output::{check_distinct, write_whole};
use super::{CliError, Exit, print};

mod compare;

/// Of a timeline, one HTML file, which needs no network: who did what when, on each worker, device and lock, and the figures of the run.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// The timeline, as `prove --timeline` or `simulate --timeline` wrote it
    #[arg(value_name = "FILE", required_unless_present = "compare")]
    timeline: Option<PathBuf>,
    /// Where the page goes; beside the timeline, with the extension html, when left out
    #[arg(short, long, value_name = "FILE", conflicts_with = "compare")]
    output: Option<PathBuf>,
    /// Hold the second experiment against the first instead: two reports that `ab --json` wrote
    #[arg(long, num_args = 2, value_names = ["A.json", "B.json"], conflicts_with = "timeline")]
    compare: Vec<PathBuf>,
    /// Compare also experiments on other work or another machine
    #[arg(long, requires = "compare")]
    anyway: bool,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ReportArgs) -> Result<Exit, CliError> {
    match (&args.timeline, args.compare.as_slice()) {
        (Some(timeline), _) => page(args, timeline),
        (None, [first, second]) => compare::run(first, second, args.anyway, args.json),
        (None, _) => Err(CliError::new(Exit::Usage, "neither a timeline nor --compare was given")),
    }
}

fn page(args: &ReportArgs, timeline: &Path) -> Result<Exit, CliError> {
    let output = args.output.clone().unwrap_or_else(|| timeline.with_extension("html"));
    check_distinct([output.as_path()], [timeline])?;
    let page = RunPage::new(timeline, &Timeline::open(timeline)?);
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
        format!("latency of a partition, from synthesis to verified: median {median}, p95 {p95}\n")
    });
    format!(
        "{proofs} of {partitions} partitions proved in {wall} ({rate} partition proofs/s)\n{latency}page: {}\n",
        output.display()
    )
}
