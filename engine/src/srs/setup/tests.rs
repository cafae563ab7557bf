//! The setup against bellperson's generator: the same random values make the same points.

use bellpepper_core::{Circuit as Synthesize, ConstraintSystem, SynthesisError};
use bellperson::groth16::{Parameters, generate_parameters};
use blstrs::{Bls12, G1Affine, G1Projective, G2Projective};
use group::prime::PrimeCurveAffine;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::circuit::bellpepper::record;

/// `x_0 = input`, `x_(i+1) = (x_i + i)^2`, the last of them public; every other variable is in B only
/// or in A only.
#[derive(Clone)]
struct Squares {
    rounds: u64,
}

impl Synthesize<Scalar> for Squares {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let one = CS::one();
        let unknown = || Err(SynthesisError::AssignmentMissing);
        let mut last = cs.alloc(|| "", unknown)?;
        for round in 0..self.rounds {
            let copy = cs.alloc(|| "", unknown)?;
            cs.enforce(|| "", |lc| lc + last, |lc| lc + one, |lc| lc + copy);
            let next = cs.alloc(|| "", unknown)?;
            let shift = Scalar::from(round);
            cs.enforce(|| "", |lc| lc + last + (shift, one), |lc| lc + copy + (shift, one), |lc| lc + next);
            last = next;
        }
        let output = cs.alloc_input(|| "", unknown)?;
        cs.enforce(|| "", |lc| lc + last, |lc| lc + one, |lc| lc + output);
        Ok(())
    }
}

fn waste(circuit: &Circuit, basis: HBasis, seed: u64) -> ToxicWaste {
    let domain = Domain::new(basis, circuit.domain_size().ilog2());
    ToxicWaste::random(&domain, ChaCha8Rng::seed_from_u64(seed))
}

#[test]
fn points_are_those_of_bellpersons_generator() {
    for rounds in [0, 1, 5, 100] {
        let circuit = record(Squares { rounds }).unwrap();
        let waste = waste(&circuit, HBasis::Monomial, rounds);
        let ours = generate_from(&circuit, HBasis::Monomial, &waste);
        let [alpha, beta, gamma, delta, x] = waste.0[..] else { unreachable!() };
        let (g1, g2) = (G1Projective::generator(), G2Projective::generator());
        let theirs: Parameters<Bls12> =
            generate_parameters(Squares { rounds }, g1, g2, alpha, beta, gamma, delta, x).unwrap();
        assert_eq!(ours.vk, theirs.vk);
        assert_eq!(ours.h, *theirs.h);
        assert_eq!(ours.l, *theirs.l);
        assert_eq!(ours.a, *theirs.a);
        assert_eq!(ours.b_g1, *theirs.b_g1);
        assert_eq!(ours.b_g2, *theirs.b_g2);
        assert_eq!((ours.a_variables, ours.b_variables), circuit.densities());
    }
}

/// `sum e_i H_i` is `t(x) h(x) / delta` for `e_i = t(p_i) h(p_i)`, whatever `h` is.
#[test]
fn odd_coset_points_commit_to_the_quotient() {
    let circuit = record(Squares { rounds: 3 }).unwrap();
    let waste = waste(&circuit, HBasis::OddCoset, 1);
    let srs = generate_from(&circuit, HBasis::OddCoset, &waste);
    let [.., delta, x] = waste.0[..] else { unreachable!() };
    let domain = Domain::new(HBasis::OddCoset, circuit.domain_size().ilog2());
    let h = |x: Scalar| x.pow_vartime([domain.size() as u64 - 1]) + Scalar::from(3) * x + Scalar::from(9);
    let g = Domain::new(HBasis::OddCoset, domain.log_size + 1).root;
    let sum: G1Projective = srs
        .h
        .iter()
        .enumerate()
        .map(|(index, point)| {
            let at = g.pow_vartime([2 * index as u64 + 1]);
            point * (domain.vanishing(&at) * h(at))
        })
        .sum();
    let expected = domain.vanishing(&x) * h(x) * delta.invert().unwrap();
    assert_eq!(sum, G1Projective::generator() * expected);
}

#[test]
fn a_variable_without_constraints_gets_the_identity() {
    let mut circuit = record(Squares { rounds: 2 }).unwrap();
    let (before_a, before_b) = circuit.densities();
    circuit.num_aux += 1;
    let srs = generate(&circuit, ChaCha8Rng::seed_from_u64(2));
    assert_eq!(srs.l.len(), circuit.num_aux);
    assert_eq!(*srs.l.last().unwrap(), G1Affine::identity());
    assert_eq!((srs.a_variables, srs.b_variables), (before_a, before_b));
}
