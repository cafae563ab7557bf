//! The CPU core: a complete Groth16 prover on blst's field arithmetic and a rayon thread pool.
//!
//! It treats a budget of host memory as the memory of its one device, so that scheduling policies
//! are exercised for real on a machine without a GPU.
//!
//! | stage | work | memory |
//! |---|---|---|
//! | Prepare | tells values 0, 1 and -1 from the others ([`assignment`]) | host |
//! | Stage | a, b, c on the domain ([`spmv`]) | staged |
//! | Compute | the quotient ([`quotient`], [`ntt`]), then all five sums of points at once ([`msm`]) | staged, and extra for roots and buckets |
//! | Finish | blinding | none |

use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Blinding, Core, CoreError, CoreTask, Device, Plan, ProvingKey};
use crate::circuit::Witness;

pub mod assignment;
mod memory;
pub mod msm;
pub mod ntt;
pub mod quotient;
pub mod spmv;
mod task;

use task::CpuTask;

/// Short name of this core.
const NAME: &str = "cpu";

/// Proves on the CPU. See the [module](self) for how.
///
/// Tasks share the core's thread pool and nothing else; any number of them may run their stages at
/// once, from any threads.
#[derive(Debug)]
pub struct CpuCore {
    pool: Arc<ThreadPool>,
    devices: [Device; 1],
}

impl CpuCore {
    /// A core that lets its tasks hold `memory_budget_bytes` bytes at once and works on `threads`
    /// threads; `None` leaves their number to rayon (`RAYON_NUM_THREADS`, or one per CPU).
    ///
    /// # Errors
    /// When the threads cannot be started.
    pub fn new(memory_budget_bytes: u64, threads: Option<usize>) -> Result<Self, CoreError> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads.unwrap_or(0))
            .thread_name(|index| format!("cpu-core-{index}"))
            .build()
            .map_err(|error| CoreError::Device {
                core: NAME,
                device: 0,
                message: format!("could not start the threads: {error}"),
            })?;
        let device =
            Device { name: "host memory".to_owned(), capacity_bytes: memory_budget_bytes, uuid: None };
        Ok(Self { pool: Arc::new(pool), devices: [device] })
    }

    /// Threads that tasks share.
    pub fn num_threads(&self) -> usize {
        self.pool.current_num_threads()
    }
}

impl Core for CpuCore {
    fn name(&self) -> &'static str {
        NAME
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn plan(&self, key: &ProvingKey) -> Plan {
        memory::plan(key, self.num_threads())
    }

    fn task(
        &self,
        device: usize,
        key: Arc<ProvingKey>,
        witness: Arc<Witness>,
        blinding: Blinding,
    ) -> Result<Box<dyn CoreTask>, CoreError> {
        if device >= self.devices.len() {
            return Err(CoreError::Device {
                core: NAME,
                device,
                message: "there is no such device".to_owned(),
            });
        }
        key.check_sizes(&witness)?;
        Ok(Box::new(CpuTask::new(self.pool.clone(), key, witness, blinding)))
    }
}
