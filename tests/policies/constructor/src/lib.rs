//! A policy whose library writes a file when it is loaded, for tests: whatever runs before `dlopen` must not
//! make that file appear.

use interlock_policy_api::{Manifest, NoOptions, Policy, export_policy};

/// The environment variable that names the file.
pub const MARKER_VARIABLE: &str = "INTERLOCK_FIXTURE_MARKER";

/// The policy: all defaults.
#[derive(Debug)]
pub struct Constructor;

impl Policy for Constructor {
    type Options = NoOptions;

    const MANIFEST: Manifest =
        Manifest::new("constructor", "0.1.0", "writes a file when it is loaded, for tests");

    fn new(_options: NoOptions) -> Result<Self, String> {
        Ok(Self)
    }
}

export_policy!(Constructor);

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = leave_marker;

extern "C" fn leave_marker() {
    if let Some(path) = std::env::var_os(MARKER_VARIABLE) {
        // There is nobody to report an error to; the test sees that the file is not there.
        let _ = std::fs::write(path, "the constructor ran");
    }
}
