//! `interlock policy use`: seats another policy on a running engine.

use std::path::Path;

use crate::cli::engines::WhichEngine;
use crate::cli::{CliError, Exit, print};
use crate::control::wire::{Answer, Request, Switched, UseRequest};
use crate::pipeline::{SwitchPhase, SwitchReport};
use crate::report;

/// How a switch is asked for.
#[derive(Debug, clap::Args)]
pub struct SwitchArgs {
    #[command(flatten)]
    engine: WhichEngine,
    /// Seconds to wait for the end of the trial, once tasks go on under the policy; the trial goes on in any case
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u32,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(explicit_config: Option<&Path>, policy: &str, args: &SwitchArgs) -> Result<Exit, CliError> {
    switch(explicit_config, args, |wait_ms| {
        Request::UsePolicy(UseRequest { policy: policy.to_owned(), wait_ms })
    })
}

/// Asks for a switch, and shows how it goes and what comes of it.
pub fn switch(
    explicit_config: Option<&Path>,
    args: &SwitchArgs,
    request: impl FnOnce(u64) -> Request,
) -> Result<Exit, CliError> {
    let mut last = None;
    let progress = |answer: &Answer| {
        if let Answer::Progress(report) = answer {
            tell(report, &mut last);
        }
    };
    let answer = args.engine.ask(explicit_config, &request(u64::from(args.wait) * 1_000), progress)?;
    let Answer::Switched(switched) = answer else {
        return Err(CliError::new(Exit::Engine, "the engine answered something else"));
    };
    if args.json {
        print::json(&switched)?;
    } else {
        print::text(&text(&switched))?;
    }
    Ok(exit(&switched))
}

/// Says on standard error what the switch does, when that is news.
fn tell(report: &SwitchReport, last: &mut Option<SwitchPhase>) {
    if last.as_ref() == Some(&report.phase) {
        return;
    }
    match &report.phase {
        SwitchPhase::Draining => eprintln!("{}: waiting for devices to drain", report.policy),
        SwitchPhase::OnTrial => {
            eprintln!("{}: seated, on trial for {} decisions", report.policy, report.trial_decisions);
        }
        SwitchPhase::RollingBack { reason, .. } => eprintln!("{}: rolling back: {reason}", report.policy),
        _ => {}
    }
    *last = Some(report.phase.clone());
}

fn text(switched: &Switched) -> String {
    let Switched { switch, engine_ended, resident } = switched;
    let mut text = report::render_switch(switch);
    if *engine_ended && !switch.phase.is_final() {
        text += "the engine did its work and ended meanwhile\n";
    }
    text += "libraries that stay in the engine's process:\n";
    if resident.is_empty() {
        text += "  none: policies are linked, or in processes of their own\n";
    }
    for library in resident {
        text += &format!("  {} (sha256 {:.12}…)\n", library.file, library.sha256.to_string());
    }
    text
}

/// Whether the policy sits there now, as far as can be said.
fn exit(switched: &Switched) -> Exit {
    match switched.switch.phase {
        SwitchPhase::OnTrial | SwitchPhase::Passed => Exit::Done,
        SwitchPhase::Draining if switched.engine_ended => Exit::Engine,
        SwitchPhase::Draining => Exit::Done,
        SwitchPhase::RollingBack { .. } | SwitchPhase::RolledBack { .. } | SwitchPhase::Superseded { .. } => {
            Exit::Config
        }
    }
}
