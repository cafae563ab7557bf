//! The trait a policy implements.

use serde::de::DeserializeOwned;

use crate::{DeviceView, Manifest, Observation, Request, Strided, Verdict, View, WakeSet};

/// A scheduling policy: a lock table and a few small functions.
///
/// # Why the host asks and the policy never blocks
///
/// A policy that could block would need threads, a clock and a mutex of its own, and each would be a
/// way to lose a proof. Here the host owns all of that. It asks at every gate, and a policy answers
/// with plain data at once. It takes no lock: it *names* locks in its manifest and the host takes
/// them, all or nothing, together with the bytes. Time is [`View::now_ns`], nothing else, so the same
/// calls in the same order give the same answers and any run can be replayed.
///
/// # When it is asked
///
/// For each device there is one instance. A task in front of a gate is asked about when it arrives
/// there, and again when an event of its last [`WakeSet`] happens or its deadline passes. Among
/// waiters the one with the lowest [`Policy::rank`] is asked first.
///
/// # What each verdict does
///
/// - [`Verdict::enter`]: the locks that cover the stage and `reserve_bytes` are granted together.
/// - [`Verdict::skip`], at [`Stage::STAGE`](crate::Stage::STAGE) only: the task goes on to the Compute gate, where it
///   needs all of its bytes at once and uploads inside Compute.
/// - [`Verdict::wait`]: the task stays. With a deadline it is asked about again at that time, with
///   [`RequestFlags::DEADLINE_PASSED`](crate::RequestFlags::DEADLINE_PASSED) set; the deadline grants nothing by itself.
///
/// # What is refused
///
/// A verdict that cannot be carried out is refused: counted, shown in reports, told to
/// [`Policy::observe`], and the task stays at its gate until something is freed. Refused are an unknown kind,
/// `Skip` anywhere but at Stage, `Enter` while a lock is taken, `Enter` with fewer bytes than needed or more than the
/// task's peak, and `Enter` whose bytes do not fit or would leave the staged tasks unable to finish
/// one after another (the banker's check). So is a wait for nothing: no event and no deadline.
/// A panic counts as a refusal too. Too many in a row, and the host quarantines the policy and goes on with its fallback.
///
/// Only [`Policy::MANIFEST`] is required. The default policy enters as soon as it may and stages ahead
/// whenever there is room.
pub trait Policy: Sized + Send + 'static {
    /// Options from `plugins.ron`: what [`policy_options!`](crate::policy_options) made, or
    /// [`NoOptions`](crate::NoOptions).
    type Options: DeserializeOwned + Default;

    /// Name, version, locks, options, hooks.
    const MANIFEST: Manifest;

    /// Makes an instance for one device.
    ///
    /// # Errors
    /// A sentence that says which option is wrong and what would be right. The host refuses the policy.
    fn new(options: Self::Options) -> Result<Self, String>;

    /// Answers for one task at one gate. See the trait's text for what each verdict does.
    fn decide(&self, request: &Request, view: &View<'_>) -> Verdict {
        let _ = view;
        if request.grantable() { Verdict::enter(request.need_bytes) } else { Verdict::wait(WakeSet::FREED) }
    }

    /// The place of a waiter in line: lower goes first, ties go by arrival. Called only with
    /// [`Capabilities::RANK`](crate::Capabilities::RANK). The default is priority, then arrival.
    fn rank(&self, request: &Request, view: &View<'_>) -> i64 {
        let _ = view;
        -i64::from(request.priority)
    }

    /// The device a new task should go to, as an index into `devices`. Called only with
    /// [`Capabilities::PLACE`](crate::Capabilities::PLACE), and only where there is a choice. The default is the device with
    /// the fewest tasks, the one with the most free bytes among equals.
    fn place(&self, request: &Request, devices: Strided<'_, DeviceView>) -> u32 {
        let _ = request;
        least_loaded(devices)
    }

    /// Told what happened on the device. Called only with
    /// [`Capabilities::OBSERVE`](crate::Capabilities::OBSERVE). The one place where a policy changes its state.
    fn observe(&mut self, observation: &Observation) {
        let _ = observation;
    }

    /// The policy's own counters, for `policy stats` and reports. Called only with
    /// [`Capabilities::STATS`](crate::Capabilities::STATS).
    fn stats(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// The device with the fewest tasks, the one with the most free bytes among equals.
pub fn least_loaded(devices: Strided<'_, DeviceView>) -> u32 {
    let load = |device: &DeviceView| (device.tasks, u64::MAX - device.free_bytes);
    let best = devices.iter().enumerate().min_by_key(|(_, device)| load(device));
    best.map_or(0, |(index, _)| index as u32)
}
