//! A device: its engines, its memory, and the calls that act on all of it.
//!
//! Uploads, kernels and device-wide calls are handed over in order. As long as a call waits or acts, what comes after it is held back; it
//! acts when everything that was handed over before it has ended.

use std::collections::VecDeque;

use super::sharing::Sharing;
use super::task::Attempt;
use crate::scenario::{self, Kernels};

/// Something that a device does for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub kind: Kind,
    pub work_ns: u64,
    pub attempt: Attempt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Upload,
    Kernels,
    /// A device-wide call.
    Call,
}

/// The engines of a device, and what they do.
#[derive(Debug)]
pub(super) struct Engines {
    copy_engines: usize,
    compute_engines: usize,
    kernels: Kernels,
    uploading: usize,
    /// Uploads that wait for a copy engine.
    to_upload: VecDeque<Operation>,
    computing: Sharing<Attempt>,
    /// Kernels that wait for a compute engine.
    to_compute: VecDeque<Operation>,
    /// What is held back, a device-wide call in front; empty where there is none.
    held_back: VecDeque<Operation>,
    /// The call in front acts.
    calling: bool,
    busy: Busy,
}

impl Engines {
    pub fn new(device: &scenario::Device) -> Self {
        Self {
            copy_engines: device.copy_engines as usize,
            compute_engines: device.compute_engines as usize,
            kernels: device.kernels,
            uploading: 0,
            to_upload: VecDeque::new(),
            computing: Sharing::new(),
            to_compute: VecDeque::new(),
            held_back: VecDeque::new(),
            calling: false,
            busy: Busy::default(),
        }
    }

    /// Hands over an operation. Uploads and calls that begin are written to `begun`: they end after their time. Kernels end when
    /// [`Engines::next_ns`] says.
    pub fn hand_over(&mut self, now_ns: u64, operation: Operation, begun: &mut Vec<Operation>) {
        if operation.kind == Kind::Call || !self.held_back.is_empty() {
            self.held_back.push_back(operation);
            self.call(begun);
        } else {
            self.begin(now_ns, operation, begun);
        }
    }

    /// An upload has ended.
    pub fn upload_ended(&mut self, now_ns: u64, begun: &mut Vec<Operation>) {
        self.uploading -= 1;
        if let Some(next) = self.to_upload.pop_front() {
            self.begin(now_ns, next, begun);
        }
        self.call(begun);
    }

    /// The device-wide call that acted has ended.
    pub fn call_ended(&mut self, now_ns: u64, begun: &mut Vec<Operation>) {
        self.calling = false;
        self.held_back.pop_front();
        while let Some(next) = self.held_back.front().copied().filter(|next| next.kind != Kind::Call) {
            self.held_back.pop_front();
            self.begin(now_ns, next, begun);
        }
        self.call(begun);
    }

    /// When the next kernels end, if nothing changes before.
    pub fn next_ns(&self) -> Option<u64> {
        self.computing.next_ns()
    }

    /// Takes the task whose kernels end now.
    pub fn kernels_ended(&mut self, now_ns: u64, begun: &mut Vec<Operation>) -> Option<Attempt> {
        let ended = self.computing.take(now_ns)?;
        if let Some(next) = self.to_compute.pop_front() {
            self.begin(now_ns, next, begun);
        }
        self.share(now_ns);
        self.call(begun);
        Some(ended)
    }

    /// The device is lost: nothing it does will end.
    pub fn lose(&mut self, now_ns: u64) {
        self.uploading = 0;
        self.calling = false;
        [&mut self.to_upload, &mut self.to_compute, &mut self.held_back]
            .into_iter()
            .for_each(VecDeque::clear);
        self.computing.clear();
        self.busy.set(now_ns, false);
    }

    /// Says whether kernels run that run elsewhere: on the host.
    pub fn set_busy(&mut self, now_ns: u64, busy: bool) {
        self.busy.set(now_ns, busy);
    }

    /// Nanoseconds in which kernels ran.
    pub fn busy_ns(&self, now_ns: u64) -> u64 {
        self.busy.total_ns(now_ns)
    }

    fn begin(&mut self, now_ns: u64, operation: Operation, begun: &mut Vec<Operation>) {
        match operation.kind {
            Kind::Upload if self.uploading < self.copy_engines => {
                self.uploading += 1;
                begun.push(operation);
            }
            Kind::Upload => self.to_upload.push_back(operation),
            Kind::Kernels
                if self.kernels == Kernels::Alone && self.computing.len() >= self.compute_engines =>
            {
                self.to_compute.push_back(operation);
            }
            Kind::Kernels => {
                self.computing.add(now_ns, operation.work_ns, operation.attempt);
                self.share(now_ns);
            }
            Kind::Call => {}
        }
    }

    fn share(&mut self, now_ns: u64) {
        let (tasks, engines) = (self.computing.len(), self.compute_engines);
        let rate = match self.kernels {
            Kernels::Shared { throughput } if tasks > engines => {
                (engines as f64 * throughput / tasks as f64).min(1.0)
            }
            _ => 1.0,
        };
        self.computing.set_rate(now_ns, rate);
        self.busy.set(now_ns, tasks > 0);
    }

    /// The call in front acts as soon as everything before it has ended.
    fn call(&mut self, begun: &mut Vec<Operation>) {
        let still = self.uploading == 0
            && self.computing.len() == 0
            && self.to_upload.is_empty()
            && self.to_compute.is_empty();
        if still
            && !self.calling
            && let Some(call) = self.held_back.front()
        {
            self.calling = true;
            begun.push(*call);
        }
    }
}

/// How long something was so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    before_ns: u64,
    since_ns: Option<u64>,
}

impl Busy {
    pub fn set(&mut self, now_ns: u64, is: bool) {
        match (self.since_ns, is) {
            (None, true) => self.since_ns = Some(now_ns),
            (Some(since_ns), false) => {
                self.before_ns += now_ns - since_ns;
                self.since_ns = None;
            }
            _ => {}
        }
    }

    pub fn total_ns(&self, now_ns: u64) -> u64 {
        self.before_ns + self.since_ns.map_or(0, |since_ns| now_ns - since_ns)
    }
}

/// The memory of a device as tasks take it in truth, whatever they planned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    capacity: u64,
    taken: u64,
    /// The most that was taken at once.
    pub most: u64,
}

impl Memory {
    pub fn new(capacity: u64) -> Self {
        Self { capacity, taken: 0, most: 0 }
    }

    /// Whether that many bytes could be had; they are taken then.
    #[must_use]
    pub fn take(&mut self, bytes: u64) -> bool {
        let taken = self.taken.saturating_add(bytes);
        if taken > self.capacity {
            return false;
        }
        self.taken = taken;
        self.most = self.most.max(taken);
        true
    }

    pub fn give_back(&mut self, bytes: u64) {
        self.taken -= bytes;
    }
}
