//! Where a task goes: to a device of the main core that has room for it, else to the fallback core. And what
//! becomes of tasks when a device is lost.

use std::time::Instant;

use interlock_policy_api::{Request, RequestFlags, Stage};

use super::job::{AttemptError, PartitionOutcome, TaskError};
use super::seat::Seat;
use super::shared::{JobContext, Shared};
use super::worker::{Line, ReadyTask};
use crate::core::CoreError;

/// Devices that one task may lose before it goes to the fallback core: it may be the task that does it.
const MOST_LOSSES: u32 = 1;

impl Shared {
    /// Sends a new task on its way.
    pub fn send(&self, task: ReadyTask) {
        self.send_to(task, |task| {
            self.main_seat(&task.context, task.partition).or_else(|| self.fallback_seat())
        });
    }

    /// Sends on a task that could not be proved at seat `from`, or ends it where nobody else can.
    pub fn send_on(&self, from: usize, task: ReadyTask) {
        let (main, lost) = (from < self.main_seats, self.seats[from].seat.is_lost());
        let choose = |task: &ReadyTask| {
            let another = || self.main_seat(&task.context, task.partition).filter(|_| main && lost);
            let fallback = || self.fallback_seat().filter(|_| main || lost);
            if task.losses <= MOST_LOSSES { another().or_else(fallback) } else { fallback().or_else(another) }
        };
        self.send_to(task, choose);
    }

    /// Sends a task to the seat that `choose` names, or ends it where there is none.
    fn send_to(&self, mut task: ReadyTask, choose: impl FnOnce(&ReadyTask) -> Option<usize>) {
        let placing = self.placing.lock();
        let seat = choose(&task);
        task.placed = seat.map(|seat| self.seats[seat].count_task());
        drop(placing);
        if let Some(seat) = seat {
            if seat >= self.main_seats && task.place.is_none() {
                // Until the fallback core comes to one: witnesses must not pile up.
                self.fallback_places.take();
                task.place = Some(Line::Fallback);
            }
            task.ready_at = Instant::now();
            match self.seats[seat].queue.push(task.context.priority, task) {
                Ok(()) => return,
                Err(returned) => task = returned,
            }
        }
        self.give_back_place(&mut task);
        task.placed = None;
        if task.causes.is_empty() {
            // It was never begun: the devices it could have gone to are lost.
            task.causes.extend(self.main().iter().find_map(|device| device.seat.loss()));
        }
        let result = Err(TaskError::Failed { causes: task.causes });
        self.end(&task.context, PartitionOutcome { result, report: task.report });
    }

    /// The device of the main core that a task goes to: the policy is asked where there is a choice.
    fn main_seat(&self, context: &JobContext, partition: u32) -> Option<usize> {
        let peak_bytes = context.plan.peak_bytes();
        let fits = |seat: &Seat| !seat.is_lost() && seat.capacity_bytes() >= peak_bytes;
        let seats: Vec<usize> = (0..self.main_seats).filter(|seat| fits(&self.seats[*seat].seat)).collect();
        let &[first, _, ..] = seats.as_slice() else { return seats.first().copied() };
        let views: Vec<_> = seats.iter().map(|seat| self.seats[*seat].device_view()).collect();
        let request = Request {
            task: 0,
            job: context.job,
            partition,
            priority: context.priority,
            gate: Stage::PREPARE,
            flags: RequestFlags::default(),
            arrival: 0,
            gate_since_ns: self.clock.now_ns(),
            held_bytes: 0,
            need_bytes: 0,
            peak_bytes,
        };
        seats.get(self.seats[first].seat.place(&request, &views)).copied()
    }

    /// The first device of the fallback core that is not lost.
    fn fallback_seat(&self) -> Option<usize> {
        (self.main_seats..self.seats.len()).find(|seat| !self.seats[*seat].seat.is_lost())
    }

    /// Marks a device as lost. Tasks that wait at its gates leave it by themselves; those in its queue are sent on.
    pub fn lose(&self, seat: usize, message: &str) {
        let device = &self.seats[seat];
        if !device.seat.lose(message) {
            return;
        }
        self.board.lost(device.seat.device());
        let next = if self.main().iter().any(|device| !device.seat.is_lost()) && seat < self.main_seats {
            "the other devices of this core go on"
        } else if self.fallback_seat().is_some() {
            "the fallback core takes over"
        } else {
            "there is none left: tasks fail from now on"
        };
        let (core, number) = (device.seat.core.name(), device.seat.device());
        tracing::error!(core, device = number, name = device.seat.name(), "device lost: {message}; {next}");
        for task in device.queue.remove(|_| true) {
            self.send_on(seat, task);
        }
    }
}

impl Seat {
    /// The error of a task that can have no attempt here, when the device is lost.
    pub fn loss(&self) -> Option<AttemptError> {
        let (core, device, message) = (self.core.name(), self.device_in_core, self.lost()?);
        Some(CoreError::DeviceLost { core, device, message }.into())
    }
}
