//! What a policy is shown when it is asked: the request at the gate and the view of the device.

use crate::{Stage, Strided};

/// Facts about a [`Request`], as bits.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequestFlags(pub u32);

impl RequestFlags {
    /// The task's data is already in device memory.
    pub const STAGED: RequestFlags = RequestFlags(1);
    /// Every lock that entering this gate takes has a free permit now.
    pub const LOCKS_FREE: RequestFlags = RequestFlags(1 << 1);
    /// Reserving [`Request::need_bytes`] would pass the ledger's check now.
    pub const BYTES_FREE: RequestFlags = RequestFlags(1 << 2);
    /// The deadline of an earlier `Wait` at this gate has passed.
    pub const DEADLINE_PASSED: RequestFlags = RequestFlags(1 << 3);
    /// The task failed before and is tried again.
    pub const RETRY: RequestFlags = RequestFlags(1 << 4);

    /// Whether every bit of `other` is set.
    pub const fn contains(self, other: RequestFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and those of `other`.
    #[must_use]
    pub const fn with(self, other: RequestFlags) -> RequestFlags {
        RequestFlags(self.0 | other.0)
    }

    /// These flags, and `other` if `condition` holds.
    #[must_use]
    pub const fn with_if(self, condition: bool, other: RequestFlags) -> RequestFlags {
        if condition { self.with(other) } else { self }
    }
}

/// One task in front of one gate.
///
/// Plain data: fields are only ever appended, and a policy reads those it was built with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The task, unique in the life of the engine.
    pub task: u64,
    /// The job the task is a partition of.
    pub job: u64,
    /// Which partition of the job.
    pub partition: u32,
    /// Priority of the job: higher goes first.
    pub priority: i32,
    /// The gate the task is in front of.
    pub gate: Stage,
    /// Facts worked out by the host.
    pub flags: RequestFlags,
    /// Position in the order of arrival of all tasks: lower came earlier.
    pub arrival: u64,
    /// When the task arrived at this gate, on the clock of [`View::now_ns`].
    pub gate_since_ns: u64,
    /// Device bytes the task holds now.
    pub held_bytes: u64,
    /// Device bytes entering needs on top of `held_bytes`. Zero at Prepare and Finish; at Stage the
    /// staged bytes; at Compute what is missing to `peak_bytes`.
    pub need_bytes: u64,
    /// The most device bytes the task will ever hold.
    pub peak_bytes: u64,
}

impl Request {
    /// Whether the host could grant this gate now: the locks are free and so are the bytes.
    ///
    /// Answering `Enter` while this is false is a refused verdict.
    pub const fn grantable(&self) -> bool {
        self.flags.contains(RequestFlags::LOCKS_FREE.with(RequestFlags::BYTES_FREE))
    }
}

/// One lock of the policy's table, as it stands.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockView {
    /// How many tasks may hold it at once.
    pub permits: u32,
    /// How many more could take it now.
    pub free: u32,
}

/// The device as it stands when a policy is asked.
///
/// Plain data: fields are only ever appended, and a policy reads those it was built with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Now, in nanoseconds since the engine started. The only clock a policy may use.
    pub now_ns: u64,
    /// Device bytes that tasks may hold in all.
    pub capacity_bytes: u64,
    /// Device bytes nobody holds.
    pub free_bytes: u64,
    /// Index of the device.
    pub device: u32,
    /// Tasks that may be between their gates at once (device workers).
    pub workers: u32,
    /// Tasks waiting at each gate, indexed by [`Stage::index`].
    pub waiting: [u32; 4],
    /// Tasks inside each stage, indexed by [`Stage::index`].
    pub running: [u32; 4],
    /// Tasks that are staged and wait for Compute.
    pub staged: u32,
    /// The policy's locks, in the order of its manifest.
    pub locks: Strided<'a, LockView>,
}

impl View<'_> {
    /// Device bytes that tasks hold.
    pub const fn used_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.free_bytes)
    }

    /// Tasks at the Compute gate that were not staged: each needs all of its bytes at once.
    pub const fn waiting_inline(&self) -> u32 {
        self.waiting[Stage::COMPUTE.index()].saturating_sub(self.staged)
    }

    /// Permits of the lock at `index` of the manifest's table that are free; none for an index it does not have.
    pub fn free_permits(&self, index: usize) -> u32 {
        self.locks.get(index).map_or(0, |lock| lock.free)
    }
}

/// One device, when a policy is asked where a task should go.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceView {
    /// Device bytes that tasks may hold in all.
    pub capacity_bytes: u64,
    /// Device bytes nobody holds.
    pub free_bytes: u64,
    /// Tasks placed on the device that have not ended.
    pub tasks: u32,
    /// Tasks in Compute.
    pub computing: u32,
}
