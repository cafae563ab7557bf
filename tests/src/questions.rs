//! Questions to a policy whose answers do not matter: what is looked at is whether, and how, it answers.

use interlock_engine::host::LoadedPolicy;
use interlock_engine::interlock::{PlaceError, PolicyFault, PolicyPort};
use interlock_policy_api::testing::{request, view};
use interlock_policy_api::{DeviceView, Observation, ObservationKind, Stage};

/// Something to tell a policy.
pub const SEEN: Observation = Observation {
    kind: ObservationKind::ENTERED,
    stage: Stage::STAGE,
    task: 1,
    now_ns: 0,
    duration_ns: 0,
    bytes: 0,
};

/// Two equal devices to choose from.
pub const DEVICES: [DeviceView; 2] =
    [DeviceView { capacity_bytes: 8, free_bytes: 8, tasks: 0, computing: 0 }; 2];

/// Calls everything once: decide, rank, place, observe, stats.
///
/// # Panics
/// When the policy places a task on a device that is not there.
pub fn ask_all(policy: &mut LoadedPolicy) -> [Result<(), PolicyFault>; 5] {
    let (request, view) = (request(Stage::STAGE), view(&[]));
    let place = policy.place(&request, &DEVICES).map_err(|error| match error {
        PlaceError::Fault(fault) => fault,
        PlaceError::NoSuchDevice { .. } => panic!("there are two devices"),
    });
    [
        policy.decide(&request, &view).map(drop),
        policy.rank(&request, &view).map(drop),
        place.map(drop),
        policy.observe(&SEEN),
        policy.stats().map(drop),
    ]
}
