use interlock_policy_api::testing::{request, view};
use interlock_policy_api::{LockView, RequestFlags};

use super::*;

const MIB: u64 = 1 << 20;
const FREE: [LockView; 1] = [LockView { permits: 2, free: 2 }];
const TAKEN: [LockView; 1] = [LockView { permits: 2, free: 0 }];

fn policy(options: Options) -> VramToken {
    VramToken::new(options).expect("the options are good")
}

fn seen(kind: ObservationKind, stage: Stage, task: u64) -> Observation {
    Observation { kind, stage, task, now_ns: 0, duration_ns: 0, bytes: 0 }
}

/// Two compute, 6 MiB each: 4 MiB of 16 are free.
fn busy() -> View<'static> {
    let mut view = view(&TAKEN);
    view.running[Stage::COMPUTE.index()] = 2;
    view.free_bytes = 4 * MIB;
    view
}

#[test]
fn permits_in_the_table_and_in_the_options_agree() {
    assert_eq!(VramToken::MANIFEST.locks[COMPUTE].permits, Options::default().compute_permits);
}

#[test]
fn tokens_bound_what_is_staged_ahead() {
    let all = policy(Options { token_share: 1.0, ..Options::default() });
    let most = policy(Options { token_share: 0.99, ..Options::default() });
    let request = request(Stage::STAGE);
    assert_eq!(all.decide(&request, &busy()), Verdict::enter(4 * MIB));
    assert_eq!(most.decide(&request, &busy()), Verdict::wait_until(CHANGED, 1_000_000_000));
}

#[test]
fn tokens_in_bytes_go_before_the_share() {
    let enough = policy(Options { token_bytes: 16 * MIB, token_share: 0.1, ..Options::default() });
    let short = policy(Options { token_bytes: 16 * MIB - 1, token_share: 1.0, ..Options::default() });
    let request = request(Stage::STAGE);
    assert_eq!(enough.decide(&request, &busy()), Verdict::enter(4 * MIB));
    assert_eq!(short.decide(&request, &busy()), Verdict::wait_until(CHANGED, 1_000_000_000));
}

#[test]
fn a_task_that_may_compute_at_once_needs_no_token() {
    let stingy = policy(Options { token_bytes: 1, ..Options::default() });
    let request = request(Stage::STAGE);
    let mut view = view(&FREE);
    assert_eq!(stingy.decide(&request, &view), Verdict::enter(4 * MIB));
    view.staged = 1;
    view.waiting[Stage::COMPUTE.index()] = 1;
    assert_eq!(stingy.decide(&request, &view), Verdict::enter(4 * MIB));
    view.running[Stage::STAGE.index()] = 1;
    assert_ne!(stingy.decide(&request, &view), Verdict::enter(4 * MIB));
}

#[test]
fn the_wait_is_bounded() {
    let policy = policy(Options { wait_ms: 3, ..Options::default() });
    let mut request = request(Stage::STAGE);
    request.flags = RequestFlags::LOCKS_FREE;
    request.gate_since_ns = 7;
    let mut view = busy();
    assert_eq!(policy.decide(&request, &view), Verdict::wait_until(CHANGED, 3_000_007));
    view.now_ns = 3_000_007;
    assert_eq!(policy.decide(&request, &view), Verdict::skip());
}

#[test]
fn nothing_is_staged_past_a_task_that_needs_all_its_bytes() {
    let mut view = view(&FREE);
    view.waiting[Stage::COMPUTE.index()] = 1;
    let policy = policy(Options::default());
    assert_eq!(policy.decide(&request(Stage::STAGE), &view), Verdict::wait(CHANGED));
}

#[test]
fn a_staged_task_is_not_overtaken_for_ever() {
    let mut policy = policy(Options::default());
    let open = view(&FREE);
    policy.observe(&seen(ObservationKind::STAGE_ENDED, Stage::STAGE, 100));
    for task in 0..u64::from(OVERTAKES) {
        assert_eq!(policy.decide(&request(Stage::STAGE), &open), Verdict::enter(4 * MIB));
        policy.observe(&seen(ObservationKind::STAGE_ENDED, Stage::STAGE, task));
        policy.observe(&seen(ObservationKind::ENTERED, Stage::COMPUTE, task));
    }
    assert_eq!(policy.decide(&request(Stage::STAGE), &open), Verdict::wait(CHANGED));
    policy.observe(&seen(ObservationKind::ENTERED, Stage::COMPUTE, 100));
    assert_eq!(policy.decide(&request(Stage::STAGE), &open), Verdict::enter(4 * MIB));
}

#[test]
fn nor_by_tasks_that_skipped() {
    let mut policy = policy(Options::default());
    let open = view(&FREE);
    policy.observe(&seen(ObservationKind::STAGE_ENDED, Stage::STAGE, 100));
    for task in 0..u64::from(OVERTAKES) {
        assert_eq!(policy.decide(&request(Stage::STAGE), &open), Verdict::enter(4 * MIB));
        policy.observe(&seen(ObservationKind::SKIPPED, Stage::STAGE, task));
        policy.observe(&seen(ObservationKind::ENTERED, Stage::COMPUTE, task));
    }
    assert_eq!(policy.decide(&request(Stage::STAGE), &open), Verdict::wait(CHANGED));
}

#[test]
fn a_staged_task_that_leaves_is_forgotten() {
    let mut policy = policy(Options::default());
    for task in 0..3 {
        policy.observe(&seen(ObservationKind::STAGE_ENDED, Stage::STAGE, task));
    }
    for task in [1, 0, 2] {
        policy.observe(&seen(ObservationKind::TASK_LEFT, Stage::COMPUTE, task));
    }
    assert!(policy.staged.is_empty());
    assert_eq!(policy.overtakes, 0);
}

#[test]
fn what_was_staged_and_skipped_is_counted() {
    let mut policy = policy(Options::default());
    policy.observe(&seen(ObservationKind::STAGE_ENDED, Stage::STAGE, 1));
    policy.observe(&seen(ObservationKind::SKIPPED, Stage::STAGE, 2));
    policy.observe(&seen(ObservationKind::SKIPPED, Stage::STAGE, 3));
    assert_eq!(policy.stats(), [("staged".to_owned(), 1), ("skipped".to_owned(), 2)]);
}

#[test]
fn a_share_that_is_none_is_refused() {
    for token_share in [0.0, -0.5, 1.01, f64::NAN] {
        let error =
            VramToken::new(Options { token_share, ..Options::default() }).expect_err("it is no share");
        assert!(error.starts_with("token_share"), "{error}");
    }
}
