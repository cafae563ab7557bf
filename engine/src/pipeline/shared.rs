//! What the threads of an engine share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc;

use interlock_policy_api::DeviceView;
use parking_lot::Mutex;

use super::job::{PartitionOutcome, WitnessSource};
use super::queue::{Places, PriorityQueue};
use super::seat::{Clock, Seat};
use super::switch::Board;
use super::worker::{self, Line, ReadyTask};
use crate::core::{Plan, ProvingKey};
use crate::interlock::Recorder;
use crate::proof::Verifier;

/// What the tasks of a job share.
pub(super) struct JobContext {
    pub job: u64,
    pub priority: i32,
    pub key: Arc<ProvingKey>,
    /// What a task needs on the main core.
    pub plan: Plan,
    pub verifier: Verifier,
    pub outcomes: mpsc::Sender<PartitionOutcome>,
    pub cancelled: AtomicBool,
}

impl JobContext {
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }
}

/// A partition whose witness is still to be made.
pub(super) struct Order {
    pub context: Arc<JobContext>,
    pub partition: u32,
    pub source: WitnessSource,
}

/// A device and the tasks that wait for one of its workers.
pub(super) struct SeatWithQueue {
    pub seat: Seat,
    pub queue: PriorityQueue<ReadyTask>,
    placed: Arc<AtomicU32>,
}

impl SeatWithQueue {
    pub fn new(seat: Seat) -> Self {
        Self { seat, queue: PriorityQueue::new(), placed: Arc::default() }
    }

    /// Counts a task that is sent here, for as long as the answer is kept.
    pub fn count_task(&self) -> Placed {
        self.placed.fetch_add(1, Ordering::SeqCst);
        Placed(self.placed.clone())
    }

    /// The device as a policy sees it that is asked where a task should go: with the tasks that are on their way to
    /// it or wait for a worker, of which its arbiter does not know yet.
    pub fn device_view(&self) -> DeviceView {
        DeviceView { tasks: self.placed.load(Ordering::SeqCst), ..self.seat.device_view() }
    }
}

/// A task's place among those that were sent to a device and have neither ended nor gone elsewhere.
pub(super) struct Placed(Arc<AtomicU32>);

impl Drop for Placed {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What all threads of an engine share.
pub(super) struct Shared {
    pub clock: Clock,
    /// The main core's devices, then those of the fallback core.
    pub seats: Vec<SeatWithQueue>,
    pub main_seats: usize,
    pub synthesis: PriorityQueue<Order>,
    pub places: Places,
    /// Places of tasks that wait for the fallback core: it takes from them only, so that it never waits for the main core.
    pub fallback_places: Places,
    pub recorder: Arc<dyn Recorder>,
    pub verify_proofs: bool,
    pub board: Arc<Board>,
    /// Held from the look at the devices until the task that is placed counts there: the next one sees it.
    pub placing: Mutex<()>,
    next_job: AtomicU64,
    next_task: AtomicU64,
    stopping: AtomicBool,
    /// Partitions submitted and not yet ended: device queues close when a stopping engine has none.
    open_tasks: AtomicU64,
}

impl Shared {
    /// `main_seats` of the seats are the main core's; at most `places` witnesses wait for a device worker.
    pub fn new(
        clock: Clock,
        seats: Vec<SeatWithQueue>,
        main_seats: usize,
        places: usize,
        recorder: Arc<dyn Recorder>,
        verify_proofs: bool,
        board: Arc<Board>,
    ) -> Self {
        Self {
            clock,
            seats,
            main_seats,
            synthesis: PriorityQueue::new(),
            places: Places::new(places),
            fallback_places: Places::new(places),
            recorder,
            verify_proofs,
            board,
            placing: Mutex::new(()),
            next_job: AtomicU64::new(1),
            next_task: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            open_tasks: AtomicU64::new(0),
        }
    }

    /// The main core's devices: at least one.
    pub fn main(&self) -> &[SeatWithQueue] {
        &self.seats[..self.main_seats]
    }

    pub fn next_job(&self) -> u64 {
        self.next_job.fetch_add(1, Ordering::Relaxed)
    }

    pub fn next_task(&self) -> u64 {
        self.next_task.fetch_add(1, Ordering::Relaxed)
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub fn is_given_up(&self, context: &JobContext) -> bool {
        self.is_stopping() || context.is_cancelled()
    }

    /// Puts an order in line, or ends it when the engine has stopped.
    pub fn take_order(&self, order: Order) {
        self.open_tasks.fetch_add(1, Ordering::SeqCst);
        if let Err(order) = self.synthesis.push(order.context.priority, order) {
            self.cancel_order(order);
        }
    }

    /// Hands an outcome to whoever waits for the job.
    pub fn end(&self, context: &JobContext, outcome: PartitionOutcome) {
        if outcome.result.is_ok() {
            self.board.proved();
        }
        // The receiver may be gone: then nobody wants to know.
        let _ = context.outcomes.send(outcome);
        if self.open_tasks.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.close_if_done();
        }
    }

    fn cancel_order(&self, order: Order) {
        worker::end_cancelled(self, &order.context, order.partition);
    }

    pub fn cancel(&self, context: &JobContext) {
        context.cancelled.store(true, Ordering::SeqCst);
        for order in self.synthesis.remove(|order| order.context.job == context.job) {
            self.cancel_order(order);
        }
        for device in &self.seats {
            for mut task in device.queue.remove(|task| task.context.job == context.job) {
                self.give_back_place(&mut task);
                worker::end_given_up(self, task);
            }
            device.seat.wake();
        }
    }

    /// Gives back the task's place in its line: another witness may be made, or wait.
    pub fn give_back_place(&self, task: &mut ReadyTask) {
        match task.place.take() {
            Some(Line::New) => self.places.give_back(),
            Some(Line::Fallback) => self.fallback_places.give_back(),
            None => {}
        }
    }

    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        for order in self.synthesis.remove(|_| true) {
            self.cancel_order(order);
        }
        self.synthesis.close();
        self.close_if_done();
    }

    fn close_if_done(&self) {
        if self.is_stopping() && self.open_tasks.load(Ordering::SeqCst) == 0 {
            for device in &self.seats {
                device.queue.close();
            }
        }
    }
}
