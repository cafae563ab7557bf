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
                Self(WitnessRecorder::empty())
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
                self.0.extend_aux(other.0.aux());
            }

            fn is_witness_generator(&self) -> bool {
                true
            }

            fn extend_inputs(&mut self, values: &[Scalar]) {
                self.0.inputs.extend_from_slice(values);
            }

            fn extend_aux(&mut self, values: &[Scalar]) {
                self.0.extend_aux(values);
            }

            fn allocate_empty(&mut self, aux: usize, inputs: usize) -> (&mut [Scalar], &mut [Scalar]) {
                self.0.grow(aux, inputs)
            }

            fn allocate_empty_inputs(&mut self, count: usize) -> &mut [Scalar] {
                self.0.grow(0, count).1
            }

            fn allocate_empty_aux(&mut self, count: usize) -> &mut [Scalar] {
                self.0.grow(count, 0).0
            }

            fn inputs_slice(&self) -> &[Scalar] {
                &self.0.inputs
            }

            fn aux_slice(&self) -> &[Scalar] {
                self.0.aux()
            }
        }
    };
}

adapter!(bellpepper_core);

/// The same for circuits of `bellpepper-core` 0.4, which the `bellpepper` gadgets use.
pub mod v04 {
    use super::{Circuit, RecordError, Recorder, Variable, Witness, WitnessRecorder};

    adapter!(bellpepper_core_04);
}

#[cfg(test)]
mod tests {
    use blstrs::Scalar;
    use ff::Field;

    use super::{RecordError, record, synthesize_witness, v04};

    /// Writes the same circuit for one version of the core: x^2 + y = z with z public, allocated last,
    /// and the witness-generator calls for `extra` private variables.
    macro_rules! sample {
        ($name:ident, $core:ident) => {
            struct $name {
                x: Option<Scalar>,
                extra: usize,
            }

            impl $core::Circuit<Scalar> for $name {
                fn synthesize<CS: $core::ConstraintSystem<Scalar>>(
                    self,
                    cs: &mut CS,
                ) -> Result<(), $core::SynthesisError> {
                    use $core::ConstraintSystem as _;
                    let missing = || $core::SynthesisError::AssignmentMissing;
                    let value = |f: fn(Scalar) -> Scalar| self.x.map(f).ok_or_else(missing);
                    let x = cs.alloc(|| "x", || value(|x| x))?;
                    let square = cs.alloc(|| "square", || value(|x| x.square()))?;
                    let y = cs.alloc(|| "y", || value(|x| x + Scalar::from(5)))?;
                    if cs.is_witness_generator() {
                        for (index, slot) in cs.allocate_empty(self.extra, 0).0.iter_mut().enumerate() {
                            *slot = Scalar::from(index as u64);
                        }
                    } else {
                        for index in 0..self.extra {
                            cs.alloc(|| format!("extra {index}"), || Ok(Scalar::from(index as u64)))?;
                        }
                    }
                    let z = cs.alloc_input(|| "z", || value(|x| x.square() + x + Scalar::from(5)))?;
                    let mut cs = cs.namespace(|| "constraints");
                    cs.enforce(|| "x x = square", |lc| lc + x, |lc| lc + x, |lc| lc + square);
                    cs.enforce(|| "sum", |lc| lc + square + y, |lc| lc + CS::one(), |lc| lc + z);
                    let five = (Scalar::from(5), CS::one());
                    cs.enforce(|| "y", |lc| lc + y - x - five, |lc| lc + z, |lc| lc + x - x);
                    Ok(())
                }
            }
        };
    }

    sample!(Old, bellpepper_core);
    sample!(New, bellpepper_core_04);

    #[test]
    fn both_versions_record_the_same_circuit() {
        let shape = record(Old { x: None, extra: 3 }).unwrap();
        assert_eq!((shape.num_inputs, shape.num_aux, shape.num_constraints()), (2, 6, 3));
        assert_eq!(v04::record(New { x: None, extra: 3 }).unwrap(), shape);

        let x = Some(Scalar::from(11));
        let witness = synthesize_witness(Old { x, extra: 3 }).unwrap();
        assert_eq!(v04::synthesize_witness(New { x, extra: 3 }).unwrap(), witness);
        assert_eq!(witness.check(&shape), Ok(()));
        assert_eq!(witness.public_inputs(&shape), [Scalar::from(121 + 16)]);
        assert_eq!(witness.values[5..], [0, 1, 2].map(Scalar::from));
        assert_eq!(v04::synthesize_witness_for(&shape, New { x, extra: 3 }).unwrap(), witness);
    }

    #[test]
    fn a_missing_value_is_an_error_of_the_witness_only() {
        let error = synthesize_witness(Old { x: None, extra: 0 }).unwrap_err();
        assert!(matches!(error, RecordError::Synthesis(_)));
        assert!(error.to_string().contains("assignment"), "{error}");
        assert!(v04::synthesize_witness(New { x: None, extra: 0 }).is_err());
    }

    /// Parts that are made apart and joined, as Filecoin's circuits do.
    struct InParts;

    impl bellpepper_core::Circuit<Scalar> for InParts {
        fn synthesize<CS: bellpepper_core::ConstraintSystem<Scalar>>(
            self,
            cs: &mut CS,
        ) -> Result<(), bellpepper_core::SynthesisError> {
            for number in 1..4u64 {
                let part = |cs: &mut CS| {
                    let x = cs.alloc(|| "x", || Ok(Scalar::from(number)))?;
                    let z = cs.alloc_input(|| "z", || Ok(Scalar::from(number)))?;
                    cs.enforce(|| "x = z", |lc| lc + x, |lc| lc + CS::one(), |lc| lc + z);
                    Ok::<_, bellpepper_core::SynthesisError>(())
                };
                if CS::is_extensible() {
                    let mut apart = CS::new();
                    apart.alloc_input(|| "temporary one", || Ok(Scalar::ONE))?;
                    part(&mut apart)?;
                    cs.extend(&apart);
                } else {
                    part(cs)?;
                }
            }
            Ok(())
        }
    }

    #[test]
    fn parts_are_joined_without_their_own_one() {
        let shape = record(InParts).unwrap();
        let witness = synthesize_witness(InParts).unwrap();
        assert_eq!(witness.values, [1, 1, 2, 3, 1, 2, 3].map(Scalar::from));
        assert_eq!(witness.check(&shape), Ok(()));
    }
}
