//! The laws of `interlock-conformance`, with the options that people use and at their ends.

use interlock_conformance::{Linked, Settings, check};
use interlock_vram_token::VramToken;

#[test]
fn every_law_is_kept() {
    for options in [
        "",
        "(wait_ms: 0)",
        "(wait_ms: 7, compute_permits: 1)",
        "(token_bytes: 1, compute_permits: 3, wait_ms: 40)",
        "(token_share: 1.0)",
    ] {
        let policy = Linked::<VramToken>::new(options).expect("the options are good");
        check(&policy, &Settings::default()).assert_kept();
    }
}
