//! `interlock policy restore`: seats the last good policy of a running engine.

use super::use_policy::{SwitchArgs, switch};
use crate::cli::{CliError, Exit};
use crate::control::wire::{Request, RestoreRequest};

pub fn run(args: &SwitchArgs) -> Result<Exit, CliError> {
    switch(args, |wait_ms| Request::Restore(RestoreRequest { wait_ms }))
}
