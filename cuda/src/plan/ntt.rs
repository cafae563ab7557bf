//! The passes of a number-theoretic transform.

/// One pass over the bits of a transform's index: `bits` of them, above the lowest `low_bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NttPass {
    /// Bits below.
    pub low_bits: u32,
    /// Bits that the pass transforms.
    pub bits: u32,
    /// Logarithm of the neighbours that a block takes together.
    pub log_columns: u32,
}

/// The passes of a transform of `2^log_n` elements, from the highest bits to the lowest.
pub fn ntt_passes(log_n: u32) -> Vec<NttPass> {
    const MOST: u32 = 8;
    const COLUMNS: u32 = 2;
    let count = log_n.div_ceil(MOST);
    let mut rest = log_n;
    let pass = |left: u32| {
        let bits = rest.div_ceil(left);
        rest -= bits;
        let log_columns = if rest == 0 { COLUMNS.min(log_n - bits) } else { COLUMNS };
        NttPass { low_bits: rest, bits, log_columns }
    };
    (1..=count).rev().map(pass).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_cover_each_bit_once_and_fit_a_block() {
        assert!(ntt_passes(0).is_empty());
        for log_n in 1..=27 {
            let passes = ntt_passes(log_n);
            let mut top = log_n;
            for pass in &passes {
                assert_eq!(pass.low_bits + pass.bits, top);
                assert!(pass.bits >= 1 && pass.bits + pass.log_columns <= 10);
                assert!(pass.low_bits == 0 || pass.low_bits >= pass.log_columns);
                top = pass.low_bits;
            }
            assert_eq!(top, 0);
        }
    }
}
