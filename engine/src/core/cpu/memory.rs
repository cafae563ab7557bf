//! What a task needs, in bytes: the sizes of the very vectors that the stages allocate.

use blst::{blst_fr, blst_p1_affine, blst_p2_affine};
use blstrs::Scalar;

use super::assignment::Assignment;
use super::msm::{arena_bytes, list_bytes};
use super::ntt::Twiddles;
use super::spmv::Evaluations;
use crate::core::{Plan, ProvingKey};

/// Room for what is too small to count: closures and queue blocks of the thread pool.
const SMALL_CHANGE: u64 = 32 << 10;

/// The plan of a task for `key` on `threads` threads.
pub fn plan(key: &ProvingKey, threads: usize) -> Plan {
    let size = key.circuit.domain_size();
    let staged_bytes = Evaluations::bytes(size) + SMALL_CHANGE;
    // First the transforms, then, with only the scalars of `h` left, the sums.
    let transforms = staged_bytes + Twiddles::bytes(size);
    let sums = (size * size_of::<blst_fr>()) as u64 + sum_bytes(key, threads) + SMALL_CHANGE;
    Plan {
        staged_bytes,
        compute_extra: transforms.max(sums) - staged_bytes,
        host_bytes: Assignment::bytes(key)
            + (key.circuit.num_variables() * size_of::<Scalar>()) as u64
            + SMALL_CHANGE,
    }
}

/// Bytes for the five sums. A thread holds one arena at a time, for G1 or for G2.
fn sum_bytes(key: &ProvingKey, threads: usize) -> u64 {
    let srs = &key.srs;
    let g1_terms = srs.h.len().max(srs.l.len()).max(srs.a.len()).max(srs.b_g1.len());
    let g2_terms = srs.b_g2.len();
    let g1_arena = arena_bytes::<blst_p1_affine>(g1_terms);
    let g2_arena = arena_bytes::<blst_p2_affine>(g2_terms);
    let lists = list_bytes::<blst_p1_affine>(4, g1_terms, threads)
        + list_bytes::<blst_p2_affine>(1, g2_terms, threads);
    lists + threads as u64 * g1_arena.max(g2_arena)
}
