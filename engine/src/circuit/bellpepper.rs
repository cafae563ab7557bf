//! Circuits written against `bellpepper-core`: recorded once, then only their witness is made.
//!
//! The functions of this module take circuits of `bellpepper-core` 0.2, which bellperson and Filecoin
//! use; [`v04`] holds the same for 0.4.

use super::recorder::{RecordError, Recorder, Variable, WitnessRecorder};
use super::{Circuit, Witness};

/// Writes the adapter for one version of `bellpepper-core`. The traits of all versions are the same
/// text, but different items.
macro_rules! adapter {
    ($core:ident) => {
        use blstrs::Scalar;
        use ff::Field;
        use $core::{Circuit as Synthesize, ConstraintSystem, Index, LinearCombination, SynthesisError};

        /// Records the shape of `circuit`. Its values may be missing: no closure that would compute
        /// one is called.
        ///
        /// # Errors
        /// [`RecordError`] when the circuit's code gives up, or the circuit outgrows the inner form.
        pub fn record(circuit: impl Synthesize<Scalar>) -> Result<Circuit, RecordError> {
            let mut shape = Shape(Recorder::new());
            circuit.synthesize(&mut shape).map_err(|error| RecordError::Synthesis(error.into()))?;
            shape.0.finish()
        }

        /// Computes the full assignment of `circuit`. No constraint is built.
        ///
        /// # Errors
        /// [`RecordError::Synthesis`] when the circuit's code gives up, as it does for a missing value.
        pub fn synthesize_witness(circuit: impl Synthesize<Scalar>) -> Result<Witness, RecordError> {
            synthesize_into(WitnessRecorder::new(), circuit)
        }

        /// Like [`synthesize_witness`], with memory set aside for the variables of `shape`.
        ///
        /// # Errors
        /// See [`synthesize_witness`].
        pub fn synthesize_witness_for(
            shape: &Circuit,
            circuit: impl Synthesize<Scalar>,
        ) -> Result<Witness, RecordError> {
            synthesize_into(WitnessRecorder::for_circuit(shape), circuit)
        }

        fn synthesize_into(
            values: WitnessRecorder,
            circuit: impl Synthesize<Scalar>,
        ) -> Result<Witness, RecordError> {
            let mut values = Values(values);
            circuit.synthesize(&mut values).map_err(|error| RecordError::Synthesis(error.into()))?;
            Ok(values.0.finish())
        }

        fn outer(variable: Variable) -> $core::Variable {
            $core::Variable::new_unchecked(match variable {
                Variable::Input(index) => Index::Input(index),
                Variable::Aux(index) => Index::Aux(index),
            })
        }

        fn terms(sum: &LinearCombination<Scalar>) -> impl Iterator<Item = (Variable, Scalar)> + '_ {
            sum.iter().map(|(variable, &coefficient)| match variable.get_unchecked() {
                Index::Input(index) => (Variable::Input(index), coefficient),
                Index::Aux(index) => (Variable::Aux(index), coefficient),
            })
        }

        /// The constraint system that records a shape.
        ///
        /// Not extensible: a shape is recorded in the one order that its SRS was made for.
        struct Shape(Recorder);

        impl ConstraintSystem<Scalar> for Shape {
            type Root = Self;

            fn alloc<F, A, AR>(&mut self, _: A, _: F) -> Result<$core::Variable, SynthesisError>
            where
                F: FnOnce() -> Result<Scalar, SynthesisError>,
                A: FnOnce() -> AR,
                AR: Into<String>,
            {
                Ok(outer(self.0.alloc_aux()))
            }

            fn alloc_input<F, A, AR>(&mut self, _: A, _: F) -> Result<$core::Variable, SynthesisError>
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

        /// The constraint system that records values.
        ///
        /// It is a witness generator and extensible, so that circuits which know a faster way to
        /// their witness, or make parts of it in parallel, may use it. A part starts with a temporary
        /// input one of its own, as the parts of bellperson's prover do; `extend` leaves it out.
        struct Values(WitnessRecorder);

        impl ConstraintSystem<Scalar> for Values {
            type Root = Self;

            fn new() -> Self {
                Self(WitnessRecorder { inputs: Vec::new(), aux: Vec::new() })
            }

            fn alloc<F, A, AR>(&mut self, _: A, value: F) -> Result<$core::Variable, SynthesisError>
            where
                F: FnOnce() -> Result<Scalar, SynthesisError>,
                A: FnOnce() -> AR,
                AR: Into<String>,
            {
                Ok(outer(self.0.alloc_aux(value()?)))
            }

            fn alloc_input<F, A, AR>(&mut self, _: A, value: F) -> Result<$core::Variable, SynthesisError>
            where
                F: FnOnce() -> Result<Scalar, SynthesisError>,
                A: FnOnce() -> AR,
                AR: Into<String>,
            {
                Ok(outer(self.0.alloc_input(value()?)))
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

            fn is_extensible() -> bool {
                true
            }

            fn extend(&mut self, other: &Self) {
                self.0.inputs.extend_from_slice(other.0.inputs.get(1..).unwrap_or_default());
                self.0.aux.extend_from_slice(&other.0.aux);
            }

            fn is_witness_generator(&self) -> bool {
                true
            }

            fn extend_inputs(&mut self, values: &[Scalar]) {
                self.0.inputs.extend_from_slice(values);
            }

            fn extend_aux(&mut self, values: &[Scalar]) {
                self.0.aux.extend_from_slice(values);
            }

            fn allocate_empty(&mut self, aux: usize, inputs: usize) -> (&mut [Scalar], &mut [Scalar]) {
                (grow(&mut self.0.aux, aux), grow(&mut self.0.inputs, inputs))
            }

            fn allocate_empty_inputs(&mut self, count: usize) -> &mut [Scalar] {
                grow(&mut self.0.inputs, count)
            }

            fn allocate_empty_aux(&mut self, count: usize) -> &mut [Scalar] {
                grow(&mut self.0.aux, count)
            }

            fn inputs_slice(&self) -> &[Scalar] {
                &self.0.inputs
            }

            fn aux_slice(&self) -> &[Scalar] {
                &self.0.aux
            }
        }

        /// Adds `count` zeros to `values` and returns them.
        fn grow(values: &mut Vec<Scalar>, count: usize) -> &mut [Scalar] {
            let start = values.len();
            values.resize(start + count, Scalar::ZERO);
            &mut values[start..]
        }
    };
}

adapter!(bellpepper_core);

/// The same for circuits of `bellpepper-core` 0.4, which the `bellpepper` gadgets use.
pub mod v04 {
    use super::{Circuit, RecordError, Recorder, Variable, Witness, WitnessRecorder};

    adapter!(bellpepper_core_04);
}
