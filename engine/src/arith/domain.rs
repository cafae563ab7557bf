//! Evaluation domains: the powers of a root of unity.

use blstrs::Scalar;
use ff::{Field, PrimeField};

use crate::srs::HBasis;

/// `(r - 1) / 2^32`, where `r` is the order of the scalar field: little-endian limbs.
const ODD_PART: [u64; 4] =
    [0xfffe_5bfe_ffff_ffff, 0x09a1_d805_53bd_a402, 0x299d_7d48_3339_d808, 0x0000_0000_73ed_a753];

/// The powers of a primitive root of unity whose order is a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Logarithm of the size to base 2.
    pub log_size: u32,
    /// The root.
    pub root: Scalar,
}

impl Domain {
    /// The largest `log_size`.
    pub const MAX_LOG_SIZE: u32 = 32;

    /// The domain of `2^log_size` points that an SRS with this basis is made for.
    ///
    /// Which of the primitive roots is taken matters: it says which point each constraint sits at.
    /// bellperson takes powers of `7^((r-1)/2^32)` (blstrs's `ROOT_OF_UNITY`), snarkjs powers of
    /// `5^((r-1)/2^32)`.
    ///
    /// # Panics
    /// When `log_size` is above [`Domain::MAX_LOG_SIZE`].
    pub fn new(basis: HBasis, log_size: u32) -> Self {
        assert!(log_size <= Self::MAX_LOG_SIZE, "no root of unity of order 2^{log_size}");
        let largest = match basis {
            HBasis::Monomial => Scalar::ROOT_OF_UNITY,
            HBasis::OddCoset => Scalar::from(5).pow_vartime(ODD_PART),
        };
        let squarings = 0..Self::MAX_LOG_SIZE - log_size;
        Self { log_size, root: squarings.fold(largest, |root, _| root.square()) }
    }

    /// Number of points.
    pub fn size(&self) -> usize {
        1 << self.log_size
    }

    /// `t(x) = x^size - 1`, which is zero on the domain and nowhere else.
    pub fn vanishing(&self, x: &Scalar) -> Scalar {
        (0..self.log_size).fold(*x, |power, _| power.square()) - Scalar::ONE
    }
}

/// The bits of `index`, which has `bits` of them, in reverse order.
#[inline]
pub fn reverse_bits(index: usize, bits: u32) -> usize {
    if bits == 0 { 0 } else { index.reverse_bits() >> (usize::BITS - bits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_have_the_order_of_their_domain() {
        for basis in [HBasis::Monomial, HBasis::OddCoset] {
            for log_size in [0, 1, 5, 32] {
                let domain = Domain::new(basis, log_size);
                assert_eq!(domain.vanishing(&domain.root), Scalar::ZERO);
                if log_size > 0 {
                    let half = Domain { log_size: log_size - 1, root: domain.root };
                    assert_eq!(half.vanishing(&domain.root), -Scalar::from(2));
                }
            }
        }
    }

    #[test]
    fn the_odd_part_times_two_to_the_32_is_the_group_order() {
        let order = (-Scalar::ONE).to_bytes_le();
        assert_eq!(order[..4], [0; 4]);
        let mut odd = [0; 32];
        odd[..28].copy_from_slice(&order[4..]);
        let limbs = ODD_PART.iter().flat_map(|limb| limb.to_le_bytes());
        assert!(limbs.eq(odd));
    }

    #[test]
    fn bits_are_reversed_within_their_width() {
        assert_eq!(reverse_bits(0b0011, 4), 0b1100);
        assert_eq!(reverse_bits(1, 1), 1);
        assert_eq!(reverse_bits(0, 0), 0);
    }
}
