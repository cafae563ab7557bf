//! Damaged files: every reader gives a value or a typed error, and takes no memory that the file does
//! not justify.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use interlock_tests::fixtures;
use interlock_tests::fuzz::{TARGETS, Target};

/// Counts live bytes, and remembers the most.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The tests of this file run one at a time: they share the counters.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What a reader may take beyond what its file justifies: windows, and what the thread pool keeps.
const SLACK: usize = 8 << 20;

/// Bytes of memory per byte of file that a reader may take: a wire takes 8 bytes of an `.r1cs`, and a few
/// words in the vectors that the densities are made with.
const FACTOR: usize = 64;

/// The intact file of a target.
fn intact(target: &Target) -> Vec<u8> {
    match target.0 {
        "params" => fixtures::bytes("small.params"),
        other => fixtures::bytes(&format!("circom_mul/mul.{other}")),
    }
}

/// Reads bytes; says whether they were accepted. Fails when memory was taken without reason.
fn read(target: &Target, bytes: &[u8]) -> bool {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = target.1(bytes);
    let taken = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    assert!(taken <= SLACK + FACTOR * bytes.len(), "{taken} bytes for a file of {}", bytes.len());
    if let Err(error) = &result {
        assert!(!error.to_string().is_empty() && !error.help().is_empty());
    }
    result.is_ok()
}

#[test]
fn intact_files_are_read() {
    let _alone = ONE_AT_A_TIME.lock();
    for target in &TARGETS {
        assert!(read(target, &intact(target)), "{}", target.0);
    }
}

#[test]
fn no_truncated_file_is_read() {
    let _alone = ONE_AT_A_TIME.lock();
    for target in &TARGETS {
        let bytes = intact(target);
        for length in 0..bytes.len() {
            assert!(!read(target, &bytes[..length]), "{} of {length} bytes", target.0);
        }
    }
}

/// Whether a target's file is mostly points, which take their time to check.
fn has_points(target: &Target) -> bool {
    matches!(target.0, "zkey" | "params")
}

/// Each bit of the small files, and one bit of each fifth byte of the files of points.
#[test]
fn flipped_bits_give_a_value_or_an_error() {
    let _alone = ONE_AT_A_TIME.lock();
    for target in &TARGETS {
        let bytes = intact(target);
        let step = if has_points(target) { 5 * 8 + 1 } else { 1 };
        let (mut tried, mut refused) = (0, 0);
        for bit in (0..8 * bytes.len()).step_by(step) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            tried += 1;
            refused += usize::from(!read(target, &damaged));
        }
        // A flip goes unseen where the format holds free numbers: labels, coefficients, values, the
        // contributions of a ceremony.
        assert!(refused * 4 > tried, "{}: {refused} of {tried} refused", target.0);
    }
}

/// Counts and lengths that are far too great, wherever they may lie.
#[test]
fn great_numbers_take_no_memory() {
    let _alone = ONE_AT_A_TIME.lock();
    for target in &TARGETS {
        let bytes = intact(target);
        // All fields of all formats lie at multiples of four.
        let step = if has_points(target) { 12 } else { 4 };
        for at in (0..bytes.len() - 8).step_by(4).filter(|at| *at < 200 || at % step == 0) {
            for number in [u64::MAX, 1 << 30, u64::from(u32::MAX)] {
                let mut damaged = bytes.clone();
                let number = if target.0 == "params" { number.to_be_bytes() } else { number.to_le_bytes() };
                damaged[at..at + 8].copy_from_slice(&number);
                read(target, &damaged);
                damaged[at + 4..at + 8].copy_from_slice(&bytes[at + 4..at + 8]);
                read(target, &damaged);
            }
        }
    }
}

#[test]
fn the_fuzzers_corpus_is_read() {
    let _alone = ONE_AT_A_TIME.lock();
    for target in &TARGETS {
        let folder = fixtures::path("../fuzz/corpus").join(target.0);
        let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!files.is_empty(), "{}", target.0);
        for file in files {
            read(target, &std::fs::read(file).unwrap());
        }
    }
}
