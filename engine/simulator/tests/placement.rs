//! Several devices: tasks that have not arrived yet count where they were sent, and those that ended or went elsewhere do not.

mod support;

use interlock_simulator::Arrivals;
use support::{assert_near, parse, run};

/// Devices of 64 GiB; tasks of Prepare 1 s, Stage 1 s, Compute 10 s, Finish 1 s.
fn cards(
    devices: u32,
    workers: u32,
    jobs: u32,
    partitions: u32,
    rest: &str,
    class: &str,
) -> interlock_simulator::Scenario {
    parse(&format!(
        "(devices: [(vram: \"64GiB\", count: {devices})], workers: {workers}, classes: [(name: \"task\", partitions: {partitions}, \
         staged: \"1GiB\", prepare: (time: Constant(\"1s\")), stage: Constant(\"1s\"), compute: Constant(\"10s\"), \
         finish: (time: Constant(\"1s\")), {class})], \
         arrivals: [Closed(class: \"task\", jobs: {jobs}, in_flight: {jobs})], {rest})"
    ))
}

#[test]
fn tasks_that_come_at_once_are_spread_over_the_devices() {
    let figures = run(&cards(2, 8, 2, 4, "", ""), "two-lock");
    // Four tasks each: the first one prepares and is uploaded, then the card computes until its last one finishes.
    assert_eq!(figures.makespan_s, 1.0 + 1.0 + 4.0 * 10.0 + 1.0);
    for device in &figures.devices {
        assert_near(device.kernels_busy, 40.0 / 43.0, 1e-9, "kernels busy");
    }
}

#[test]
fn tasks_that_wait_for_a_worker_count_as_load() {
    let synthesis = "synthesis: (time: Constant(\"10ms\"))";
    let figures = run(&cards(4, 2, 4, 10, "", synthesis), "two-lock");
    assert_eq!(figures.partitions, 40);
    // Ten tasks each: no card computes for longer than another.
    for device in &figures.devices {
        assert_near(device.kernels_busy * figures.makespan_s, 100.0, 1e-9, "seconds of kernels");
    }
}

#[test]
fn tasks_of_a_lost_device_count_where_they_go() {
    // Four each, when the first of three cards is lost: one computes there and three wait, which the two others share.
    let loss = "faults: [DeviceLoss(device: 0, at: \"5s\")]";
    let figures = run(&cards(3, 8, 3, 4, loss, ""), "two-lock");
    assert_eq!((figures.partitions, figures.failed), (12, 0));
    let seconds: Vec<f64> =
        figures.devices.iter().map(|device| device.kernels_busy * figures.makespan_s).collect();
    assert_near(seconds[0], 3.0, 1e-9, "the lost one");
    assert_near(seconds[1], 60.0, 1e-9, "the second");
    assert_near(seconds[2], 60.0, 1e-9, "the third");
}

#[test]
fn what_has_ended_counts_no_more() {
    // One task at a time goes to the first of two free devices, however many there were before, and wherever they ended.
    let fallback = "fallback: (time: Constant(\"20s\"))";
    for (rest, seconds) in
        [("", 60.0), ("faults: [AllocationFailure(class: \"task\", probability: 1.0)]", 0.0)]
    {
        let mut scenario = cards(2, 2, 6, 1, rest, fallback);
        scenario.arrivals = vec![Arrivals::Closed { class: "task".to_owned(), jobs: 6, in_flight: 1 }];
        let figures = run(&scenario, "two-lock");
        assert_eq!((figures.proofs, figures.devices[1].busy), (6, 0.0), "{rest}");
        assert_near(figures.devices[0].kernels_busy * figures.makespan_s, seconds, 1e-9, "the first device");
    }
}
