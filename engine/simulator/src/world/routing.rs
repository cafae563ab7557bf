//! Where a task goes, and what becomes of tasks when a device is lost: as `routing.rs` of the engine's pipeline does it.

use interlock_arbiter::{Event, Outcome, TaskId};
use interlock_policy_api::{Request, RequestFlags, Stage, Strided, least_loaded};

use super::World;
use super::seat::AtWork;
use super::task::Doing;

/// Devices that one task may lose before it goes to the CPU core.
const MOST_LOSSES: u32 = 1;

impl World<'_> {
    /// Sends a task on its way to a device, or to the CPU core.
    pub(super) fn send(&mut self, slot: u32) {
        self.leave_device(slot);
        let has_lost = self.tasks[slot as usize].losses > MOST_LOSSES;
        if has_lost && self.class(slot).fallback.is_some() {
            self.send_to_fallback(slot);
            return;
        }
        match self.device_for(slot) {
            Some(device) => {
                let priority = self.priority(slot);
                self.task(slot).placed_on = Some(device);
                let seat = &mut self.seats[device as usize];
                seat.placed += 1;
                seat.queue.push(priority, slot);
                self.take_up(device);
            }
            None => self.send_to_fallback(slot),
        }
    }

    /// The device that a task goes to: the policy is asked where there is a choice.
    fn device_for(&mut self, slot: u32) -> Option<u32> {
        let peak_bytes = self.class(slot).peak_bytes();
        let fits: Vec<u32> = self
            .seats
            .iter()
            .filter(|seat| !seat.lost && seat.capacity_bytes >= peak_bytes)
            .map(|seat| seat.index)
            .collect();
        let &[first, _, ..] = fits.as_slice() else { return fits.first().copied() };
        let views: Vec<_> = fits.iter().map(|device| self.seats[*device as usize].device_view()).collect();
        let task = &self.tasks[slot as usize];
        let request = Request {
            task: 0,
            job: task.job,
            partition: task.partition,
            priority: self.priority(slot),
            gate: Stage::PREPARE,
            flags: RequestFlags::default(),
            arrival: 0,
            gate_since_ns: self.now_ns,
            held_bytes: 0,
            need_bytes: 0,
            peak_bytes,
        };
        let choice = self.seats[first as usize].policy.place(&request, &views);
        let choice = choice.unwrap_or_else(|_| least_loaded(Strided::new(&views)));
        fits.get(choice as usize).copied()
    }

    /// The device that a task was sent to does not count it any more.
    pub(super) fn leave_device(&mut self, slot: u32) {
        if let Some(device) = self.task(slot).placed_on.take() {
            self.seats[device as usize].placed -= 1;
        }
    }

    /// A device is lost: what runs on it fails, who waits leaves, whoever is past Compute goes on.
    pub(super) fn lose(&mut self, device: u32) {
        let seat = &mut self.seats[device as usize];
        if std::mem::replace(&mut seat.lost, true) {
            return;
        }
        seat.engines.lose(self.now_ns);
        let at_work = seat.all_at_work();
        let mut queued = Vec::new();
        while let Some(slot) = seat.queue.pop() {
            queued.push(slot);
        }
        self.record_lost(device);
        for AtWork { id, slot, .. } in at_work {
            let task = self.task(slot);
            // One that left just now may have ended, and given its place to another one.
            if task.id == id && task.doing.needs_device() {
                task.losses += 1;
                self.evict_entered(slot);
            }
        }
        self.leave_gates(device);
        queued.into_iter().for_each(|slot| self.send(slot));
    }

    /// A task that is inside a stage leaves a lost device.
    pub(super) fn evict_entered(&mut self, slot: u32) {
        if let Some(stage) = self.tasks[slot as usize].doing.stage() {
            self.leave_stage(slot, stage);
            self.record_failed(slot, stage, "device lost");
        }
        let task = &self.tasks[slot as usize];
        let event = Event::StageEnded { task: TaskId(task.id), outcome: Outcome::Failed };
        self.evict(slot, event);
    }

    /// Tasks that stand at the gates of a lost device leave it, unless only Finish is left.
    pub(super) fn leave_gates(&mut self, device: u32) {
        for AtWork { id, slot, .. } in self.seats[device as usize].all_at_work() {
            let task = &self.tasks[slot as usize];
            let leaves = task.id == id && task.doing == Doing::AtGate && !task.computed;
            if leaves && self.is_at_gate(slot) {
                let event = Event::Cancelled { task: TaskId(id) };
                self.evict(slot, event);
            }
        }
    }

    /// Whether the arbiter has a task at a gate: an end of its stage may not have been heard of yet.
    fn is_at_gate(&self, slot: u32) -> bool {
        let task = &self.tasks[slot as usize];
        self.seats[task.device as usize].arbiter.waiting().any(|waiting| waiting.0 == task.id)
    }

    fn evict(&mut self, slot: u32, event: Event) {
        self.free_memory(slot);
        let task = self.task(slot);
        task.doing = Doing::Nothing;
        task.attempt += 1;
        let (device, worker) = (task.device, task.worker);
        self.feed(device, event);
        self.seats[device as usize].idle.push(worker);
        self.send(slot);
    }
}
