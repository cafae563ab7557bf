//! How much device memory a task takes, and how it is laid out: pure arithmetic.
//!
//! A task holds two blocks. The staged block is the witness `z`, 32 bytes a variable. The block of Compute is, with n
//! the size of the domain:
//!
//! | part | bytes | in the quotient | in the sums |
//! |---|---|---|---|
//! | results | [`RESULT_BYTES`] | | sums, one for each bit of each window |
//! | ring | none, or two chunks | chunks of matrices | chunks of points |
//! | `a` | 32 n | a, then a b, then the quotient's scalars | scalars of `h`; workspace once `h` is done |
//! | workspace | see below | b, then c | sorted entries and buckets |
//!
//! **Resident keys**: no ring, and a workspace of 32 n, more for small circuits, and more with multiples of the `h` points:
//! all their windows are then sorted at once.
//!
//! **Streamed keys**: the half of b that is left over when the other one has taken the place of half of the witness,
//! which comes back from host memory when it is needed again: 16 n when there are n variables. At n = 2^27 that is
//! 4 GiB staged and 10.1 GiB at the peak; [`crate::quotient`] has the order of things.

mod ntt;
pub mod split;
mod sums;

pub use ntt::{NttPass, ntt_passes};
pub use split::Split;
pub use sums::{
    BATCHED_LANES, G1, G2, Group, LANES, Layout, MOST_RESULTS, Passes, Runs, SUM_BLOCK, Weighing, Work,
    digit_offset, window_count,
};

use crate::arena::{ALIGNMENT, aligned};

/// Bytes of a scalar.
pub const SCALAR_BYTES: u64 = 32;

/// Where in the results the number of wide scalars of the witness is: after what four sums over G1 and one over G2 leave to the host.
pub const COUNT_OFFSET: u64 = MOST_RESULTS * (4 * G1.point_bytes + G2.point_bytes);

/// All results.
pub const RESULT_BYTES: u64 = aligned(COUNT_OFFSET + 16);

/// A workspace that lets small circuits sum all windows at once.
const SMALL_WORKSPACE: u64 = 48 << 20;

/// Chunks are cut as large as this fraction of a vector over the domain, within limits: large enough that a chunk's
/// kernels run longer than it takes to launch them.
const CHUNK_SHARE: u64 = 16;
const LEAST_CHUNK: u64 = 4 << 20;
const MOST_CHUNK: u64 = 48 << 20;

/// Bytes of a chunk with these rows and entries of a matrix: where rows start, columns, coefficients.
pub fn matrix_chunk_bytes(rows: u64, entries: u64) -> u64 {
    aligned(4 * (rows + 1)) + 2 * aligned(4 * entries)
}

/// Where a key's points and matrices are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// On the device.
    Device {
        /// Bits of a digit of the sum over h, where there is a table of multiples of its points for each window.
        multiples: Option<u32>,
        /// Whether tables of powers have each power, or are two small ones each, with a multiplication for each use.
        whole_powers: bool,
    },
    /// In host memory.
    Host {
        /// Entries of the longest row of a matrix, which has to fit into a chunk.
        longest_row: u64,
        /// Whether half of the witness may give its place to half of b: not where c is made of a and b, row by row.
        halves: bool,
    },
}

/// What the plan of a task depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Logarithm of the domain's size.
    pub log_domain: u32,
    /// Variables.
    pub variables: u64,
    /// Points of the `h` query.
    pub h_points: u64,
    /// Points of the longest query in G1.
    pub g1_points: u64,
    /// Points of the query in G2.
    pub g2_points: u64,
    /// Of the device.
    pub multiprocessors: u64,
    /// Where the key is.
    pub home: Home,
}

impl Shape {
    /// Bytes of the staged block.
    pub fn staged_bytes(&self) -> u64 {
        aligned(SCALAR_BYTES * self.variables)
    }

    /// Elements of a vector over the domain.
    pub fn domain(&self) -> u64 {
        1 << self.log_domain
    }

    /// Bytes of one vector over the domain.
    pub fn vector_bytes(&self) -> u64 {
        aligned(SCALAR_BYTES << self.log_domain)
    }

    /// The variables of the first half of the witness: the larger one if there is a difference.
    pub fn first_half(&self) -> u64 {
        self.variables.div_ceil(2)
    }

    /// Elements of b, the last ones, that take the place of the witness's second half; 0 for none.
    pub fn b_in_staged(&self) -> u64 {
        match self.home {
            Home::Host { halves: true, .. } => (self.variables - self.first_half()).min(self.domain()),
            _ => 0,
        }
    }

    /// Bytes of one chunk of what is streamed; 0 when nothing is.
    pub fn chunk_bytes(&self) -> u64 {
        let Home::Host { longest_row, .. } = self.home else { return 0 };
        let share = (self.vector_bytes() / CHUNK_SHARE).clamp(LEAST_CHUNK, MOST_CHUNK);
        aligned(share.max(matrix_chunk_bytes(1, longest_row)))
    }

    /// Points of a group that fit into a chunk, each with the number of its variable.
    pub fn chunk_points(&self, group: Group) -> u64 {
        match self.home {
            Home::Device { .. } => u64::MAX,
            Home::Host { .. } => (self.chunk_bytes() - 2 * ALIGNMENT) / (group.affine_bytes + 4),
        }
    }

    /// Bytes of the ring.
    pub fn ring_bytes(&self) -> u64 {
        2 * self.chunk_bytes()
    }

    /// Bytes of the workspace.
    pub fn workspace_bytes(&self) -> u64 {
        let least = |group: Group, points| {
            let (chunk, multiprocessors) = (self.chunk_points(group), self.multiprocessors);
            Work::new(group, points, points, chunk, multiprocessors).least_workspace(group, SMALL_WORKSPACE)
        };
        let b = aligned(self.vector_bytes() - SCALAR_BYTES * self.b_in_staged());
        // `a` is workspace too by the time of the other sums.
        let others =
            least(G1, self.g1_points).max(least(G2, self.g2_points)).saturating_sub(self.vector_bytes());
        b.max(least(G1, self.h_points)).max(others).max(self.multiples_workspace())
    }

    /// What the sum over h takes where there are multiples of its points: a table that large leaves room for it.
    fn multiples_workspace(&self) -> u64 {
        let Home::Device { multiples: Some(bits), .. } = self.home else { return 0 };
        let work = Work::new(G1, self.h_points, self.h_points, u64::MAX, self.multiprocessors);
        work.with_multiples(Some(bits)).multiples_workspace(G1)
    }

    /// Bytes of the block of Compute.
    pub fn compute_bytes(&self) -> u64 {
        RESULT_BYTES + self.ring_bytes() + self.vector_bytes() + self.workspace_bytes()
    }

    /// Bytes of host memory from Prepare to Finish: the engine's witness and the copy that is uploaded, and results.
    pub fn host_bytes(&self) -> u64 {
        2 * SCALAR_BYTES * self.variables + RESULT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const RESIDENT: Home = Home::Device { multiples: None, whole_powers: false };
    const STREAMED: Home = Home::Host { longest_row: 1 << 16, halves: true };

    fn shape(log_domain: u32, home: Home) -> Shape {
        let points = 1 << log_domain;
        Shape {
            log_domain,
            variables: points,
            h_points: points,
            g1_points: points,
            g2_points: points,
            multiprocessors: 132,
            home,
        }
    }

    #[test]
    fn every_sum_can_be_done_in_the_workspace_that_is_planned() {
        for log_domain in 0..=27 {
            for home in [RESIDENT, STREAMED] {
                let shape = shape(log_domain, home);
                let (beside, all) = (shape.workspace_bytes(), shape.vector_bytes() + shape.workspace_bytes());
                let sums =
                    [(G1, shape.h_points, beside), (G1, shape.g1_points, all), (G2, shape.g2_points, all)];
                for (group, points, workspace) in sums {
                    for wide in [0, points / 10, points] {
                        let work = Work::new(group, points, wide, shape.chunk_points(group), 132);
                        assert!(work.choose(group, workspace).is_some(), "2^{log_domain} {group:?} {home:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn large_circuits_take_two_vectors_beside_the_witness() {
        for log_domain in 22..=27 {
            let shape = shape(log_domain, RESIDENT);
            assert_eq!(shape.staged_bytes(), 32 << log_domain);
            assert_eq!(shape.compute_bytes(), (64 << log_domain) + RESULT_BYTES);
        }
    }

    #[test]
    fn streamed_a_card_of_16_gib_holds_a_task_of_2_27_and_the_next_one_staged() {
        let shape = shape(27, STREAMED);
        assert!(shape.staged_bytes() <= 43 * GIB / 10);
        let peak = shape.staged_bytes() + shape.compute_bytes();
        assert!(peak <= 105 * GIB / 10, "{peak}");
        assert!(peak + shape.staged_bytes() <= 15 * GIB);
        for log_domain in 22..27 {
            let smaller = self::shape(log_domain, STREAMED);
            let scaled = (smaller.staged_bytes() + smaller.compute_bytes()) << (27 - log_domain);
            assert!(scaled as f64 <= 1.05 * peak as f64, "2^{log_domain}: {scaled} beside {peak}");
        }
    }

    #[test]
    fn chunks_hold_what_is_streamed() {
        for log_domain in 0..=27 {
            for longest_row in [1, 1 << 20, 1 << 26] {
                let shape = shape(log_domain, Home::Host { longest_row, halves: true });
                assert!(matrix_chunk_bytes(1, longest_row) <= shape.chunk_bytes());
                for group in [G1, G2] {
                    let points = shape.chunk_points(group);
                    let bytes = aligned(group.affine_bytes * points) + aligned(4 * points);
                    assert!(points > 0 && bytes <= shape.chunk_bytes());
                }
            }
        }
    }
}
