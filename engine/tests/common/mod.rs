//! Circuits of many shapes, and the way from the engine's inner form to bellperson.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::sync::Arc;

use bellpepper_core::{Circuit as Synthesize, ConstraintSystem, LinearCombination, SynthesisError};
use bellperson::groth16::Parameters;
use blstrs::{Bls12, Scalar};
use ff::Field;
use interlock_engine::circuit::recorder::{Recorder, Variable, WitnessRecorder};
use interlock_engine::circuit::{Circuit, Csr, Witness};
use interlock_engine::srs::Srs;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// A circuit with a witness that satisfies it.
pub struct Instance {
    pub circuit: Circuit,
    pub witness: Witness,
}

/// Builds shape and witness side by side.
struct Builder {
    shape: Recorder,
    values: WitnessRecorder,
    known: Vec<(Variable, Scalar)>,
}

type Terms = Vec<(Variable, Scalar)>;

impl Builder {
    fn new() -> Self {
        let known = vec![(Variable::Input(0), Scalar::ONE)];
        Self { shape: Recorder::new(), values: WitnessRecorder::new(), known }
    }

    fn input(&mut self, value: Scalar) -> Variable {
        let variable = self.shape.alloc_input();
        assert_eq!(variable, self.values.alloc_input(value));
        self.known.push((variable, value));
        variable
    }

    fn aux(&mut self, value: Scalar) -> Variable {
        let variable = self.shape.alloc_aux();
        assert_eq!(variable, self.values.alloc_aux(value));
        self.known.push((variable, value));
        variable
    }

    fn enforce(&mut self, a: Terms, b: Terms, c: Terms) {
        self.shape.enforce(a, b, c);
    }

    /// One to three known variables times random coefficients, and what they add up to.
    fn random_terms(&self, rng: &mut ChaCha8Rng) -> (Terms, Scalar) {
        let (mut terms, mut sum) = (Vec::new(), Scalar::ZERO);
        for _ in 0..rng.gen_range(1..=3) {
            let (variable, value) = self.known[rng.gen_range(0..self.known.len())];
            let coefficient = match rng.gen_range(0..4) {
                0 => Scalar::ONE,
                1 => -Scalar::ONE,
                _ => Scalar::random(&mut *rng),
            };
            sum += coefficient * value;
            terms.push((variable, coefficient));
        }
        (terms, sum)
    }

    /// A new variable that is the product of two random sums.
    fn random_product(&mut self, rng: &mut ChaCha8Rng) {
        let ((a, left), (b, right)) = (self.random_terms(rng), self.random_terms(rng));
        let product = self.aux(left * right);
        self.enforce(a, b, vec![(product, Scalar::ONE)]);
    }

    /// A new variable that is 0 or 1.
    fn bit(&mut self, bit: bool) {
        let one = (Variable::Input(0), Scalar::ONE);
        let bit = self.aux(Scalar::from(u64::from(bit)));
        self.enforce(vec![(bit, Scalar::ONE)], vec![one, (bit, -Scalar::ONE)], vec![]);
    }

    fn finish(self) -> Instance {
        let instance = Instance { circuit: self.shape.finish().unwrap(), witness: self.values.finish() };
        assert_eq!(instance.circuit.first_unsatisfied(&instance.witness), None);
        instance
    }
}

/// Random sums times random sums: all values large.
pub fn dense(constraints: usize, rng: &mut ChaCha8Rng) -> Instance {
    let mut builder = Builder::new();
    builder.input(Scalar::random(&mut *rng));
    (0..constraints).for_each(|_| builder.random_product(rng));
    builder.finish()
}

/// Bits that are 1 with probability `ones`.
pub fn bits(constraints: usize, ones: f64, rng: &mut ChaCha8Rng) -> Instance {
    let mut builder = Builder::new();
    (0..constraints).for_each(|_| builder.bit(rng.gen_bool(ones)));
    builder.finish()
}

/// Squares of -1, 0, 1 and of small numbers, each many times over.
pub fn small_values(constraints: usize, rng: &mut ChaCha8Rng) -> Instance {
    let mut builder = Builder::new();
    for _ in 0..constraints {
        let small = Scalar::from(rng.gen_range(0..40_u64)) - Scalar::ONE;
        let root = builder.aux(small);
        let square = builder.aux(small.square());
        let root = vec![(root, Scalar::ONE)];
        builder.enforce(root.clone(), root, vec![(square, Scalar::ONE)]);
    }
    builder.finish()
}

/// The same large value in every variable.
pub fn repeated_value(constraints: usize, rng: &mut ChaCha8Rng) -> Instance {
    let mut builder = Builder::new();
    let value = Scalar::random(&mut *rng);
    let one = vec![(Variable::Input(0), Scalar::ONE)];
    let mut last = builder.aux(value);
    for _ in 0..constraints {
        let next = builder.aux(value);
        builder.enforce(vec![(last, Scalar::ONE)], one.clone(), vec![(next, Scalar::ONE)]);
        last = next;
    }
    builder.finish()
}

/// One large value, and zeros: 0 times the value, over and over.
pub fn lone_value(constraints: usize, rng: &mut ChaCha8Rng) -> Instance {
    let mut builder = Builder::new();
    let lone = builder.aux(Scalar::random(&mut *rng));
    for _ in 0..constraints {
        let (left, product) = (builder.aux(Scalar::ZERO), builder.aux(Scalar::ZERO));
        let one = |variable| vec![(variable, Scalar::ONE)];
        builder.enforce(one(left), one(lone), one(product));
    }
    builder.finish()
}

/// Sums of 1 to 2,000 terms, squared.
pub fn long_rows(constraints: usize, rng: &mut ChaCha8Rng) -> Instance {
    let mut builder = Builder::new();
    let variables: Vec<_> = (0..2_000)
        .map(|_| {
            let value = Scalar::random(&mut *rng);
            (builder.aux(value), value)
        })
        .collect();
    for index in 0..constraints {
        let (mut terms, mut sum) = (Vec::new(), Scalar::ZERO);
        for (variable, value) in &variables[..1 + index * 37 % 1_999] {
            let coefficient = Scalar::from(rng.gen_range(1..50));
            sum += coefficient * value;
            terms.push((*variable, coefficient));
        }
        let square = builder.aux(sum.square());
        builder.enforce(terms.clone(), terms, vec![(square, Scalar::ONE)]);
    }
    builder.finish()
}

/// `inputs` public inputs, some of them zero, each of them squared.
pub fn many_inputs(inputs: usize, rng: &mut ChaCha8Rng) -> Instance {
    let mut builder = Builder::new();
    for index in 0..inputs {
        let value = if index % 3 == 0 { Scalar::ZERO } else { Scalar::random(&mut *rng) };
        let input = vec![(builder.input(value), Scalar::ONE)];
        let square = builder.aux(value.square());
        builder.enforce(input.clone(), input, vec![(square, Scalar::ONE)]);
    }
    builder.finish()
}

/// No public input but the constant one, and a single private variable.
pub fn tiny() -> Instance {
    let mut builder = Builder::new();
    let x = builder.aux(Scalar::from(3));
    let terms = vec![(x, Scalar::ONE)];
    builder.enforce(terms.clone(), terms, vec![(x, Scalar::from(3))]);
    builder.finish()
}

/// Adds private variables that no constraint mentions.
pub fn with_unconstrained(mut instance: Instance, count: usize, rng: &mut ChaCha8Rng) -> Instance {
    instance.circuit.num_aux += count;
    instance.witness.values.extend((0..count).map(|_| Scalar::random(&mut *rng)));
    instance
}

/// An [`Instance`] as bellperson sees it.
#[derive(Clone, Copy)]
pub struct Rows<'a>(pub &'a Instance);

impl Synthesize<Scalar> for Rows<'_> {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let Instance { circuit, witness } = self.0;
        let mut variables = vec![CS::one()];
        for (index, value) in witness.values.iter().enumerate().skip(1) {
            variables.push(if index < circuit.num_inputs {
                cs.alloc_input(|| "", || Ok(*value))?
            } else {
                cs.alloc(|| "", || Ok(*value))?
            });
        }
        let terms = |matrix: &Csr, row: usize, empty: LinearCombination<Scalar>| {
            matrix.row(row).fold(empty, |sum, (column, coefficient)| {
                sum + (circuit.coefficients[coefficient as usize], variables[column as usize])
            })
        };
        for row in 0..circuit.num_constraints() {
            cs.enforce(
                || "",
                |lc| terms(&circuit.a, row, lc),
                |lc| terms(&circuit.b, row, lc),
                |lc| terms(&circuit.c, row, lc),
            );
        }
        Ok(())
    }
}

/// The parameters that bellperson's prover takes, with the points of `srs`.
pub fn bellperson_parameters(srs: &Srs) -> Parameters<Bls12> {
    Parameters {
        vk: srs.vk.clone(),
        h: Arc::new(srs.h.clone()),
        l: Arc::new(srs.l.clone()),
        a: Arc::new(srs.a.clone()),
        b_g1: Arc::new(srs.b_g1.clone()),
        b_g2: Arc::new(srs.b_g2.clone()),
    }
}
