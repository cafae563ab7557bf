//! What a witness means for the multi-scalar multiplications: which values are 0, 1 or -1, and the
//! others as integers.

use std::collections::TryReserveError;

use blst::blst_fr;
use blstrs::Scalar;
use ff::Field;
use rayon::prelude::*;

use super::msm::Product;
use crate::arith::field::canonical;
use crate::core::ProvingKey;

/// What value a variable has: [`ZERO`], [`ONE`], [`MINUS_ONE`], or its index among the others.
type Kind = u32;
const ZERO: Kind = u32::MAX;
const ONE: Kind = u32::MAX - 1;
const MINUS_ONE: Kind = u32::MAX - 2;

/// The terms of one query, told apart by value.
#[derive(Debug, Default)]
pub struct QueryTerms {
    /// Points whose variable is 1.
    pub plus: Vec<u32>,
    /// Points whose variable is -1.
    pub minus: Vec<u32>,
    /// Points whose variable is something else, with the scalar's index in [`Assignment::scalars`].
    pub products: Vec<Product>,
}

/// A witness sorted out for one SRS.
#[derive(Debug)]
pub struct Assignment {
    /// The values that are not 0, 1 or -1, as integers, in the order of the variables.
    pub scalars: Vec<blst_fr>,
    /// Terms of the `l` query.
    pub l: QueryTerms,
    /// Terms of the `a` query.
    pub a: QueryTerms,
    /// Terms of both `b` queries.
    pub b: QueryTerms,
}

impl Assignment {
    /// The most bytes that an assignment for `key` takes, whatever the witness.
    pub fn bytes(key: &ProvingKey) -> u64 {
        let queries = key.srs.l.len() + key.srs.a_variables.len() + key.srs.b_variables.len();
        let per_variable = size_of::<blst_fr>() + size_of::<Kind>();
        (queries * size_of::<Product>() + key.circuit.num_variables() * per_variable) as u64
    }

    /// Sorts out `values`, the full assignment.
    ///
    /// # Errors
    /// When the memory cannot be had.
    ///
    /// # Panics
    /// When a query of the SRS names a variable that there is no value for.
    pub fn new(key: &ProvingKey, values: &[Scalar]) -> Result<Self, TryReserveError> {
        let kinds = kinds(values)?;
        let scalars = scalars(&kinds, values)?;
        let srs = &key.srs;
        let inputs = key.circuit.num_inputs;
        let (l, (a, b)) = rayon::join(
            || QueryTerms::new(&kinds, srs.l.len(), |index| inputs + index),
            || {
                rayon::join(
                    || QueryTerms::new(&kinds, srs.a.len(), |index| srs.a_variables[index] as usize),
                    || QueryTerms::new(&kinds, srs.b_g1.len(), |index| srs.b_variables[index] as usize),
                )
            },
        );
        Ok(Self { scalars, l: l?, a: a?, b: b? })
    }
}

fn kinds(values: &[Scalar]) -> Result<Vec<Kind>, TryReserveError> {
    let (one, minus_one) = (Scalar::ONE, -Scalar::ONE);
    let mut kinds = Vec::new();
    kinds.try_reserve_exact(values.len())?;
    let mut others = 0;
    kinds.extend(values.iter().map(|value| {
        if value.is_zero_vartime() {
            ZERO
        } else if *value == one {
            ONE
        } else if *value == minus_one {
            MINUS_ONE
        } else {
            others += 1;
            others - 1
        }
    }));
    Ok(kinds)
}

fn scalars(kinds: &[Kind], values: &[Scalar]) -> Result<Vec<blst_fr>, TryReserveError> {
    let other = |kind: &Kind| *kind < MINUS_ONE;
    let count = kinds.iter().rev().find(|kind| other(kind)).map_or(0, |last| *last as usize + 1);
    let mut scalars = Vec::new();
    scalars.try_reserve_exact(count)?;
    scalars.extend(
        kinds.iter().zip(values).filter(|(kind, _)| other(kind)).map(|(_, value)| blst_fr::from(*value)),
    );
    scalars.par_iter_mut().with_min_len(1 << 12).for_each(|scalar| {
        *scalar = blst_fr { l: canonical(scalar) };
    });
    Ok(scalars)
}

impl QueryTerms {
    /// Sorts out a query of `len` points, of which point `i` belongs to variable `variable(i)`.
    fn new(kinds: &[Kind], len: usize, variable: impl Fn(usize) -> usize) -> Result<Self, TryReserveError> {
        let (mut ones, mut minus_ones, mut others) = (0, 0, 0);
        for index in 0..len {
            match kinds[variable(index)] {
                ZERO => {}
                ONE => ones += 1,
                MINUS_ONE => minus_ones += 1,
                _ => others += 1,
            }
        }
        let mut terms = Self::default();
        terms.plus.try_reserve_exact(ones)?;
        terms.minus.try_reserve_exact(minus_ones)?;
        terms.products.try_reserve_exact(others)?;
        for index in 0..len {
            let point = index as u32;
            match kinds[variable(index)] {
                ZERO => {}
                ONE => terms.plus.push(point),
                MINUS_ONE => terms.minus.push(point),
                scalar => terms.products.push(Product { point, scalar }),
            }
        }
        Ok(terms)
    }
}
