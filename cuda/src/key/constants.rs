//! The few scalars from which the kernels make their tables.

use interlock_core_api::KeyView;

use crate::host_field::Scalar;

/// The constants of a domain.
pub struct Constants {
    root: Scalar,
    shift: Scalar,
    unshift: Scalar,
    one_over_size: Scalar,
    factor: Scalar,
}

impl Constants {
    pub const ROOT: u64 = 0;
    pub const SHIFT: u64 = 1;
    pub const UNSHIFT: u64 = 2;
    pub const ONE: u64 = 3;
    pub const ONE_OVER_SIZE: u64 = 4;
    pub const FACTOR: u64 = 5;

    /// Those of a key's domain.
    pub fn of(view: &KeyView<'_>) -> Self {
        let shift = Scalar::from_limbs(&view.shift);
        // t(x) = x^n - 1 has one value on the whole coset.
        let vanishing = shift.squared(view.log_domain).minus(&Scalar::from_integer(1));
        let one_over_size = Scalar::from_integer(1 << view.log_domain).inverse();
        Self {
            root: Scalar::from_limbs(&view.root),
            shift,
            unshift: shift.inverse(),
            one_over_size,
            factor: one_over_size.times(&vanishing.inverse()),
        }
    }

    /// Each at its index; all but the factor in Montgomery form. A product with that one is not in Montgomery form.
    pub fn in_order(&self) -> [[u64; 4]; 6] {
        let one = Scalar::from_integer(1);
        let [root, shift, unshift, one, one_over_size] =
            [self.root, self.shift, self.unshift, one, self.one_over_size].map(|value| value.limbs());
        [root, shift, unshift, one, one_over_size, self.factor.canonical()]
    }
}
