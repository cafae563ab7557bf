//! The laws of `interlock-conformance`.

use interlock_conformance::{Linked, Settings, check};
use interlock_serialized_fallback::SerializedFallback;

#[test]
fn every_law_is_kept() {
    let policy = Linked::<SerializedFallback>::new("").expect("it has no options");
    check(&policy, &Settings::default()).assert_kept();
}
