//! Records a constraint system term by term: the common ground under every circuit front end.
//!
//! [`Recorder`] takes the shape (no values needed), [`WitnessRecorder`] takes the values (no
//! constraints needed). A front end whose `ConstraintSystem` trait is not the one of `bellpepper-core`
//! needs only a thin shim that forwards to them.

use blstrs::Scalar;
use ff::Field;
use rayon::prelude::*;

use super::coefficients::Coefficients;
use super::{Circuit, Csr, CsrBuilder, Witness, huge_pages};

/// A variable while its circuit is being recorded.
///
/// The final number of a private variable is known only when all inputs are: see
/// [`Circuit`] for the numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    /// A public input; `Input(0)` is the constant one.
    Input(usize),
    /// A private variable.
    Aux(usize),
}

/// Why a circuit could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The circuit's own code gave up.
    #[error("the circuit could not be synthesized: {0}")]
    Synthesis(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The circuit outgrows the inner form.
    #[error("the circuit is too large: more than {limit} {what}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The most there may be.
        limit: usize,
    },
    /// A constraint mentions a variable that was never allocated.
    #[error("constraint {constraint} mentions {variable:?}, which was never allocated")]
    UnknownVariable {
        /// Index of the constraint.
        constraint: usize,
        /// The variable it mentions.
        variable: Variable,
    },
}

/// Marks a column as a private variable until the number of inputs is known.
const AUX: u32 = 1 << 31;

/// Records the shape of a circuit.
///
/// Within one linear combination the terms of one variable are summed, and sums of zero are dropped.
/// That is what a Groth16 setup sees (the polynomial of such a variable is zero in that row), and so
/// what the point vectors of any SRS are made for.
#[derive(Debug)]
pub struct Recorder {
    num_inputs: usize,
    num_aux: usize,
    matrices: [CsrBuilder; 3],
    coefficients: Coefficients,
    row: Vec<(u32, Scalar)>,
    /// What outgrew the inner form, and its limit.
    overflow: Option<(&'static str, usize)>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// The most variables of one kind.
    pub const MAX_INDEX: usize = AUX as usize - 1;

    /// An empty circuit: only the constant one, `Input(0)`, is allocated.
    pub fn new() -> Self {
        Self {
            num_inputs: 1,
            num_aux: 0,
            matrices: Default::default(),
            coefficients: Coefficients::new(),
            row: Vec::new(),
            overflow: None,
        }
    }

    /// A new public input.
    pub fn alloc_input(&mut self) -> Variable {
        let index = self.num_inputs;
        self.num_inputs += 1;
        if index > Self::MAX_INDEX {
            self.overflow = Some(("public inputs", Self::MAX_INDEX));
        }
        Variable::Input(index)
    }

    /// A new private variable.
    pub fn alloc_aux(&mut self) -> Variable {
        let index = self.num_aux;
        self.num_aux += 1;
        if index > Self::MAX_INDEX {
            self.overflow = Some(("private variables", Self::MAX_INDEX));
        }
        Variable::Aux(index)
    }

    /// Adds the constraint `a * b = c`; each side is a sum of variables times coefficients, in any
    /// order. What is wrong with a constraint is reported by [`Recorder::finish`].
    pub fn enforce(
        &mut self,
        a: impl IntoIterator<Item = (Variable, Scalar)>,
        b: impl IntoIterator<Item = (Variable, Scalar)>,
        c: impl IntoIterator<Item = (Variable, Scalar)>,
    ) {
        self.push_row(0, a);
        self.push_row(1, b);
        self.push_row(2, c);
    }

    fn push_row(&mut self, matrix: usize, terms: impl IntoIterator<Item = (Variable, Scalar)>) {
        self.row.clear();
        for (variable, coefficient) in terms {
            let column = match variable {
                Variable::Input(index) if index <= Self::MAX_INDEX => index as u32,
                Variable::Aux(index) if index <= Self::MAX_INDEX => index as u32 | AUX,
                _ => {
                    self.overflow = Some(("variables", Self::MAX_INDEX));
                    continue;
                }
            };
            self.row.push((column, coefficient));
        }
        let kept = push_terms(&mut self.matrices[matrix], &mut self.coefficients, &mut self.row);
        if !kept {
            self.overflow = Some(("matrix entries", u32::MAX as usize));
        }
    }

    /// The finished circuit.
    ///
    /// # Errors
    /// [`RecordError::TooLarge`], or [`RecordError::UnknownVariable`] for the first constraint that
    /// mentions a variable that no `alloc` call returned.
    pub fn finish(self) -> Result<Circuit, RecordError> {
        if let Some((what, limit)) = self.overflow {
            return Err(RecordError::TooLarge { what, limit });
        }
        let limit = u32::MAX as usize;
        if self.num_inputs + self.num_aux > limit {
            return Err(RecordError::TooLarge { what: "variables", limit });
        }
        let [a, b, c] = self.matrices.map(CsrBuilder::finish);
        let limit = Circuit::MAX_DOMAIN;
        if a.num_rows() + self.num_inputs > limit {
            return Err(RecordError::TooLarge { what: "constraints and public inputs", limit });
        }
        let (inputs, aux) = (self.num_inputs as u32, self.num_aux as u32);
        Ok(Circuit {
            num_inputs: self.num_inputs,
            num_aux: self.num_aux,
            a: number_columns(a, inputs, aux)?,
            b: number_columns(b, inputs, aux)?,
            c: number_columns(c, inputs, aux)?,
            coefficients: self.coefficients.finish(),
        })
    }
}

/// Ends a row with `terms`: summed by column, without zeros, in ascending order. Returns false when
/// the matrix or the coefficient table has outgrown its 32-bit indices.
#[must_use]
pub(super) fn push_terms(
    matrix: &mut CsrBuilder,
    coefficients: &mut Coefficients,
    terms: &mut Vec<(u32, Scalar)>,
) -> bool {
    if !terms.is_sorted_by(|left, right| left.0 < right.0) {
        terms.sort_by_key(|term| term.0);
        terms.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
    }
    for &(column, coefficient) in terms.iter() {
        if bool::from(coefficient.is_zero()) {
            continue;
        }
        match coefficients.intern(coefficient) {
            Some(index) => matrix.push(column, index),
            None => return false,
        }
    }
    matrix.end_row()
}

/// Replaces recorded columns by variable numbers.
fn number_columns(matrix: Csr, inputs: u32, aux: u32) -> Result<Csr, RecordError> {
    let unknown = |column: u32| match column & AUX {
        0 => column >= inputs,
        _ => column & !AUX >= aux,
    };
    if let Some(entry) = matrix.columns().iter().position(|&column| unknown(column)) {
        let column = matrix.columns()[entry];
        let index = (column & !AUX) as usize;
        return Err(RecordError::UnknownVariable {
            constraint: matrix.row_starts().partition_point(|&start| start as usize <= entry) - 1,
            variable: if column & AUX == 0 { Variable::Input(index) } else { Variable::Aux(index) },
        });
    }
    Ok(matrix.map_columns(|column| match column & AUX {
        0 => column,
        _ => (column & !AUX) + inputs,
    }))
}

/// As many values as are worth other threads: the first touch of memory is what takes long.
const MANY: usize = 1 << 14;

/// Records the values of a circuit's variables, in the order they are allocated.
#[derive(Clone, Debug)]
pub struct WitnessRecorder {
    pub(super) inputs: Vec<Scalar>,
    /// Private values, behind unused room for the inputs.
    values: Vec<Scalar>,
    room: usize,
}

impl Default for WitnessRecorder {
    fn default() -> Self {
        Self::new()
    }
}

impl WitnessRecorder {
    /// Only the constant one, `Input(0)`, has its value.
    pub fn new() -> Self {
        Self { inputs: vec![Scalar::ONE], ..Self::empty() }
    }

    /// No variable has its value, not even the constant one.
    pub(super) fn empty() -> Self {
        Self { inputs: Vec::new(), values: Vec::new(), room: 0 }
    }

    /// Like [`WitnessRecorder::new`], with room for the variables of `circuit`.
    pub fn for_circuit(circuit: &Circuit) -> Self {
        let room = circuit.num_inputs;
        let mut values = huge_pages::with_capacity(circuit.num_variables());
        values.resize(room, Scalar::ZERO);
        Self { values, room, ..Self::new() }
    }

    /// A new public input.
    pub fn alloc_input(&mut self, value: Scalar) -> Variable {
        self.inputs.push(value);
        Variable::Input(self.inputs.len() - 1)
    }

    /// A new private variable.
    pub fn alloc_aux(&mut self, value: Scalar) -> Variable {
        self.values.push(value);
        Variable::Aux(self.values.len() - self.room - 1)
    }

    /// The values of the private variables.
    pub(super) fn aux(&self) -> &[Scalar] {
        &self.values[self.room..]
    }

    /// New private variables.
    pub(super) fn extend_aux(&mut self, values: &[Scalar]) {
        self.values.extend_from_slice(values);
    }

    /// New private variables and public inputs, of the value zero.
    pub(super) fn grow(&mut self, aux: usize, inputs: usize) -> (&mut [Scalar], &mut [Scalar]) {
        let (start, first_input) = (self.values.len(), self.inputs.len());
        if aux < MANY {
            self.values.resize(start + aux, Scalar::ZERO);
        } else {
            self.values.par_extend(rayon::iter::repeat_n(Scalar::ZERO, aux));
        }
        self.inputs.resize(first_input + inputs, Scalar::ZERO);
        (&mut self.values[start..], &mut self.inputs[first_input..])
    }

    /// The full assignment.
    pub fn finish(self) -> Witness {
        let Self { inputs, mut values, room } = self;
        // As many inputs as there is room for move nothing.
        values.splice(..room, inputs);
        Witness { values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_allocated_late_still_come_first() {
        let mut recorder = Recorder::new();
        let x = recorder.alloc_aux();
        let y = recorder.alloc_input();
        recorder.enforce([(x, Scalar::ONE)], [(x, Scalar::ONE)], [(y, Scalar::ONE)]);
        let circuit = recorder.finish().unwrap();
        assert_eq!((circuit.num_inputs, circuit.num_aux), (2, 1));
        assert_eq!(circuit.a.columns(), [2]);
        assert_eq!(circuit.c.columns(), [1]);

        let mut values = WitnessRecorder::for_circuit(&circuit);
        values.alloc_aux(Scalar::from(5));
        values.alloc_input(Scalar::from(25));
        let witness = values.finish();
        assert_eq!(witness.values, [Scalar::ONE, Scalar::from(25), Scalar::from(5)]);
        assert_eq!(circuit.first_unsatisfied(&witness), None);
    }

    #[test]
    fn terms_are_summed_and_zeros_dropped() {
        let mut recorder = Recorder::new();
        let (x, y) = (recorder.alloc_aux(), recorder.alloc_aux());
        let three = Scalar::from(3);
        recorder.enforce(
            [(y, Scalar::ONE), (x, three), (y, -Scalar::ONE), (x, three)],
            [(x, Scalar::ZERO)],
            [],
        );
        let circuit = recorder.finish().unwrap();
        assert_eq!(circuit.a.row(0).collect::<Vec<_>>(), [(1, 2)]);
        assert_eq!(circuit.coefficients[2], Scalar::from(6));
        assert_eq!(circuit.b.num_entries(), 0);
        let (a, b) = circuit.densities();
        assert_eq!((a, b), (vec![0, 1], vec![]));
    }

    #[test]
    fn unknown_variable_is_named() {
        let mut recorder = Recorder::new();
        recorder.enforce([], [], []);
        recorder.enforce([(Variable::Input(0), Scalar::ONE)], [(Variable::Aux(3), Scalar::ONE)], []);
        let error = recorder.finish().unwrap_err();
        assert!(
            matches!(error, RecordError::UnknownVariable { constraint: 1, variable: Variable::Aux(3) }),
            "{error}"
        );
    }

    #[test]
    fn too_large_an_index_is_an_error() {
        let mut recorder = Recorder::new();
        recorder.enforce([(Variable::Aux(1 << 31), Scalar::ONE)], [], []);
        assert!(matches!(recorder.finish(), Err(RecordError::TooLarge { .. })));
    }
}
