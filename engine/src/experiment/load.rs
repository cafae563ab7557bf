//! Jobs sent to an engine, and when each of them ended.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::pipeline::{Engine, Job, PartitionOutcome, TaskError};

/// How jobs come.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// The next one comes when one has ended, so that as many are on their way at all times.
    Closed {
        /// Jobs on their way at once.
        in_flight: u32,
    },
    /// They come when they come, whatever the engine does: a Poisson process.
    Poisson {
        /// Jobs per second, on average.
        jobs_per_s: f64,
    },
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { in_flight } => write!(f, "{in_flight} on their way at once"),
            Self::Poisson { jobs_per_s } => write!(f, "{jobs_per_s} a second at random times"),
        }
    }
}

/// What one run sends.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Load {
    /// Jobs that are measured.
    pub jobs: u32,
    /// Jobs before them that are not.
    pub warm_up: u32,
    /// How they come.
    pub arrivals: Arrivals,
}

/// What came of a run's jobs. Times are nanoseconds since the engine was asked for the first of them.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// The part of the run that is measured: from and to.
    pub window_ns: (u64, u64),
    /// Proofs that came inside the window.
    pub proofs: u64,
    /// Nanoseconds from when a job came to its last proof, of the jobs that are measured.
    pub latencies_ns: Vec<u64>,
}

/// Why a run says nothing about its arm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The engine took no job.
    #[error("the engine took no job: {0}")]
    Refused(String),
    /// A proof could not be made.
    #[error("{partition} has no proof: {reason}")]
    NoProof {
        /// What the partition is called.
        partition: String,
        /// Why, with all causes.
        reason: String,
    },
    /// Somebody stopped it.
    #[error("stopped")]
    Stopped,
    /// The time was over before it came to its end.
    #[error("the time was over")]
    TimeOver,
}

/// One job that ended.
struct Ended {
    came_ns: u64,
    ended_ns: u64,
}

/// What ends a run before it comes to its end.
#[derive(Clone, Copy)]
pub struct Until<'a> {
    /// Once set.
    pub stop: &'a AtomicBool,
    /// At this time.
    pub deadline: Option<Instant>,
}

impl Until<'_> {
    fn reached(&self) -> Option<LoadError> {
        if self.stop.load(Ordering::SeqCst) {
            Some(LoadError::Stopped)
        } else if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Some(LoadError::TimeOver)
        } else {
            None
        }
    }
}

/// The jobs that a run sends.
#[derive(Clone, Copy)]
pub struct Jobs<'a> {
    /// Makes one.
    pub make: &'a (dyn Fn() -> Job + Sync),
    /// What its partitions are called.
    pub names: &'a [String],
}

/// Sends `load` to an engine, and stops the engine when all that is measured has been answered. `seed` says when the jobs of a Poisson process come.
///
/// # Errors
/// The first failure of any job, or what `until` says.
pub fn drive(
    engine: &Engine,
    load: &Load,
    seed: u64,
    until: Until<'_>,
    jobs: Jobs<'_>,
) -> Result<Answered, LoadError> {
    let driver = Driver {
        engine,
        start: Instant::now(),
        total: u64::from(load.warm_up) + u64::from(load.jobs),
        ended: Mutex::new(Vec::new()),
        proofs_ns: Mutex::new(Vec::new()),
        failure: Mutex::new(None),
        over: AtomicBool::new(false),
        until,
        jobs,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| driver.watch());
        match load.arrivals {
            Arrivals::Closed { in_flight } => driver.closed_loop(in_flight),
            Arrivals::Poisson { jobs_per_s } => driver.open_loop(&arrival_times(load, jobs_per_s, seed)),
        }
        // Nobody has to be watched any more.
        driver.over.store(true, Ordering::SeqCst);
    });
    driver.answered(load)
}

/// When each job comes, in nanoseconds.
fn arrival_times(load: &Load, jobs_per_s: f64, seed: u64) -> Vec<u64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut at = 0.0;
    (0..u64::from(load.warm_up) + u64::from(load.jobs))
        .map(|_| {
            // The time between arrivals of a Poisson process is exponential.
            at += -(1.0 - random.r#gen::<f64>()).ln() / jobs_per_s;
            (at * 1e9) as u64
        })
        .collect()
}

struct Driver<'a> {
    engine: &'a Engine,
    start: Instant,
    total: u64,
    /// In the order in which they ended.
    ended: Mutex<Vec<Ended>>,
    /// When each proof came, of whichever job.
    proofs_ns: Mutex<Vec<u64>>,
    failure: Mutex<Option<LoadError>>,
    /// Nothing more is needed.
    over: AtomicBool,
    until: Until<'a>,
    jobs: Jobs<'a>,
}

/// How long what ends a run may go unnoticed.
const NAP: Duration = Duration::from_millis(50);

impl Driver<'_> {
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn closed_loop(&self, in_flight: u32) {
        std::thread::scope(|scope| {
            for _ in 0..in_flight {
                scope.spawn(|| {
                    while !self.is_over() {
                        self.send(self.now_ns());
                    }
                });
            }
        });
    }

    fn open_loop(&self, times_ns: &[u64]) {
        std::thread::scope(|scope| {
            for at_ns in times_ns.iter().copied() {
                self.sleep_until(at_ns);
                if self.is_over() {
                    break;
                }
                // From when it should have come: what waits because the engine is slow to take jobs has waited.
                scope.spawn(move || self.send(at_ns));
            }
        });
    }

    /// Ends the run when it is to end: whoever waits for a job looks at nothing else.
    fn watch(&self) {
        while !self.is_over() {
            std::thread::sleep(NAP);
        }
    }

    fn sleep_until(&self, at_ns: u64) {
        while !self.is_over() {
            let left = Duration::from_nanos(at_ns.saturating_sub(self.now_ns()));
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    fn is_over(&self) -> bool {
        if self.over.load(Ordering::SeqCst) {
            return true;
        }
        match self.until.reached() {
            Some(error) => {
                self.fail(error);
                true
            }
            None => false,
        }
    }

    /// Sends one job and waits for it.
    fn send(&self, came_ns: u64) {
        let handle = match self.engine.submit((self.jobs.make)()) {
            Ok(handle) => handle,
            Err(error) => {
                if !self.over.load(Ordering::SeqCst) {
                    self.fail(LoadError::Refused(error.to_string()));
                }
                return;
            }
        };
        for outcome in handle.outcomes() {
            match outcome.result {
                Ok(_) => lock(&self.proofs_ns).push(self.now_ns()),
                // Not needed any more.
                Err(TaskError::Cancelled) => return,
                Err(_) => return self.fail(failure(&outcome, self.jobs.names)),
            }
        }
        let mut ended = lock(&self.ended);
        ended.push(Ended { came_ns, ended_ns: self.now_ns() });
        if ended.len() as u64 == self.total {
            self.finish();
        }
    }

    fn fail(&self, error: LoadError) {
        lock(&self.failure).get_or_insert(error);
        self.finish();
    }

    fn finish(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.engine.stop_handle().stop();
    }

    /// The figures of the window. In a closed loop it begins when the last job of the warm-up ended, with as many jobs on their way as ever;
    /// else when the first job that is measured came.
    fn answered(&self, load: &Load) -> Result<Answered, LoadError> {
        if let Some(error) = lock(&self.failure).take() {
            return Err(error);
        }
        let (mut ended, proofs_ns) = (lock(&self.ended), lock(&self.proofs_ns));
        let warm_up = load.warm_up as usize;
        let from_ns = match load.arrivals {
            Arrivals::Closed { .. } => warm_up.checked_sub(1).map_or(0, |last| ended[last].ended_ns),
            Arrivals::Poisson { .. } => {
                ended.sort_by_key(|job| job.came_ns);
                ended[warm_up].came_ns
            }
        };
        // Jobs that came to their end while the engine was being stopped are beyond what was asked for.
        let measured = &ended[warm_up..self.total as usize];
        let to_ns = measured.iter().map(|job| job.ended_ns).max().unwrap_or(from_ns);
        let proofs = proofs_ns.iter().filter(|at_ns| (from_ns + 1..=to_ns).contains(*at_ns)).count() as u64;
        Ok(Answered {
            window_ns: (from_ns, to_ns),
            proofs,
            latencies_ns: measured.iter().map(|job| job.ended_ns - job.came_ns).collect(),
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics with it")
}

fn failure(outcome: &PartitionOutcome, names: &[String]) -> LoadError {
    let mut reason = String::new();
    let mut error = outcome.result.as_ref().err().map(|error| error as &dyn std::error::Error);
    while let Some(cause) = error {
        let text = cause.to_string();
        // Some errors tell their cause themselves.
        if !reason.ends_with(&text) {
            reason += if reason.is_empty() { "" } else { ": " };
            reason += &text;
        }
        error = cause.source();
    }
    let index = outcome.report.partition;
    let partition = names.get(index as usize).map_or_else(|| format!("partition {index}"), Clone::clone);
    LoadError::NoProof { partition, reason }
}
