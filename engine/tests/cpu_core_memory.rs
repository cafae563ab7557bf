//! The CPU core's plan against what a counting allocator sees: no stage holds more than was planned,
//! and the plan is not a wild guess either.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::{Blinding, Core, Plan, ProvingKey};
use interlock_engine::srs::HBasis;
use interlock_engine::srs::setup::generate_with_basis;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

mod common;

use common::Instance;

/// Bytes allocated and not freed, and the most there have been since the last reset.
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

struct Counting;

impl Counting {
    fn grow(bytes: usize) {
        let live = LIVE.fetch_add(bytes as i64, Ordering::SeqCst) + bytes as i64;
        PEAK.fetch_max(live, Ordering::SeqCst);
    }

    fn shrink(bytes: usize) {
        LIVE.fetch_sub(bytes as i64, Ordering::SeqCst);
    }
}

// SAFETY: every call goes to the system allocator unchanged; counting does not allocate. Growing in
// place is left to the default, which holds both blocks for a while, as the worst case would.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::grow(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        Self::shrink(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `stage`; how far the live bytes rose above `base` at most.
fn peak_over(base: i64, stage: impl FnOnce()) -> u64 {
    PEAK.store(LIVE.load(Ordering::SeqCst), Ordering::SeqCst);
    stage();
    (PEAK.load(Ordering::SeqCst) - base).max(0) as u64
}

fn live() -> i64 {
    LIVE.load(Ordering::SeqCst)
}

/// What the stages of one proof held at most: on the host, in Stage, in Compute.
fn measure(core: &CpuCore, key: &Arc<ProvingKey>, instance: &Instance) -> (u64, u64, u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let before = live();
    let witness = Arc::new(instance.witness.clone());
    let mut task = core.task(0, key.clone(), witness, Blinding::random(&mut rng)).unwrap();
    let host = peak_over(before, || task.prepare().unwrap());
    let prepared = live();
    let staged = peak_over(prepared, || task.stage().unwrap());
    let computed = peak_over(prepared, || task.compute().unwrap());
    assert!(live() - prepared < 16 << 10, "Compute left {} bytes behind", live() - prepared);
    task.finish().unwrap();
    (host, staged, computed)
}

fn check(name: &str, instance: &Instance, key: &Arc<ProvingKey>, threads: usize) {
    let core = CpuCore::new(1 << 30, Some(threads)).unwrap();
    let plan = core.plan(key);
    let basis = key.srs.h_basis;
    // Twice: the first time also starts threads and their queues.
    for round in 0..2 {
        let (host, staged, computed) = measure(&core, key, instance);
        let what = format!("{name}, {basis:?}, {threads} threads, round {round}: {plan:?}");
        assert!(host <= plan.host_bytes, "Prepare held {host} bytes: {what}");
        assert!(staged <= plan.staged_bytes, "Stage held {staged} bytes: {what}");
        assert!(computed <= plan.peak_bytes(), "Compute held {computed} bytes: {what}");
        if threads == 1 && name.starts_with("dense") {
            not_wasteful(&plan, staged, computed, &what);
        }
    }
}

/// Above what small change hides, at least half of the plan is used; said of witnesses that are as
/// costly as the plan has to assume, and of one thread, as several need not meet at their peaks.
fn not_wasteful(plan: &Plan, staged: u64, computed: u64, what: &str) {
    let small = 128 << 10;
    assert!(plan.staged_bytes <= 2 * staged + small, "Stage held only {staged} bytes: {what}");
    assert!(plan.peak_bytes() <= 2 * computed + small, "Compute held only {computed} bytes: {what}");
}

/// One test, as the counters belong to the whole process.
#[test]
fn no_stage_holds_more_than_the_plan() {
    let rng = &mut ChaCha8Rng::seed_from_u64(3);
    let instances = [
        ("tiny", common::tiny()),
        ("dense 100", common::dense(100, rng)),
        ("dense 2000", common::dense(2000, rng)),
        ("dense 2^13", common::dense((1 << 13) - 2, rng)),
        ("bits", common::bits(5000, 0.5, rng)),
        ("small values", common::small_values(3000, rng)),
        ("inputs", common::many_inputs(1000, rng)),
    ];
    for (name, instance) in &instances {
        for basis in [HBasis::Monomial, HBasis::OddCoset] {
            let srs = generate_with_basis(&instance.circuit, basis, ChaCha8Rng::seed_from_u64(2));
            let key = Arc::new(ProvingKey { circuit: instance.circuit.clone(), srs });
            for threads in [1, 2, 5] {
                check(name, instance, &key, threads);
            }
        }
    }
}
