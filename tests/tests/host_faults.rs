//! What a policy does wrong is an error of that policy: caught, typed, and nobody else's trouble.

use interlock_engine::host::{LoadFault, LoadedPolicy, OptionsText, PolicyLibrary, Verified};
use interlock_engine::interlock::{PlaceError, PolicyFault, PolicyPort};
use interlock_policy_api::testing::{request, view};
use interlock_policy_api::{Stage, VerdictKind};
use interlock_tests::libraries::library;
use interlock_tests::questions::{DEVICES, ask_all};

fn faulty(options: &str) -> PolicyLibrary {
    let verified = Verified::file(&library("fixture-faulty"), None, None, &OptionsText::new(options));
    PolicyLibrary::open(verified.expect("the library is good")).expect("the library is good")
}

fn panics_in(function: &str) -> LoadedPolicy {
    faulty(&format!("(panic_in: \"{function}\")")).instantiate().expect("only `create` may refuse")
}

#[test]
fn a_panic_in_each_function_is_a_fault_of_that_function() {
    for (index, function) in ["decide", "rank", "place", "observe", "stats"].into_iter().enumerate() {
        let mut policy = panics_in(function);
        for _ in 0..2 {
            let mut expected = [Ok(()); 5];
            expected[index] = Err(PolicyFault::Panicked);
            assert_eq!(ask_all(&mut policy), expected, "{function}");
        }
    }
}

#[test]
fn a_panic_while_an_instance_is_made_or_ended() {
    let error = faulty("(panic_in: \"create\")").instantiate().expect_err("it panics");
    assert!(
        matches!(error.fault, LoadFault::Create { ref reason } if reason.contains("told to panic in create")),
        "{error}"
    );
    drop(panics_in("destroy"));
    assert_eq!(ask_all(&mut panics_in("")), [Ok(()); 5]);
}

#[test]
fn a_policy_that_refuses_its_options_says_why() {
    let error = faulty("(verdict: \"refuse to start\")").instantiate().expect_err("it refuses");
    assert!(matches!(error.fault, LoadFault::Create { ref reason } if reason.contains("told to")), "{error}");
}

#[test]
fn a_device_that_is_not_there_is_not_taken() {
    let mut policy = faulty("(device: 2)").instantiate().expect("the options are good");
    let error = policy.place(&request(Stage::PREPARE), &DEVICES).expect_err("there are two");
    assert_eq!(error, PlaceError::NoSuchDevice { chosen: 2, devices: 2 });
    assert_eq!(policy.place(&request(Stage::PREPARE), &DEVICES[..1]), Ok(0), "with one there is no choice");
}

#[test]
fn garbage_comes_through_as_it_is_for_the_arbiter_to_refuse() {
    let mut policy = faulty("(verdict: \"unknown\")").instantiate().expect("the options are good");
    let verdict = policy.decide(&request(Stage::COMPUTE), &view(&[])).expect("it does not panic");
    assert_eq!(verdict.kind, VerdictKind(77));
}
