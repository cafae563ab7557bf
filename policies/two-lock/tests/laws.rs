//! The laws of `interlock-conformance`, with the options that people use and at their ends.

use interlock_conformance::{Linked, Settings, check};
use interlock_two_lock::TwoLock;

#[test]
fn every_law_is_kept() {
    for options in ["", "(wait_ms: 0)", "(wait_ms: 7)"] {
        let policy = Linked::<TwoLock>::new(options).expect("the options are good");
        check(&policy, &Settings::default()).assert_kept();
    }
}
