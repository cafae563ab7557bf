//! Hosts policies for the tests of isolation, as a program that embeds the engine does.

use std::process::ExitCode;

fn main() -> ExitCode {
    interlock_engine::host::isolation::serve_if_asked().unwrap_or(ExitCode::FAILURE)
}
