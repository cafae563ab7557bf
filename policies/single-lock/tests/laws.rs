//! The laws of `interlock-conformance`.

use interlock_conformance::{Linked, Settings, check};
use interlock_single_lock::SingleLock;

#[test]
fn every_law_is_kept() {
    let policy = Linked::<SingleLock>::new("").expect("it has no options");
    check(&policy, &Settings::default()).assert_kept();
}
