//! The peak of resident memory. In a program of its own: other tests have theirs.

use interlock_engine::experiment::ResidentPeak;

#[test]
fn the_peak_is_that_of_the_time_since_it_was_begun() {
    if std::fs::write("/proc/self/clear_refs", "5").is_err() {
        eprintln!("skipped: the system does not let the peak be set back");
        return;
    }
    let before = ResidentPeak::begin();
    let large = vec![1_u8; 64 << 20];
    let with = before.bytes().expect("there is /proc");
    assert!(large.iter().all(|byte| *byte == 1));
    drop(large);
    let after = ResidentPeak::begin().bytes().expect("there is /proc");
    assert!(with >= after + (32 << 20), "{with} with 64 MiB more, {after} without");
}
