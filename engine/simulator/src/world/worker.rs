//! Workers: they make witnesses, take tasks to their device, try again what failed, and do what is left on the CPU.

use interlock_arbiter::{Event, Outcome, TaskId, TaskSpec};
use interlock_policy_api::Stage;

use super::host::Demand;
use super::seat::AtWork;
use super::task::{Attempt, Doing};
use super::{CpuTask, Next, World};
use crate::scenario::TaskClass;

/// Attempts of a worker at one task: the second one uploads inside Compute.
const MOST_TRIES: u32 = 2;

impl World<'_> {
    /// Idle synthesis workers take orders, as long as there are places for their witnesses.
    pub(super) fn synthesize(&mut self) {
        if !std::mem::replace(&mut self.synthesizing, true) {
            self.hand_out_orders();
            self.synthesizing = false;
        }
    }

    fn hand_out_orders(&mut self) {
        while self.places > 0 && !self.orders.is_empty() {
            let Some(worker) = self.idle_synthesis.pop() else { return };
            let Some(slot) = self.orders.pop() else { return };
            self.places -= 1;
            let now_ns = self.now_ns;
            let task = self.task(slot);
            task.has_place = true;
            task.begun_ns = now_ns;
            let work_ns = task.times.synthesis;
            let work = self.class(slot).synthesis.as_ref();
            match work.map(Demand::of) {
                Some(demand) => {
                    self.processor.begin(now_ns, demand, work_ns, CpuTask::Synthesis { slot, worker });
                }
                None => {
                    self.idle_synthesis.push(worker);
                    self.send(slot);
                }
            }
        }
    }

    pub(super) fn synthesized(&mut self, slot: u32, worker: u32) {
        self.idle_synthesis.push(worker);
        self.record_synthesized(slot, worker);
        self.send(slot);
        self.synthesize();
    }

    /// Gives back the task's place in the line of witnesses: another one may be made.
    pub(super) fn give_back_place(&mut self, slot: u32) {
        if std::mem::take(&mut self.task(slot).has_place) {
            self.places += 1;
            self.synthesize();
        }
    }

    /// Idle workers of a device take what waits there.
    pub(super) fn take_up(&mut self, device: u32) {
        loop {
            let seat = &mut self.seats[device as usize];
            if seat.queue.is_empty() {
                return;
            }
            let Some(worker) = seat.idle.pop() else { return };
            let Some(slot) = seat.queue.pop() else { return };
            let task = self.task(slot);
            (task.device, task.worker, task.tries) = (device, worker, 0);
            self.next.push_back(Next::Arrive { slot });
            self.give_back_place(slot);
        }
    }

    /// A new attempt at a task, on the device of its worker.
    pub(super) fn arrival(&mut self, slot: u32) -> (u32, Event) {
        self.ids += 1;
        let id = self.ids;
        let class = self.class(slot);
        let (priority, staged_bytes, peak_bytes) = (class.priority, class.staged.0, class.peak_bytes());
        let task = self.task(slot);
        task.id = id;
        task.attempt += 1;
        task.tries += 1;
        task.doing = Doing::AtGate;
        (task.inline, task.computed) = (false, false);
        let (device, worker) = (task.device, task.worker);
        let at_work = AtWork { id, slot, job: task.job, partition: task.partition };
        let spec = TaskSpec {
            task: TaskId(id),
            job: task.job,
            partition: task.partition,
            priority,
            staged_bytes,
            peak_bytes,
            retry: task.failed > 0,
        };
        self.seats[device as usize].at_work[worker as usize] = Some(at_work);
        self.record_arrived(slot);
        (device, Event::Arrived(spec))
    }

    /// CPU work of a stage, or of verifying.
    pub(super) fn begin_cpu(&mut self, slot: u32, doing: Doing) {
        let class = self.class(slot);
        let work = match doing {
            Doing::Prepare => Some(&class.prepare),
            Doing::Finish => Some(&class.finish),
            _ => class.verify.as_ref(),
        };
        let demand = work.map(Demand::of).unwrap_or_default();
        let now_ns = self.now_ns;
        let task = self.task(slot);
        (task.doing, task.since_ns) = (doing, now_ns);
        let work_ns = match doing {
            Doing::Prepare => task.times.prepare,
            Doing::Finish => task.times.finish,
            _ => task.times.verify,
        };
        let attempt = Attempt { slot, number: task.attempt };
        self.processor.begin(now_ns, demand, work_ns, CpuTask::Stage(attempt));
    }

    /// CPU work of an attempt has ended.
    pub(super) fn cpu_stage_ended(&mut self, attempt: Attempt) {
        let Some(task) = self.current(attempt) else { return };
        match task.doing {
            Doing::Verify => self.proved(attempt.slot),
            Doing::Finish => {
                self.stage_done(attempt.slot, Stage::FINISH);
                if self.class(attempt.slot).verify.is_some() {
                    self.begin_cpu(attempt.slot, Doing::Verify);
                } else {
                    self.proved(attempt.slot);
                }
            }
            _ => self.stage_done(attempt.slot, Stage::PREPARE),
        }
    }

    fn proved(&mut self, slot: u32) {
        let task = &self.tasks[slot as usize];
        let (device, worker) = (task.device, task.worker);
        if task.doing == Doing::Verify {
            self.record_verified(slot);
        }
        self.end(slot, true);
        self.free_worker(device, worker);
    }

    pub(super) fn free_worker(&mut self, device: u32, worker: u32) {
        self.seats[device as usize].idle.push(worker);
        self.take_up(device);
    }

    /// A stage failed, and not because the device was lost: the same worker tries again, inline, or the CPU core does.
    pub(super) fn stage_failed(&mut self, slot: u32, outcome: Outcome, why: &str) {
        let task = &self.tasks[slot as usize];
        let (device, worker, id, again) = (task.device, task.worker, task.id, task.tries < MOST_TRIES);
        if let Some(stage) = task.doing.stage() {
            self.leave_stage(slot, stage);
            self.record_failed(slot, stage, why);
        }
        self.feed(device, Event::StageEnded { task: TaskId(id), outcome });
        self.tally.failed();
        let task = self.task(slot);
        task.failed += 1;
        task.doing = Doing::Nothing;
        if again {
            self.tally.retries += 1;
            self.next.push_back(Next::Arrive { slot });
        } else {
            self.free_worker(device, worker);
            self.send_to_fallback(slot);
        }
    }

    /// Hands a task to the CPU core, or ends it where there is none for it.
    pub(super) fn send_to_fallback(&mut self, slot: u32) {
        self.leave_device(slot);
        if self.class(slot).fallback.is_none() {
            self.give_back_place(slot);
            self.end(slot, false);
            return;
        }
        self.tally.fallbacks += 1;
        let priority = self.priority(slot);
        self.fallback_queue.push(priority, slot);
        self.fall_back();
    }

    /// The worker of the CPU core takes the next task.
    fn fall_back(&mut self) {
        if self.fallback_busy {
            return;
        }
        let Some(slot) = self.fallback_queue.pop() else { return };
        self.fallback_busy = true;
        self.give_back_place(slot);
        let demand = self.class(slot).fallback.as_ref().map(Demand::of).unwrap_or_default();
        self.ids += 1;
        let (id, now_ns) = (self.ids, self.now_ns);
        let task = self.task(slot);
        (task.id, task.since_ns) = (id, now_ns);
        let work_ns = task.times.fallback;
        self.record_fallback_begun(slot);
        self.processor.begin(now_ns, demand, work_ns, CpuTask::Fallback { slot });
    }

    pub(super) fn fallback_ended(&mut self, slot: u32) {
        self.record_fallback_ended(slot);
        let Some(demand) = self.class(slot).verify.as_ref().map(Demand::of) else {
            self.fallback_done(slot);
            return;
        };
        let now_ns = self.now_ns;
        let task = self.task(slot);
        task.since_ns = now_ns;
        let work_ns = task.times.verify;
        self.processor.begin(now_ns, demand, work_ns, CpuTask::FallbackVerify { slot });
    }

    pub(super) fn fallback_verified(&mut self, slot: u32) {
        self.record_fallback_verified(slot);
        self.fallback_done(slot);
    }

    fn fallback_done(&mut self, slot: u32) {
        self.end(slot, true);
        self.fallback_busy = false;
        self.fall_back();
    }

    pub(super) fn class(&self, slot: u32) -> &TaskClass {
        &self.scenario.classes[self.tasks[slot as usize].class]
    }
}
