//! What a switch came to.

use serde::{Deserialize, Serialize};

/// A switch of the policy: how far it has come and what it cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchReport {
    /// Its number: the first switch of an engine is 1.
    pub number: u64,
    /// The policy that was to be seated.
    pub policy: String,
    /// How far it has come.
    pub phase: SwitchPhase,
    /// Verdicts of the new policy so far, on all devices.
    pub decisions: u64,
    /// Verdicts that make its trial.
    pub trial_decisions: u64,
    /// The devices of the main core.
    pub devices: Vec<DeviceSwitch>,
    /// Proofs in the ten seconds before the switch, or since the first of them; none when there were no two.
    pub before: Option<Rate>,
    /// Proofs from the drain's begin until all devices had gone on.
    pub during: Option<Rate>,
    /// Proofs from then on to the trial's end, or to now.
    pub after: Option<Rate>,
}

/// How far a switch has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "phase")]
pub enum SwitchPhase {
    /// Devices drain.
    Draining,
    /// The new policy sits on all devices, and is watched.
    OnTrial,
    /// It passed its trial.
    Passed,
    /// It failed its trial, and devices go back.
    RollingBack {
        /// The device on which it failed.
        device: u32,
        /// In which way.
        reason: String,
    },
    /// All devices have gone back.
    RolledBack {
        /// The device on which it failed.
        device: u32,
        /// In which way.
        reason: String,
    },
    /// A later switch came before this one had passed its trial.
    Superseded {
        /// The policy of that switch.
        by: String,
    },
}

impl SwitchPhase {
    /// Whether nothing more will come.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Draining | Self::OnTrial | Self::RollingBack { .. })
    }
}

/// A device's part in a switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceSwitch {
    /// Index of the device.
    pub device: u32,
    /// What the core calls it.
    pub name: String,
    /// The policy that sat before.
    pub from: String,
    /// The policy that sits since.
    pub seated: String,
    /// From the old policy to the new one; none until that is seated.
    pub swap: Option<SwapTimes>,
    /// Back again, where the switch was rolled back.
    pub back: Option<SwapTimes>,
    /// The device is lost: nobody waits for it.
    pub lost: bool,
}

/// What one change of the policy in a seat took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapTimes {
    /// Nanoseconds from the drain's begin to the policy in its seat.
    pub drain_ns: u64,
    /// Tasks that stood at their gates when it was seated, and so had waited.
    pub waited: u64,
    /// Nanoseconds from the drain's begin, or from the first task that waited after it, to the first grant under the
    /// policy. None when no task waited, or when there has been no grant.
    pub pause_ns: Option<u64>,
}

/// Proofs over a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// How many.
    pub proofs: u64,
    /// In how many seconds.
    pub seconds: f64,
}

impl Rate {
    /// Proofs a second; 0 for no time.
    pub fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.proofs as f64 / self.seconds } else { 0.0 }
    }
}

impl SwitchReport {
    /// The longest time for which tasks of a device waited with no grant, in nanoseconds.
    pub fn longest_pause_ns(&self) -> Option<u64> {
        let swaps = self.devices.iter().flat_map(|device| [device.swap, device.back]).flatten();
        swaps.filter_map(|swap| swap.pause_ns).max()
    }
}
