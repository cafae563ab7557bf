//! A device with the arbiter and the policy of production in front of it.

use std::collections::BTreeMap;

use interlock_arbiter::{Arbiter, ArbiterConfig, Command, Event, PolicySource, SeatedPolicy};
use interlock_policy_api::DeviceView;

use super::device::{Busy, Engines, Memory};
use super::task::Line;
use crate::figures::seconds;
use crate::scenario::{self, Limits};
use crate::{Quarantined, SimulateError};

/// The least time until an arbiter is woken for a deadline. No thread wakes up sooner either; and without it, time would stand as good as still
/// for a policy that asks to be asked again at once.
const WAKE_UP_NS: u64 = 1_000;

/// A task at the gates. Its place may have another task already when the arbiter is through with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtWork {
    pub id: u64,
    pub slot: u32,
    pub job: u64,
    pub partition: u32,
}

/// A device, who decides at its gates, and who works there.
pub(super) struct Seat {
    pub index: u32,
    pub capacity_bytes: u64,
    pub arbiter: Arbiter,
    pub policy: Box<dyn SeatedPolicy>,
    /// The policy that the seat has now.
    pub policy_name: String,
    pub engines: Engines,
    /// Cores of the host for uploads and kernels, where the device is the host itself.
    pub host_cores: Option<f64>,
    /// Kernels that run on the host.
    pub kernels_on_host: u32,
    pub memory: Memory,
    /// What the arbiter last said for [`Seat::device_view`]: until its next step that stays so.
    view: Option<DeviceView>,
    /// Tasks that were sent here, and have neither ended nor gone elsewhere.
    pub placed: u32,
    /// Tasks that wait for a worker.
    pub queue: Line,
    /// Workers with nothing to do, the last to become so on top.
    pub idle: Vec<u32>,
    /// The task that each worker has at the gates.
    pub at_work: Vec<Option<AtWork>>,
    pub lost: bool,
    /// Tasks in Compute.
    pub computing: u32,
    pub compute_busy: Busy,
    pub lock_wait_ns: BTreeMap<String, u64>,
    pub quarantines: Vec<Quarantined>,
    /// When the arbiter wants to be woken.
    pub deadline_ns: Option<u64>,
}

impl Seat {
    pub fn new(
        index: u32,
        device: &scenario::Device,
        workers: u32,
        limits: Limits,
        policy: &dyn PolicySource,
    ) -> Result<Self, SimulateError> {
        let capacity_bytes = device.vram.0;
        let config = ArbiterConfig { device: index, capacity_bytes, workers, limits: limits.into() };
        Ok(Self {
            index,
            capacity_bytes,
            arbiter: Arbiter::new(config, policy.locks().clone()),
            policy: seated(policy)?,
            policy_name: policy.name().to_owned(),
            engines: Engines::new(device),
            host_cores: device.host_cores,
            kernels_on_host: 0,
            memory: Memory::new(capacity_bytes),
            view: None,
            placed: 0,
            queue: Line::default(),
            idle: (0..workers).rev().collect(),
            at_work: vec![None; workers as usize],
            lost: false,
            computing: 0,
            compute_busy: Busy::default(),
            lock_wait_ns: BTreeMap::new(),
            quarantines: Vec::new(),
            deadline_ns: None,
        })
    }

    /// Feeds the arbiter. After a drain the fallback takes the seat, and what it lets in comes with the rest.
    pub fn step(
        &mut self,
        now_ns: u64,
        event: Event,
        fallback: &dyn PolicySource,
    ) -> Result<Vec<Command>, SimulateError> {
        let mut commands = self.feed(now_ns, event)?;
        while commands.last() == Some(&Command::Drained) {
            self.policy = seated(fallback)?;
            self.policy_name = fallback.name().to_owned();
            commands.extend(self.feed(now_ns, Event::Installed(fallback.locks().clone()))?);
        }
        let soonest_ns = now_ns.saturating_add(WAKE_UP_NS);
        self.deadline_ns = self.arbiter.next_deadline().map(|deadline_ns| deadline_ns.max(soonest_ns));
        Ok(commands)
    }

    fn feed(&mut self, now_ns: u64, event: Event) -> Result<Vec<Command>, SimulateError> {
        self.view = None;
        let commands = self.arbiter.step(now_ns, event, &mut *self.policy)?;
        for command in &commands {
            if let Command::Quarantined(why) = command {
                self.quarantines.push(Quarantined {
                    policy: self.policy_name.clone(),
                    device: self.index,
                    at_s: seconds(now_ns),
                    code: why.code(),
                    sentence: why.to_string(),
                });
            }
        }
        Ok(commands)
    }

    /// The device as a policy sees it that is asked where a task should go: with the tasks that wait for a worker.
    pub fn device_view(&mut self) -> DeviceView {
        let view = *self.view.get_or_insert_with(|| self.arbiter.device_view());
        DeviceView { tasks: self.placed, ..view }
    }

    /// The task with this id, and its worker.
    pub fn task(&self, id: u64) -> Option<(AtWork, u32)> {
        let found = |(worker, task): (usize, &Option<AtWork>)| {
            Some(((*task).filter(|task| task.id == id)?, worker as u32))
        };
        self.at_work.iter().enumerate().find_map(found)
    }

    /// The tasks at the gates.
    pub fn all_at_work(&self) -> Vec<AtWork> {
        self.at_work.iter().flatten().copied().collect()
    }
}

fn seated(policy: &dyn PolicySource) -> Result<Box<dyn SeatedPolicy>, SimulateError> {
    policy.seat().map_err(|reason| SimulateError::Policy { name: policy.name().to_owned(), reason })
}
