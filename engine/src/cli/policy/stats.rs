//! `interlock policy stats`: what the policies of a running engine did.

use std::path::Path;

use crate::cli::engines::WhichEngine;
use crate::cli::{CliError, Exit, print};
use crate::control::wire::{Answer, Request, Stats};
use crate::report;

pub fn run(explicit_config: Option<&Path>, engine: &WhichEngine, json: bool) -> Result<Exit, CliError> {
    let answer = engine.ask(explicit_config, &Request::Stats, |_| {})?;
    let Answer::Stats(stats) = answer else {
        return Err(CliError::new(Exit::Engine, "the engine answered something else"));
    };
    if json {
        print::json(&stats)?;
    } else {
        print::text(&text(&stats))?;
    }
    Ok(Exit::Done)
}

fn text(stats: &Stats) -> String {
    let last = stats.last_switch.as_ref().map_or(String::new(), report::render_switch);
    report::render_policies(&stats.devices) + &last
}
