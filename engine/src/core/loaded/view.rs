//! Keys, scalars and points as they cross the boundary.

use blst::{blst_p1_affine, blst_p2_affine};
use blstrs::{G1Affine, G2Affine, Scalar};
use ff::PrimeField;
use interlock_core_api::{BasisCode, CsrView, G1Limbs, G2Limbs, KeyView, ScalarLimbs, SumsRecord};

use crate::arith::domain::Domain;
use crate::circuit::Csr;
use crate::core::ProvingKey;
use crate::core::sums::Sums;
use crate::srs::HBasis;

/// The key as it crosses the boundary.
pub(super) fn view(key: &ProvingKey) -> KeyView<'_> {
    let ProvingKey { circuit, srs } = key;
    let domain = Domain::new(srs.h_basis, circuit.domain_size().ilog2());
    let (h_basis, shift) = match srs.h_basis {
        HBasis::Monomial => (BasisCode::MONOMIAL, Scalar::MULTIPLICATIVE_GENERATOR),
        HBasis::OddCoset => (BasisCode::ODD_COSET, Domain::new(srs.h_basis, domain.log_size + 1).root),
    };
    KeyView {
        a: csr(&circuit.a),
        b: csr(&circuit.b),
        c: csr(&circuit.c),
        coefficients: scalars(&circuit.coefficients).into(),
        num_inputs: circuit.num_inputs as u64,
        num_variables: circuit.num_variables() as u64,
        log_domain: domain.log_size,
        h_basis,
        root: scalars(&[domain.root])[0],
        shift: scalars(&[shift])[0],
        h_points: g1_points(&srs.h).into(),
        l_points: g1_points(&srs.l).into(),
        a_points: g1_points(&srs.a).into(),
        a_variables: srs.a_variables.as_slice().into(),
        b_g1_points: g1_points(&srs.b_g1).into(),
        b_g2_points: g2_points(&srs.b_g2).into(),
        b_variables: srs.b_variables.as_slice().into(),
    }
}

fn csr(matrix: &Csr) -> CsrView<'_> {
    CsrView {
        row_starts: matrix.row_starts().into(),
        columns: matrix.columns().into(),
        coefficients: matrix.coefficient_indices().into(),
    }
}

/// `$from` is a transparent wrapper around a blst type that is made of 64-bit limbs only.
macro_rules! as_limbs {
    ($name:ident, $from:ty, $to:ty) => {
        pub(super) fn $name(values: &[$from]) -> &[$to] {
            const { assert!(size_of::<$from>() == size_of::<$to>() && align_of::<$from>() == align_of::<$to>()) };
            // SAFETY: the same size and alignment, no padding, and any limbs are a valid array.
            unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
        }
    };
}

as_limbs!(scalars, Scalar, ScalarLimbs);
as_limbs!(g1_points, G1Affine, G1Limbs);
as_limbs!(g2_points, G2Affine, G2Limbs);

/// The sums, unless a point is off its curve: then the device has failed without saying so.
pub(super) fn read_sums(record: &SumsRecord) -> Option<Sums> {
    let g1 = |limbs: &G1Limbs| {
        let mut point = G1Affine::default();
        let raw: &mut blst_p1_affine = point.as_mut();
        raw.x.l.copy_from_slice(&limbs[..6]);
        raw.y.l.copy_from_slice(&limbs[6..]);
        bool::from(point.is_on_curve()).then(|| point.into())
    };
    let g2 = |limbs: &G2Limbs| {
        let mut point = G2Affine::default();
        let raw: &mut blst_p2_affine = point.as_mut();
        let parts = raw.x.fp.iter_mut().chain(&mut raw.y.fp);
        parts.zip(limbs.chunks_exact(6)).for_each(|(part, limbs)| part.l.copy_from_slice(limbs));
        bool::from(point.is_on_curve()).then(|| point.into())
    };
    Some(Sums {
        h: g1(&record.h)?,
        l: g1(&record.l)?,
        a: g1(&record.a)?,
        b_g1: g1(&record.b_g1)?,
        b_g2: g2(&record.b_g2)?,
    })
}
