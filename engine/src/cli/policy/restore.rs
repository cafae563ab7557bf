//! `interlock policy restore`: seats the last good policy of a running engine.

use std::path::Path;

use super::use_policy::{SwitchArgs, switch};
use crate::cli::{CliError, Exit};
use crate::control::wire::{Request, RestoreRequest};

pub fn run(explicit_config: Option<&Path>, args: &SwitchArgs) -> Result<Exit, CliError> {
    switch(explicit_config, args, |wait_ms| Request::Restore(RestoreRequest { wait_ms }))
}
