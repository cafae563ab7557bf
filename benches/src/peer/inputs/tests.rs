use std::sync::Arc;

use bellpepper_core::{Circuit as _, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable};
use bellperson::groth16::Parameters;
use blstrs::{Bls12, G1Projective, G2Projective};
use ff::PrimeField;
use group::Curve;
use group::prime::PrimeCurveAffine;
use interlock_engine::circuit::FileChunk;
use interlock_engine::circuit::bellpepper::{record, synthesize_witness};
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::{Blinding, Core};
use interlock_engine::srs::{params, setup};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;

const BYTES: usize = 20;

fn chunk() -> FileChunk {
    FileChunk::new(b"a chunk of twenty by", BYTES).unwrap()
}

fn key() -> ProvingKey {
    let circuit = record(FileChunk::shape(BYTES)).unwrap();
    let srs = setup::generate(&circuit, ChaCha8Rng::seed_from_u64(1));
    ProvingKey { circuit, srs }
}

/// Synthesis as provers do it: no matrices, each constraint evaluated as it comes, and a mark for each variable that it
/// mentions with a coefficient other than 0.
#[derive(Default)]
struct Synthesis {
    abc: [Vec<Scalar>; 3],
    public: Vec<Scalar>,
    private: Vec<Scalar>,
    a_aux: Vec<bool>,
    b_input: Vec<bool>,
    b_aux: Vec<bool>,
}

impl Synthesis {
    fn value(&self, sum: &LinearCombination<Scalar>) -> Scalar {
        let terms = sum.iter().map(|(variable, coefficient)| {
            let value = match variable.get_unchecked() {
                Index::Input(index) => self.public[index],
                Index::Aux(index) => self.private[index],
            };
            value * coefficient
        });
        terms.sum()
    }

    fn of(circuit: FileChunk) -> Self {
        let mut synthesis = Self::default();
        synthesis.alloc_input(|| "", || Ok(Scalar::ONE)).unwrap();
        circuit.synthesize(&mut synthesis).unwrap();
        for index in 0..synthesis.public.len() {
            let input = Variable::new_unchecked(Index::Input(index));
            synthesis.enforce(|| "", |lc| lc + input, |lc| lc, |lc| lc);
        }
        synthesis
    }
}

impl ConstraintSystem<Scalar> for Synthesis {
    type Root = Self;

    fn alloc<F, A, AR>(&mut self, _: A, value: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.private.push(value()?);
        self.a_aux.push(false);
        self.b_aux.push(false);
        Ok(Variable::new_unchecked(Index::Aux(self.private.len() - 1)))
    }

    fn alloc_input<F, A, AR>(&mut self, _: A, value: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.public.push(value()?);
        self.b_input.push(false);
        Ok(Variable::new_unchecked(Index::Input(self.public.len() - 1)))
    }

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, a: LA, b: LB, c: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LB: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LC: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
    {
        let zero = LinearCombination::zero;
        let sums = [a(zero()), b(zero()), c(zero())];
        for (index, sum) in sums.iter().enumerate() {
            let value = self.value(sum);
            self.abc[index].push(value);
        }
        let mentioned = |sum: &LinearCombination<Scalar>| {
            let there = sum.iter().filter(|(_, coefficient)| **coefficient != Scalar::ZERO);
            there.map(|(variable, _)| variable.get_unchecked()).collect::<Vec<_>>()
        };
        for variable in mentioned(&sums[0]) {
            if let Index::Aux(index) = variable {
                self.a_aux[index] = true;
            }
        }
        for variable in mentioned(&sums[1]) {
            match variable {
                Index::Input(index) => self.b_input[index] = true,
                Index::Aux(index) => self.b_aux[index] = true,
            }
        }
    }

    fn push_namespace<NR: Into<String>, N: FnOnce() -> NR>(&mut self, _: N) {}

    fn pop_namespace(&mut self) {}

    fn get_root(&mut self) -> &mut Self {
        self
    }
}

fn assert_same_bits(map: &BitMap, expected: &[bool]) {
    let found: Vec<bool> = (0..expected.len()).map(|index| map.contains(index)).collect();
    assert_eq!(found, expected);
    assert_eq!(map.ones, expected.iter().filter(|bit| **bit).count());
    assert_eq!(map.ones as u32, map.words.iter().map(|word| word.count_ones()).sum::<u32>());
    assert_eq!(map.words.len(), expected.len().div_ceil(64));
}

#[test]
fn inputs_are_those_that_synthesis_makes() {
    let key = key();
    let witness = synthesize_witness(chunk()).unwrap();
    let inputs = ProverInputs::new(&key, &witness);
    let expected = Synthesis::of(chunk());
    assert_eq!((&inputs.a, &inputs.b, &inputs.c), (&expected.abc[0], &expected.abc[1], &expected.abc[2]));
    assert_eq!(witness.values, [expected.public, expected.private].concat());
    assert_same_bits(&inputs.a_aux_density, &expected.a_aux);
    assert_same_bits(&inputs.b_input_density, &expected.b_input);
    assert_same_bits(&inputs.b_aux_density, &expected.b_aux);
    assert_eq!(inputs.check_counts(&key), Ok(()));
    assert_eq!(inputs.first_unsatisfied(), None);
}

#[test]
fn a_wrong_value_breaks_a_row() {
    let key = key();
    let mut witness = synthesize_witness(chunk()).unwrap();
    *witness.values.last_mut().unwrap() += Scalar::ONE;
    let expected = key.circuit.first_unsatisfied(&witness);
    assert!(expected.is_some());
    assert_eq!(ProverInputs::new(&key, &witness).first_unsatisfied(), expected);
}

#[test]
fn a_missing_point_is_named() {
    let mut key = key();
    let inputs = ProverInputs::new(&key, &synthesize_witness(chunk()).unwrap());
    key.srs.b_g2.pop();
    let message = inputs.check_counts(&key).unwrap_err();
    assert!(message.contains("b in G2"), "{message}");
}

/// `point` for each 1 in a bitmap, in order, times the value of that variable: how a prover that has no list of variables
/// reads a query.
fn sum_by_bits<P, C>(start: usize, points: &[C], map: &BitMap, values: &[Scalar]) -> (usize, P)
where
    P: Curve<AffineRepr = C>,
    C: PrimeCurveAffine<Curve = P, Scalar = Scalar>,
{
    let mut next = start;
    let mut sum = P::identity();
    for (index, value) in values.iter().enumerate() {
        if map.contains(index) {
            // Most are 0 or 1.
            match *value {
                value if value == Scalar::ZERO => {}
                value if value == Scalar::ONE => sum += points[next],
                value => sum += points[next] * value,
            }
            next += 1;
        }
    }
    (next, sum)
}

/// A and B of a proof (Groth16, eprint 2016/260, section 3.2), from bellperson's reading of the file and the bitmaps
/// alone, against the CPU core.
#[test]
fn points_in_the_order_of_the_bits_give_the_proof() {
    let key = Arc::new(key());
    let witness = Arc::new(synthesize_witness(chunk()).unwrap());
    let inputs = ProverInputs::new(&key, &witness);
    let mut file = Vec::new();
    params::write(&key.srs, &mut file).unwrap();
    let file = Parameters::<Bls12>::read(&file[..], true).unwrap();
    let blinding = Blinding { r: Scalar::from(3), s: Scalar::from_str_vartime("1234567890123").unwrap() };

    let (public, private) = witness.values.split_at(inputs.num_inputs);
    let all = BitMap::new(public.len(), 0..public.len());
    let (used, a_public) = sum_by_bits::<G1Projective, _>(0, &file.a[..], &all, public);
    let (used, a) = sum_by_bits::<G1Projective, _>(used, &file.a[..], &inputs.a_aux_density, private);
    assert_eq!(used, file.a.len());
    let (used, b_public) = sum_by_bits::<G2Projective, _>(0, &file.b_g2[..], &inputs.b_input_density, public);
    let (used, b) = sum_by_bits::<G2Projective, _>(used, &file.b_g2[..], &inputs.b_aux_density, private);
    assert_eq!((used, used), (file.b_g2.len(), file.b_g1.len()));
    let a = a_public + a + file.vk.alpha_g1 + file.vk.delta_g1 * blinding.r;
    let b = b_public + b + file.vk.beta_g2 + file.vk.delta_g2 * blinding.s;

    let core = CpuCore::new(u64::MAX, None).unwrap();
    let mut task = core.task(0, key, witness, blinding).unwrap();
    task.prepare().unwrap();
    task.stage().unwrap();
    task.compute().unwrap();
    let proof = task.finish().unwrap();
    assert_eq!((proof.a, proof.b), (a.to_affine(), b.to_affine()));
}
