//! Requests and views for the unit tests of a policy.
//!
//! ```
//! use interlock_policy_api::testing::{request, view};
//! use interlock_policy_api::{LockView, RequestFlags, Stage};
//!
//! let locks = [LockView { permits: 1, free: 0 }];
//! let mut view = view(&locks);
//! view.running[Stage::COMPUTE.index()] = 1;
//! let mut request = request(Stage::STAGE);
//! request.flags = RequestFlags::BYTES_FREE;
//! assert!(!request.grantable());
//! ```

use crate::{LockView, Request, RequestFlags, Stage, Strided, View};

/// The first task at `gate`, grantable: 4 MiB to stage, 6 MiB at the most. At Compute it was staged.
pub fn request(gate: Stage) -> Request {
    const STAGED: u64 = 4 << 20;
    const PEAK: u64 = 6 << 20;
    let flags = RequestFlags::LOCKS_FREE.with(RequestFlags::BYTES_FREE);
    let (held_bytes, need_bytes) = match gate {
        Stage::STAGE => (0, STAGED),
        Stage::COMPUTE => (STAGED, PEAK - STAGED),
        _ => (0, 0),
    };
    Request {
        task: 0,
        job: 0,
        partition: 0,
        priority: 0,
        gate,
        flags: flags.with_if(gate == Stage::COMPUTE, RequestFlags::STAGED),
        arrival: 0,
        gate_since_ns: 0,
        held_bytes,
        need_bytes,
        peak_bytes: PEAK,
    }
}

/// An idle device of 16 MiB with two workers, at time zero.
pub fn view(locks: &[LockView]) -> View<'_> {
    View {
        now_ns: 0,
        capacity_bytes: 16 << 20,
        free_bytes: 16 << 20,
        device: 0,
        workers: 2,
        waiting: [0; 4],
        running: [0; 4],
        staged: 0,
        locks: Strided::new(locks),
    }
}
