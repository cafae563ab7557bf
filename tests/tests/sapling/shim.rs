//! From bellman's `ConstraintSystem`, over the field type of `bls12_381`, to the engine's recorders.

use bellman::{Circuit as Synthesize, ConstraintSystem, Index, LinearCombination, SynthesisError};
use bls12_381::Scalar;
use interlock_engine::circuit::recorder::{Recorder, Variable, WitnessRecorder};
use interlock_engine::circuit::{Circuit, Witness};

/// Records the shape of a bellman circuit.
pub fn record(circuit: impl Synthesize<Scalar>) -> Circuit {
    let mut shape = Shape(Recorder::new());
    circuit.synthesize(&mut shape).unwrap();
    shape.0.finish().unwrap()
}

/// Makes the witness of a bellman circuit.
pub fn witness(shape: &Circuit, circuit: impl Synthesize<Scalar>) -> Witness {
    let mut values = Values(WitnessRecorder::for_circuit(shape));
    circuit.synthesize(&mut values).unwrap();
    values.0.finish()
}

fn ours(value: Scalar) -> blstrs::Scalar {
    blstrs::Scalar::from_bytes_le(&value.to_bytes()).unwrap()
}

fn outer(variable: Variable) -> bellman::Variable {
    bellman::Variable::new_unchecked(match variable {
        Variable::Input(index) => Index::Input(index),
        Variable::Aux(index) => Index::Aux(index),
    })
}

fn terms(sum: &LinearCombination<Scalar>) -> impl Iterator<Item = (Variable, blstrs::Scalar)> + '_ {
    sum.as_ref().iter().map(|(variable, coefficient)| match variable.get_unchecked() {
        Index::Input(index) => (Variable::Input(index), ours(*coefficient)),
        Index::Aux(index) => (Variable::Aux(index), ours(*coefficient)),
    })
}

struct Shape(Recorder);

impl ConstraintSystem<Scalar> for Shape {
    type Root = Self;

    fn alloc<F, A, AR>(&mut self, _: A, _: F) -> Result<bellman::Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        Ok(outer(self.0.alloc_aux()))
    }

    fn alloc_input<F, A, AR>(&mut self, _: A, _: F) -> Result<bellman::Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        Ok(outer(self.0.alloc_input()))
    }

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, a: LA, b: LB, c: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LB: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LC: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
    {
        let a = a(LinearCombination::zero());
        let b = b(LinearCombination::zero());
        let c = c(LinearCombination::zero());
        self.0.enforce(terms(&a), terms(&b), terms(&c));
    }

    fn push_namespace<NR: Into<String>, N: FnOnce() -> NR>(&mut self, _: N) {}

    fn pop_namespace(&mut self) {}

    fn get_root(&mut self) -> &mut Self {
        self
    }
}

struct Values(WitnessRecorder);

impl ConstraintSystem<Scalar> for Values {
    type Root = Self;

    fn alloc<F, A, AR>(&mut self, _: A, value: F) -> Result<bellman::Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        Ok(outer(self.0.alloc_aux(ours(value()?))))
    }

    fn alloc_input<F, A, AR>(&mut self, _: A, value: F) -> Result<bellman::Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        Ok(outer(self.0.alloc_input(ours(value()?))))
    }

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, _: LA, _: LB, _: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LB: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LC: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
    {
    }

    fn push_namespace<NR: Into<String>, N: FnOnce() -> NR>(&mut self, _: N) {}

    fn pop_namespace(&mut self) {}

    fn get_root(&mut self) -> &mut Self {
        self
    }
}
