//! Embed the engine with a policy that is linked into the program instead of loaded.
//!
//! ```sh
//! cargo run --release -p interlock-engine --example linked_policy
//! ```

use std::error::Error;
use std::sync::Arc;

use interlock_engine::circuit::bellpepper;
use interlock_engine::circuit::file_chunk::FileChunk;
use interlock_engine::core::ProvingKey;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::host::{OptionsText, PolicyLibrary};
use interlock_engine::pipeline::{Engine, Job};
use interlock_engine::srs::setup;
use rand_core::OsRng;

const CHUNK_BYTES: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let circuit = bellpepper::record(FileChunk::shape(CHUNK_BYTES))?;
    let srs = setup::generate(&circuit, OsRng);
    let key = Arc::new(ProvingKey { circuit, srs });

    // The options are what plugins.ron would hold. `interlock_policy` is made by `export_policy!`.
    let options = OptionsText::new("(compute_permits: 2)");
    let policy = PolicyLibrary::linked(interlock_vram_token::interlock_policy(), &options)?;
    let engine = Engine::builder(Arc::new(CpuCore::new(1 << 30, None)?))
        .policy(policy)
        .workers_per_device(3)
        .start()?;

    let mut job = Job::new(key.clone()).with_priority(1);
    for chunk in [&b"one"[..], b"two", b"three", b"four"] {
        let key = key.clone();
        job.push_synthesis(move || {
            let circuit = FileChunk::new(chunk, CHUNK_BYTES)?;
            Ok(bellpepper::synthesize_witness_for(&key.circuit, circuit)?)
        });
    }
    for outcome in engine.submit(job)?.wait() {
        outcome.result?;
        let report = outcome.report;
        println!(
            "partition {}: computed in {:.0} ms after {:.0} ms at the gate, staged ahead: {}",
            report.partition,
            report.compute.run_ns as f64 / 1e6,
            report.compute.wait_ns as f64 / 1e6,
            !report.staged_inline,
        );
    }
    for device in engine.devices() {
        println!("device {}: {} tasks under {}", device.name, device.counters.finished, device.policy);
    }
    Ok(())
}
