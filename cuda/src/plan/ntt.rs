//! The passes of a number-theoretic transform.

use super::SCALAR_BYTES;

/// Bits of a pass: at most as many as fit the shared memory of a block, with the roots of its tile.
const MOST_BITS: u32 = 9;

/// Logarithm of the blocks that a pass has at least, where their tiles can be small enough: the card's multiprocessors
/// are about as many.
const LOG_BLOCKS: u32 = 7;

/// Logarithms of the fewest and the most elements of a tile: four for each thread of a warp, and of 128 threads. Tiles
/// twice as large were slower. Passes of many bits take more all the same.
const LEAST_LOG_TILE: u32 = 7;
const MOST_LOG_TILE: u32 = 9;

/// Logarithm of the neighbours that a block takes at least: two are 64 bytes in a row.
const LEAST_LOG_COLUMNS: u32 = 1;

/// One pass over the bits of a transform's index: `bits` of them, above the lowest `low_bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NttPass {
    /// Bits of the whole index.
    pub log_n: u32,
    /// Bits below.
    pub low_bits: u32,
    /// Bits that the pass transforms.
    pub bits: u32,
    /// Logarithm of the neighbours that a block takes together.
    pub log_columns: u32,
}

impl NttPass {
    /// Blocks, threads of each, and bytes of shared memory: for the tile and its roots.
    pub fn grid(&self) -> (u64, u32, u32) {
        let log_tile = self.bits + self.log_columns;
        let threads = 1 << (self.log_columns + self.bits.saturating_sub(2));
        let shared = ((1 << self.bits) + (1 << log_tile)) * SCALAR_BYTES as u32;
        (1 << (self.log_n - log_tile), threads, shared)
    }
}

/// The passes of a transform of `2^log_n` elements, from the highest bits to the lowest; at least one.
pub fn ntt_passes(log_n: u32) -> Vec<NttPass> {
    let count = log_n.div_ceil(MOST_BITS).max(1);
    let log_tile = log_n.saturating_sub(LOG_BLOCKS).clamp(LEAST_LOG_TILE, MOST_LOG_TILE);
    let mut rest = log_n;
    let pass = |left: u32| {
        let bits = rest.div_ceil(left);
        rest -= bits;
        // Neighbours are in the bits below, or with none of those in the bits above.
        let neighbours = if rest == 0 { log_n - bits } else { rest };
        let log_columns = log_tile.saturating_sub(bits).max(LEAST_LOG_COLUMNS).min(neighbours);
        NttPass { log_n, low_bits: rest, bits, log_columns }
    };
    (1..=count).rev().map(pass).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a block may have without asking for more.
    const SHARED_BYTES: u32 = 48 << 10;

    #[test]
    fn passes_cover_each_bit_once_and_fit_a_block() {
        for log_n in 0..=27 {
            let passes = ntt_passes(log_n);
            let mut top = log_n;
            for pass in &passes {
                assert_eq!(pass.low_bits + pass.bits, top);
                assert!(pass.bits >= 1 || log_n == 0);
                assert!(pass.low_bits == 0 || pass.low_bits >= pass.log_columns);
                let (blocks, threads, shared) = pass.grid();
                let elements = u64::from(threads) << pass.bits.min(2);
                assert_eq!(blocks * elements, 1 << log_n);
                assert!(threads <= 256 && shared <= SHARED_BYTES);
                top = pass.low_bits;
            }
            assert_eq!(top, 0);
        }
    }

    #[test]
    fn small_transforms_have_many_blocks_and_large_ones_few_passes() {
        let sizes =
            |log_n| ntt_passes(log_n).iter().map(|pass| (pass.bits, pass.grid().0)).collect::<Vec<_>>();
        assert_eq!(sizes(10), [(5, 8), (5, 8)]);
        assert_eq!(sizes(13), [(7, 32), (6, 64)]);
        assert_eq!(sizes(17), [(9, 128), (8, 256)]);
        assert_eq!(sizes(22), [(8, 1 << 13), (7, 1 << 13), (7, 1 << 13)]);
        assert_eq!(sizes(27), [(9, 1 << 17); 3]);
    }
}
