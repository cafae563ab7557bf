//! The report of one `prove` run, as `--json` prints it.

use serde::{Deserialize, Serialize};

use crate::core::{Plan, ProvingKey};
use crate::pipeline::{DevicePolicyStats, DeviceReport, PartitionReport};

/// Version of the report's shape; grows when a field changes its meaning or goes away.
const SCHEMA: u32 = 1;

/// Everything about one run.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// Version of this shape: 1.
    pub schema: u32,
    /// Name of the core.
    pub core: &'static str,
    /// The policy that was asked for. Each device tells which one is in its seat at the end.
    pub policy: String,
    /// Device workers of each device.
    pub workers_per_device: usize,
    /// Synthesis workers.
    pub synthesis_workers: usize,
    /// Priority of the job.
    pub priority: i32,
    /// Whether each proof was verified before it was written.
    pub verified: bool,
    /// What was proved.
    pub statement: StatementReport,
    /// What a task was planned to need.
    pub plan: PlanReport,
    /// Partitions with a proof.
    pub proofs: usize,
    /// Partitions without one.
    pub failed: usize,
    /// Whether a signal ended the run before all partitions had begun.
    pub interrupted: bool,
    /// Nanoseconds to read or make circuit and SRS.
    pub load_ns: u64,
    /// Nanoseconds from the job's submission to its last outcome.
    pub wall_ns: u64,
    /// The partitions, in order.
    pub partitions: Vec<PartitionLine>,
    /// The devices: those of the core, then those of the fallback core.
    pub devices: Vec<DeviceReport>,
    /// What each policy did that sat on a device, in the order of the devices.
    pub policies: Vec<DevicePolicyStats>,
}

/// The circuit in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatementReport {
    /// Constraints, without the implied input rows.
    pub constraints: usize,
    /// Variables, the constant one included.
    pub variables: usize,
    /// Public inputs, without the constant one.
    pub public_inputs: usize,
    /// Size of the evaluation domain.
    pub domain: usize,
    /// Bytes of the SRS in memory.
    pub srs_bytes: u64,
}

/// A core's plan in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanReport {
    /// Device bytes from Stage to Compute.
    pub staged_bytes: u64,
    /// Device bytes that Compute needs on top.
    pub compute_extra: u64,
    /// Host bytes from Prepare to Finish.
    pub host_bytes: u64,
}

/// One partition.
#[derive(Clone, Debug, Serialize)]
pub struct PartitionLine {
    /// What the partition is called: its witness or chunk.
    pub name: String,
    /// Where its proof was written.
    pub proof: Option<std::path::PathBuf>,
    /// Why there is no proof.
    pub error: Option<String>,
    /// What it took.
    #[serde(flatten)]
    pub report: PartitionReport,
}

impl StatementReport {
    /// The numbers of a circuit and its SRS.
    pub fn of(key: &ProvingKey) -> Self {
        Self {
            constraints: key.circuit.num_constraints(),
            variables: key.circuit.num_variables(),
            public_inputs: key.circuit.num_inputs - 1,
            domain: key.circuit.domain_size(),
            srs_bytes: key.srs.point_bytes(),
        }
    }
}

impl From<Plan> for PlanReport {
    fn from(plan: Plan) -> Self {
        let Plan { staged_bytes, compute_extra, host_bytes } = plan;
        Self { staged_bytes, compute_extra, host_bytes }
    }
}

impl RunReport {
    /// The number that goes into [`RunReport::schema`].
    pub const SCHEMA: u32 = SCHEMA;

    /// Proofs per second of the whole run.
    pub fn proofs_per_second(&self) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { self.proofs as f64 / (self.wall_ns as f64 / 1e9) }
    }
}
