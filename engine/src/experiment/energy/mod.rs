//! Energy of the devices of a run, where their driver counts it.
//!
//! NVIDIA's driver keeps a counter of millijoules for each card from Volta on, and tells it through its management library,
//! NVML. The counter moves in steps of some tens of milliseconds, so that what it says at the two ends of a run is of some
//! time before them. It is therefore read all through the run: [`Log`] says what is made of that.
//!
//! Cards are found by the UUID that the core tells: NVML counts them in another order than CUDA, and knows those that
//! `CUDA_VISIBLE_DEVICES` hides.

mod log;

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use serde::{Deserialize, Serialize};

use self::log::Log;
pub use self::log::{EnergyError, SHORTEST_S as SHORTEST_ENERGY_S};
use crate::core::Device;

/// NVML's library, which comes with the driver.
const NVML: &str = "libnvidia-ml.so.1";

/// How often counters are read: often enough to see when they moved, and seldom enough to be no load.
const PERIOD: Duration = Duration::from_millis(20);

/// What the devices of an arm used inside the window of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// Joules.
    pub joules: f64,
    /// Joules for each proof that came inside the window.
    pub joules_per_proof: f64,
    /// Joules over the window's length: watts.
    pub mean_watts: f64,
}

/// The driver's management library.
pub struct Meter(Nvml);

impl Meter {
    /// That of this machine's driver; `None` where there is none.
    pub fn of_driver() -> Option<Self> {
        Self::of_library(Path::new(NVML))
    }

    /// As [`Meter::of_driver`], from a library at some other place.
    pub fn of_library(file: &Path) -> Option<Self> {
        let opened = Nvml::builder().lib_path(file.as_os_str()).init();
        opened.map(Self).inspect_err(|error| tracing::debug!("{}: {error}", file.display())).ok()
    }

    /// The counters of some devices; `None` unless each has one.
    pub fn counters(&self, devices: &[Device]) -> Option<Counters<'_>> {
        let counter = |device: &Device| {
            let card = self.0.device_by_uuid(device.uuid.as_deref()?).ok()?;
            // One that cannot be read now is there nonetheless: the run says why it is not known.
            let has_none = matches!(
                card.total_energy_consumption(),
                Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_))
            );
            (!has_none).then_some(card)
        };
        devices.iter().map(counter).collect::<Option<Vec<_>>>().map(Counters)
    }
}

/// Counters of energy, one for each device of an arm.
pub struct Counters<'a>(Vec<nvml_wrapper::Device<'a>>);

impl Counters<'_> {
    /// Does `work` while the counters are read by a thread beside it. Times are counted from `start`.
    pub fn watch<T>(&self, start: Instant, work: impl FnOnce() -> T) -> (T, Watched) {
        let (done, is_done) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let mut logs: Vec<Log> = self.0.iter().map(|_| Log::default()).collect();
                loop {
                    for (card, log) in self.0.iter().zip(&mut logs) {
                        let reading = card.total_energy_consumption().map_err(|error| error.to_string());
                        log.note(start.elapsed().as_nanos() as u64, reading);
                    }
                    // Nothing is ever sent: the other end goes away.
                    if is_done.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                        return Watched(logs);
                    }
                }
            });
            let result = work();
            drop(done);
            (result, reader.join().expect("it only reads counters"))
        })
    }
}

/// What counters said in the course of a run.
pub struct Watched(Vec<Log>);

impl Watched {
    /// What all devices together used in a part of the time, in which so many proofs came.
    ///
    /// # Errors
    /// That of the first device of which it is not known.
    pub fn within(&self, window_ns: (u64, u64), proofs: u64) -> Result<Energy, EnergyError> {
        let mean_watts = self.0.iter().map(|log| log.watts(window_ns)).sum::<Result<f64, _>>()?;
        let joules = mean_watts * (window_ns.1 - window_ns.0) as f64 / 1e9;
        Ok(Energy { joules, joules_per_proof: joules / proofs as f64, mean_watts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_added_up() {
        let watched = Watched([120, 300].map(steady).into());
        // By hand: 420 W for 2.5 s are 1050 J, for 7 proofs 150 J each.
        let energy = watched.within((500_000_000, 3_000_000_000), 7);
        assert_eq!(energy, Ok(Energy { joules: 1050.0, joules_per_proof: 150.0, mean_watts: 420.0 }));
    }

    fn steady(watts: u64) -> Log {
        let mut log = Log::default();
        (0..=40).for_each(|step| log.note(step * 100_000_000, Ok(step * watts * 100)));
        log
    }

    #[test]
    fn of_one_device_too_few_none_is_told() {
        let mut broken = steady(100);
        broken.note(5_000_000_000, Err("gone".to_owned()));
        let watched = Watched(vec![steady(100), broken]);
        let energy = watched.within((500_000_000, 3_000_000_000), 7);
        assert_eq!(energy, Err(EnergyError::Unread("gone".to_owned())));
    }

    #[test]
    fn without_a_driver_there_is_no_meter() {
        assert!(Meter::of_library(Path::new("/nonexistent/libnvidia-ml.so.1")).is_none());
    }
}
