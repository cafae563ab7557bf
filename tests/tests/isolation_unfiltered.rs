//! Where the system allows no filter of system calls, as in some containers: a policy that must be confined is refused, and one
//! that may do without runs, and the log says so.
//!
//! The only test of its program: what it does to its thread is inherited by every process that is started after.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use interlock_engine::host::{Isolation, LoadFault, PolicyLibrary, ProcessSettings};
use interlock_engine::interlock::PolicyPort;
use interlock_policy_api::testing::{request, view};
use interlock_policy_api::{Stage, Verdict};
use interlock_tests::libraries::verified;
use parking_lot::Mutex;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// From here on no filter can be put on, by this thread and what it starts.
fn forbid_filters() {
    let rules = BTreeMap::from([(libc::SYS_seccomp, Vec::new())]);
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let arch = std::env::consts::ARCH.try_into().expect("this machine has filters");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a filter");
    seccompiler::apply_filter(&program).expect("the last one");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn without_filters_a_policy_is_refused_unless_it_may_do_without() {
    forbid_filters();
    let settings = ProcessSettings::new(env!("CARGO_BIN_EXE_interlock-test-policy-host"));
    let isolate = |settings| PolicyLibrary::isolate(verified("single-lock", ""), settings).expect("checked");

    let refused = isolate(settings.clone()).instantiate().expect_err("it cannot be confined");
    assert!(matches!(refused.fault, LoadFault::Unconfined { .. }), "{refused}");
    assert!(refused.to_string().contains("UnfilteredProcess"), "it says what to do: {refused}");

    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let library = isolate(settings.unfiltered(true));
    assert_eq!(library.isolation(), Isolation::UnfilteredProcess);
    let mut policy = tracing::subscriber::with_default(subscriber, || library.instantiate()).expect("it may");
    let text = String::from_utf8(log.0.lock().clone()).expect("text");
    assert!(text.contains("WARN") && text.contains("single-lock") && text.contains("seccomp"), "{text}");
    let asked = request(Stage::STAGE);
    let verdict = policy.decide(&asked, &view(&[interlock_policy_api::LockView { permits: 1, free: 1 }]));
    assert_eq!(verdict, Ok(Verdict::enter(asked.need_bytes)));
}
