//! What a task does inside its stages.

use interlock_arbiter::{Event, Outcome, TaskId};
use interlock_policy_api::Stage;
use rand::Rng;

use super::device::{Kind, Operation};
use super::host::Demand;
use super::task::{Attempt, Doing};
use super::{CpuTask, Timer, World};
use crate::scenario::{CallSite, Fault};

impl World<'_> {
    /// The arbiter let a task in.
    pub(super) fn enter(&mut self, slot: u32, stage: Stage, inline: bool) {
        let task = &self.tasks[slot as usize];
        let device = task.device;
        if self.seats[device as usize].lost && !task.computed {
            self.evict_entered(slot);
            return;
        }
        match stage {
            Stage::PREPARE => self.begin_cpu(slot, Doing::Prepare),
            Stage::STAGE => {
                self.task(slot).since_ns = self.now_ns;
                self.call_or(slot, CallSite::Stage, Doing::StageCall);
            }
            Stage::COMPUTE => {
                self.set_computing(device, 1);
                let now_ns = self.now_ns;
                let task = self.task(slot);
                (task.since_ns, task.inline) = (now_ns, inline);
                if inline {
                    self.call_or(slot, CallSite::Inline, Doing::InlineCall);
                } else {
                    self.begin_kernels(slot);
                }
            }
            _ => self.begin_cpu(slot, Doing::Finish),
        }
    }

    /// Makes a device-wide call where the class makes one, and goes on at once where it makes none.
    fn call_or(&mut self, slot: u32, site: CallSite, doing: Doing) {
        self.task(slot).doing = doing;
        match &self.class(slot).device_wide {
            Some(calls) if calls.at.contains(&site) => {
                let work_ns = calls.time.0;
                self.hand_over(slot, Kind::Call, work_ns);
            }
            _ => self.call_ended(slot),
        }
    }

    /// An upload or a device-wide call of an attempt has ended.
    pub(super) fn operation_ended(&mut self, attempt: Attempt) {
        let slot = attempt.slot;
        let Some(task) = self.current(attempt) else { return };
        match task.doing {
            Doing::StageUpload => self.stage_done(slot, Stage::STAGE),
            Doing::InlineUpload => self.begin_kernels(slot),
            _ => self.call_ended(slot),
        }
    }

    fn call_ended(&mut self, slot: u32) {
        let (stage_ns, inline_ns) = (self.task(slot).times.stage, self.task(slot).times.inline);
        match self.task(slot).doing {
            Doing::StageCall => self.begin_upload(slot, Doing::StageUpload, stage_ns),
            Doing::InlineCall => self.begin_upload(slot, Doing::InlineUpload, inline_ns),
            _ => self.stage_done(slot, Stage::COMPUTE),
        }
    }

    fn begin_upload(&mut self, slot: u32, doing: Doing, work_ns: u64) {
        let bytes = self.class(slot).actual().staged.0;
        if self.allocate(slot, bytes) {
            self.task(slot).doing = doing;
            self.hand_over(slot, Kind::Upload, work_ns);
        }
    }

    fn begin_kernels(&mut self, slot: u32) {
        // The failure, if it comes to that, is one of Compute.
        self.task(slot).doing = Doing::Kernels;
        let bytes = self.class(slot).actual().extra.0;
        if self.allocate(slot, bytes) {
            let work_ns = self.task(slot).times.compute;
            self.hand_over(slot, Kind::Kernels, work_ns);
        }
    }

    pub(super) fn kernels_ended(&mut self, attempt: Attempt) {
        if self.current(attempt).is_some() {
            self.call_or(attempt.slot, CallSite::Free, Doing::FreeCall);
        }
    }

    /// Takes device memory, in truth and not in plan. Where there is none, or a fault says so, the stage fails.
    fn allocate(&mut self, slot: u32, bytes: u64) -> bool {
        let name = self.class(slot).name.as_str();
        let chance_of = |fault: &Fault| match fault {
            Fault::AllocationFailure { class, probability } if class == name => Some(*probability),
            _ => None,
        };
        let chances: Vec<f64> = self.scenario.faults.iter().filter_map(chance_of).collect();
        if chances.into_iter().any(|probability| self.chance.gen_bool(probability)) {
            self.stage_failed(slot, Outcome::AllocationFailed, "allocation failure of the scenario");
            return false;
        }
        let device = self.task(slot).device;
        if self.seats[device as usize].memory.take(bytes) {
            self.task(slot).taken_bytes += bytes;
            return true;
        }
        self.tally.out_of_memory(self.now_ns);
        self.stage_failed(slot, Outcome::AllocationFailed, "out of memory");
        false
    }

    fn hand_over(&mut self, slot: u32, kind: Kind, work_ns: u64) {
        let task = &self.tasks[slot as usize];
        let (device, number) = (task.device, task.attempt);
        if let Some(cores) = self.seats[device as usize].host_cores.filter(|_| kind != Kind::Call) {
            let attempt = Attempt { slot, number };
            self.set_kernels_on_host(device, kind, 1);
            let what = CpuTask::OnHost { device, kind, attempt };
            self.processor.begin(self.now_ns, Demand::of_cores(cores), work_ns, what);
            return;
        }
        let operation = Operation { kind, work_ns, attempt: Attempt { slot, number } };
        self.seats[device as usize].engines.hand_over(self.now_ns, operation, &mut self.begun);
        self.operations_begun(device);
    }

    /// An upload or kernels on a device that is the host itself have ended.
    pub(super) fn on_host_ended(&mut self, device: u32, kind: Kind, attempt: Attempt) {
        self.set_kernels_on_host(device, kind, -1);
        match kind {
            Kind::Kernels => self.kernels_ended(attempt),
            Kind::Upload | Kind::Call => self.operation_ended(attempt),
        }
    }

    fn set_kernels_on_host(&mut self, device: u32, kind: Kind, change: i32) {
        if kind == Kind::Kernels {
            let seat = &mut self.seats[device as usize];
            seat.kernels_on_host = seat.kernels_on_host.saturating_add_signed(change);
            seat.engines.set_busy(self.now_ns, seat.kernels_on_host > 0);
        }
    }

    /// Sets timers for uploads and calls that have begun.
    pub(super) fn operations_begun(&mut self, device: u32) {
        for index in 0..self.begun.len() {
            let Operation { kind, work_ns, attempt: Attempt { slot, number } } = self.begun[index];
            let upload = kind == Kind::Upload;
            self.set_timer(work_ns, Timer::Operation { device, upload, slot, attempt: number });
        }
        self.begun.clear();
    }

    /// A stage ended well.
    pub(super) fn stage_done(&mut self, slot: u32, stage: Stage) {
        let duration_ns = self.now_ns - self.tasks[slot as usize].since_ns;
        self.tally.ran(stage, self.tasks[slot as usize].inline, duration_ns);
        self.leave_stage(slot, stage);
        self.record_ended(slot, stage);
        let task = self.task(slot);
        task.doing = Doing::AtGate;
        task.computed |= stage == Stage::COMPUTE;
        let (device, id) = (task.device, task.id);
        self.feed(device, Event::StageEnded { task: TaskId(id), outcome: Outcome::Done });
    }

    /// What a task gives back when it leaves a stage, well or not, beyond what the arbiter knows.
    pub(super) fn leave_stage(&mut self, slot: u32, stage: Stage) {
        let device = self.task(slot).device;
        if stage == Stage::COMPUTE {
            self.set_computing(device, -1);
        }
        if stage >= Stage::COMPUTE || self.seats[device as usize].lost {
            self.free_memory(slot);
        }
    }

    pub(super) fn free_memory(&mut self, slot: u32) {
        let task = self.task(slot);
        let (device, bytes) = (task.device, std::mem::take(&mut task.taken_bytes));
        self.seats[device as usize].memory.give_back(bytes);
    }

    fn set_computing(&mut self, device: u32, change: i32) {
        let seat = &mut self.seats[device as usize];
        seat.computing = seat.computing.saturating_add_signed(change);
        seat.compute_busy.set(self.now_ns, seat.computing > 0);
    }
}
