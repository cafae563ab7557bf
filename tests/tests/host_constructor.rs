//! Nothing of a library runs before every check has passed.

use interlock_engine::host::{
    Config, EvidenceError, LoadFault, OptionsText, PolicyLibrary, Sha256, Verified, inspect,
};
use interlock_tests::libraries::{changed, library, patch};

/// One test, alone in its process: it sets an environment variable, and asks whether a constructor ran.
#[test]
fn constructors_run_when_a_library_is_opened_and_not_before() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let marker = folder.path().join("marker");
    // SAFETY: no other thread of this process reads or writes the environment.
    unsafe { std::env::set_var("INTERLOCK_FIXTURE_MARKER", &marker) };
    let good = library("fixture-constructor");

    assert_eq!(inspect(&good, &Config::default()).expect("the library is good").manifest.name, "constructor");
    let none = OptionsText::default();
    let pinned = Verified::file(&good, None, Some(Sha256::of(b"")), &none);
    assert!(matches!(
        pinned.err().expect("the pin is wrong").fault,
        LoadFault::Evidence(EvidenceError::WrongHash { .. })
    ));
    assert!(Verified::file(&good, Some("another"), None, &none).is_err());
    assert!(Verified::file(&good, None, None, &OptionsText::new("(unknown: 1)")).is_err());
    let foreign = changed("fixture-constructor", folder.path(), |bytes| {
        patch(bytes, b"\"abi_major\":1", b"\"abi_major\":2");
    });
    assert!(Verified::file(&foreign, None, None, &none).is_err());
    let verified = Verified::file(&good, None, None, &none).expect("the library is good");
    assert!(!marker.exists(), "code of the library ran before it was opened");

    PolicyLibrary::open(verified).expect("the library is good");
    assert!(marker.exists(), "the fixture leaves its marker when it is loaded");
}
