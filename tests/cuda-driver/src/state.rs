//! The one state of the driver, and what every call goes through.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::Status;
use crate::books::{Books, Kind};
use crate::memory::Memory;
use crate::steer::Steering;

/// `CUDA_ERROR_INVALID_VALUE`.
pub const INVALID_VALUE: Status = 1;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: Status = 2;
/// `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: Status = 100;
/// `CUDA_ERROR_INVALID_DEVICE`.
pub const INVALID_DEVICE: Status = 101;
/// `CUDA_ERROR_INVALID_CONTEXT`.
pub const INVALID_CONTEXT: Status = 201;
/// `CUDA_ERROR_INVALID_HANDLE`.
pub const INVALID_HANDLE: Status = 400;

/// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`.
const ALREADY_REGISTERED: Status = 712;

/// How a function takes part in failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It concerns no device: it fails when it is named, never with `*`, and works when a device is lost.
    Host,
    /// It does nothing when it fails.
    Work,
    /// It does what it should even when it fails: what it reports is an error of earlier work. Waits and frees.
    Always,
}

/// All there is.
pub struct State {
    pub steering: Steering,
    pub books: Books,
    pub memory: Memory,
    /// Devices that are lost, and with which error.
    lost: BTreeMap<i32, Status>,
    /// Contexts by handle.
    contexts: BTreeMap<usize, i32>,
    next_handle: usize,
}

/// The variable that steers from the start.
const VARIABLE: &str = "INTERLOCK_TEST_DRIVER";

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    let words = std::env::var(VARIABLE).unwrap_or_default();
    let steering = words.parse().unwrap_or_else(|error| {
        // Going on without would test something else than was asked for.
        eprintln!("test driver: {VARIABLE}: {error}");
        std::process::exit(101)
    });
    Mutex::new(State {
        steering,
        books: Books::default(),
        memory: Memory::default(),
        lost: BTreeMap::new(),
        contexts: BTreeMap::new(),
        next_handle: 0x10_0000,
    })
});

thread_local! {
    /// The current context, as a handle.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The state, for this thread alone.
pub fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The current context of this thread, as a handle.
pub fn current() -> usize {
    CURRENT.get()
}

/// Makes a context current in this thread.
pub fn set_current(context: usize) {
    CURRENT.set(context);
}

impl State {
    /// Takes new steering; the counts begin afresh.
    pub fn steer(&mut self, steering: Steering) {
        self.steering = steering;
        self.lost.clear();
        self.books.calls.clear();
        (self.books.injected, self.books.nth, self.books.null_stream) = (0, 0, 0);
    }

    /// A handle that no other object has.
    pub fn new_handle(&mut self) -> usize {
        self.next_handle += 16;
        self.next_handle
    }

    /// The device of the current context; -1 without one.
    pub fn device(&self) -> i32 {
        self.contexts.get(&CURRENT.get()).copied().unwrap_or(-1)
    }

    /// Whether a device is there.
    pub fn check_device(&self, device: i32) -> Status {
        if (0..self.steering.devices).contains(&device) { 0 } else { INVALID_DEVICE }
    }

    /// Writes down that a device's context was retained.
    pub fn retained(&mut self, device: i32, context: usize) {
        self.contexts.insert(context, device);
        *self.books.contexts.entry(device).or_default() += 1;
    }

    /// Writes down that a device's context was given back. The last one takes all its objects with it.
    pub fn released(&mut self, device: i32) {
        let Some(count) = self.books.contexts.get_mut(&device).filter(|count| **count > 0) else {
            self.books
                .violation(format!("the context of device {device} is given back more often than taken"));
            return;
        };
        *count -= 1;
        if *count == 0 {
            let objects = self.books.take_all_of(device);
            if !self.lost.contains_key(&device) {
                self.books.left_behind += objects.len() as u64;
            }
            objects.iter().for_each(|(_, handle)| self.memory.free(*handle));
        }
    }

    /// Whether a context is current.
    pub fn check_current(&mut self, function: &str) -> Status {
        if self.device() >= 0 {
            return 0;
        }
        self.books.violation(format!("{function} without a current context"));
        INVALID_CONTEXT
    }

    /// Whether an object is there.
    pub fn check(&mut self, function: &str, kind: Kind, handle: usize) -> Status {
        if self.books.has(kind, handle) {
            return 0;
        }
        self.books.violation(format!("{function}: there is no {kind:?} {handle:#x}"));
        INVALID_HANDLE
    }

    /// Writes down that an object is given back: before it is, as its handle may be that of another one afterwards.
    pub fn give_back(&mut self, function: &str, kind: Kind, handle: usize) -> Status {
        let status = self.check(function, kind, handle);
        self.books.gone(kind, handle);
        status
    }

    /// Whether a stream is there; the null stream always is, and is counted.
    pub fn check_stream(&mut self, function: &str, stream: usize) -> Status {
        if stream == 0 {
            self.books.null_stream += 1;
            return self.check_current(function);
        }
        self.check(function, Kind::Stream, stream)
    }

    /// Whether host memory can be registered: none of it may be already.
    pub fn check_register(&mut self, function: &str, address: usize, bytes: usize) -> Status {
        match self.check_current(function) {
            0 if bytes == 0 => INVALID_VALUE,
            0 if self.books.overlaps(Kind::Registered, address, bytes as u64) => ALREADY_REGISTERED,
            status => status,
        }
    }

    /// Whether a range lies in one allocation of the device.
    pub fn check_range(&mut self, function: &str, address: u64, bytes: u64) -> Status {
        match self.books.room_at(Kind::Device, address as usize) {
            Some(room) if room >= bytes => 0,
            room => {
                self.books.violation(format!(
                    "{function}: {bytes} bytes at {address:#x}, where there are {room:?}"
                ));
                INVALID_VALUE
            }
        }
    }

    /// Whether a range of host memory is pinned as a whole or not at all: the driver copies nothing else.
    pub fn check_host(&mut self, function: &str, address: usize, bytes: u64) -> Status {
        for kind in [Kind::Pinned, Kind::Registered] {
            let room = self.books.room_at(kind, address).unwrap_or(0);
            if room < bytes && self.books.overlaps(kind, address, bytes) {
                self.books.violation(format!(
                    "{function}: of {bytes} bytes at {address:#x}, only a part is {kind:?}"
                ));
                return INVALID_VALUE;
            }
        }
        0
    }

    /// The error that this call has to report, if any.
    fn failure_of(&mut self, function: &'static str, class: Class) -> Option<Status> {
        *self.books.calls.entry(function).or_default() += 1;
        let device = self.device();
        let made_up = self.steering.failure_of(function, class == Class::Host);
        self.books.nth = self.steering.nth_met;
        if let Some(status) = self.lost.get(&device).filter(|_| class != Class::Host) {
            return Some(*status);
        }
        let (status, lose) = made_up?;
        self.books.injected += 1;
        if lose && device >= 0 {
            self.lost.insert(device, status);
        }
        Some(status)
    }
}

/// One call: asks whether it is to fail, checks it, does it (or has the real driver do it), writes it down.
pub fn call(
    (function, class): (&'static str, Class),
    check: impl FnOnce(&mut State) -> Status,
    real: Option<impl FnOnce() -> Status>,
    stand_in: impl FnOnce(&mut State) -> Status,
    note: impl FnOnce(&mut State),
) -> Status {
    let mut state = lock();
    let failure = state.failure_of(function, class);
    if let Some(status) = failure.filter(|_| class != Class::Always) {
        return status;
    }
    let mut status = check(&mut state);
    if status == 0 {
        status = match real {
            None => stand_in(&mut state),
            Some(real) => {
                // The real driver may take its time.
                drop(state);
                let status = real();
                state = lock();
                status
            }
        };
    }
    if status == 0 {
        note(&mut state);
    }
    failure.unwrap_or(status)
}
