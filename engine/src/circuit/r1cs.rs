//! circom's `.r1cs`, version 1 (<https://github.com/iden3/r1csfile>).
//!
//! All numbers are little-endian; a scalar is 32 bytes, canonical. Wires are numbered as variables are
//! in [`Circuit`]: one, public outputs, public inputs, private.
//!
//! | section | holds |
//! |---|---|
//! | 1 header | field, number of wires, public outputs, public inputs, private inputs, labels, constraints |
//! | 2 constraints | for each the linear combinations A, B, C: count, then {wire, coefficient} |
//! | 3 wire to label | a `u64` per wire; read for its length only |
//! | 4, 5 custom gates | refused unless empty |

use std::io::{self, Write};

use blstrs::Scalar;
use ff::PrimeField;

use super::coefficients::Coefficients;
use super::recorder::push_terms;
use super::{Circuit, CsrBuilder};
use crate::format::binfile::BinFile;
use crate::format::field::{SCALAR_BYTES, expect_modulus, scalar_from_bytes, scalar_modulus};
use crate::format::{FormatError, Input, Reason, Section};

const FORMAT: &str = "r1cs";
const VERSION: u32 = 1;
const HEADER: u32 = 1;
const CONSTRAINTS: u32 = 2;
const LABELS: u32 = 3;
const CUSTOM_GATES: [u32; 2] = [4, 5];

/// Bytes of a term: wire and coefficient.
const TERM_BYTES: u64 = 4 + SCALAR_BYTES as u64;

/// Reads a circuit.
///
/// # Errors
/// When the file is no `.r1cs` over BLS12-381, is damaged, or uses custom gates.
pub fn read(input: &Input) -> Result<Circuit, FormatError> {
    let file = BinFile::open(input, FORMAT, VERSION)?;
    let header = Header::read(&file)?;
    refuse_custom_gates(&file)?;

    let mut section = file.section(CONSTRAINTS, "section 2 (constraints)")?;
    let constraints = header.constraints as usize;
    // Each linear combination has at least its count.
    section.require(u64::from(header.constraints) * 3 * 4)?;
    let mut matrices = [(); 3].map(|()| CsrBuilder::with_capacity(constraints, 0));
    let mut coefficients = Coefficients::new();
    let mut row = Vec::new();
    for _ in 0..constraints {
        for matrix in &mut matrices {
            let start = section.position();
            read_terms(&mut section, header.wires, &mut row)?;
            if !push_terms(matrix, &mut coefficients, &mut row) {
                let (limit, found) = (u32::MAX.into(), 1 << 32);
                let reason = Reason::TooLarge { what: "the number of matrix entries", limit, found };
                return Err(section.error_at(start, reason));
            }
        }
    }
    section.finish()?;
    let [a, b, c] = matrices.map(CsrBuilder::finish);
    let num_inputs = header.inputs as usize;
    let num_aux = header.wires as usize - num_inputs;
    Ok(Circuit { num_inputs, num_aux, a, b, c, coefficients: coefficients.finish() })
}

struct Header {
    wires: u32,
    /// The constant one, the public outputs and the public inputs.
    inputs: u32,
    constraints: u32,
}

impl Header {
    fn read(file: &BinFile) -> Result<Self, FormatError> {
        let mut section = file.section(HEADER, "section 1 (header)")?;
        expect_modulus(&mut section, &scalar_modulus())?;
        let at = section.position();
        let wires = section.u32_le()?;
        let [outputs, inputs] = [section.u32_le()?, section.u32_le()?];
        // The private inputs of the source: circom counts those too that it optimised away, so that no
        // wire need belong to them.
        let _private = section.u32_le()?;
        let _labels = section.u64_le()?;
        let constraints = section.u32_le()?;
        let error = |reason| section.error_at(at, reason);

        let inputs = 1 + u64::from(outputs) + u64::from(inputs);
        if inputs > wires.into() {
            let (expected, found) = (inputs, wires.into());
            let what = "the number of wires";
            return Err(error(Reason::CountMismatch { what, expected, found }));
        }
        let (limit, found) = (Circuit::MAX_DOMAIN as u64, u64::from(constraints) + inputs);
        if found > limit {
            let what = "the number of constraints and public inputs";
            return Err(error(Reason::TooLarge { what, limit, found }));
        }
        // What is later set aside per wire must be justified by bytes of the file.
        let limit = match file.has(LABELS) {
            true => {
                let labels = file.section(LABELS, "section 3 (wire to label)")?;
                labels.require_exactly(wires.into(), 8)?;
                u64::from(u32::MAX)
            }
            false => file.input().len(),
        };
        if u64::from(wires) > limit {
            let found = wires.into();
            return Err(error(Reason::TooLarge { what: "the number of wires", limit, found }));
        }
        section.finish()?;
        Ok(Self { wires, inputs: inputs as u32, constraints })
    }
}

fn read_terms(section: &mut Section, wires: u32, row: &mut Vec<(u32, Scalar)>) -> Result<(), FormatError> {
    row.clear();
    let count = section.u32_le()?;
    section.require(u64::from(count) * TERM_BYTES)?;
    for index in 0..u64::from(count) {
        let start = section.position();
        let bytes: [u8; TERM_BYTES as usize] = section.array()?;
        let (wire, coefficient) = bytes.split_at(4);
        let wire = u32::from_le_bytes([wire[0], wire[1], wire[2], wire[3]]);
        if wire >= wires {
            let (limit, found) = (u64::from(wires) - 1, wire.into());
            return Err(section.error_at(start, Reason::TooLarge { what: "a wire", limit, found }));
        }
        let coefficient = scalar_from_bytes(coefficient)
            .ok_or_else(|| section.error_at(start + 4, Reason::NonCanonicalScalar { index }))?;
        row.push((wire, coefficient));
    }
    Ok(())
}

/// Custom gates are constraints that R1CS does not have: leaving them out would accept any witness.
/// circom writes the sections, with a count of zero, when the circuit uses none.
fn refuse_custom_gates(file: &BinFile) -> Result<(), FormatError> {
    for id in CUSTOM_GATES {
        if file.has(id) {
            let mut section = file.section(id, "sections 4 and 5 (custom gates)")?;
            if section.remaining() > 0 && section.u32_le()? > 0 {
                return Err(section.error(Reason::Unsupported { what: "custom gates" }));
            }
        }
    }
    Ok(())
}

/// Writes `circuit`, for circom's and snarkjs's tools. All public inputs are written as inputs, none as
/// outputs; a wire's label is its own number.
///
/// # Errors
/// Those of `writer`.
pub fn write(circuit: &Circuit, mut writer: impl Write) -> io::Result<()> {
    let matrices = [&circuit.a, &circuit.b, &circuit.c];
    let entries: u64 = matrices.iter().map(|matrix| matrix.num_entries() as u64).sum();
    let (constraints, wires) = (circuit.num_constraints() as u32, circuit.num_variables() as u32);

    writer.write_all(FORMAT.as_bytes())?;
    writer.write_all(&VERSION.to_le_bytes())?;
    writer.write_all(&3u32.to_le_bytes())?;

    section_header(&mut writer, HEADER, 64)?;
    write_field(&mut writer)?;
    for number in [wires, 0, circuit.num_inputs as u32 - 1, 0] {
        writer.write_all(&number.to_le_bytes())?;
    }
    writer.write_all(&u64::from(wires).to_le_bytes())?;
    writer.write_all(&constraints.to_le_bytes())?;

    section_header(&mut writer, CONSTRAINTS, u64::from(constraints) * 3 * 4 + entries * TERM_BYTES)?;
    let coefficients: Vec<_> = circuit.coefficients.iter().map(PrimeField::to_repr).collect();
    for row in 0..circuit.num_constraints() {
        for matrix in matrices {
            let count = matrix.row_starts()[row + 1] - matrix.row_starts()[row];
            writer.write_all(&count.to_le_bytes())?;
            for (wire, coefficient) in matrix.row(row) {
                writer.write_all(&wire.to_le_bytes())?;
                writer.write_all(&coefficients[coefficient as usize])?;
            }
        }
    }

    section_header(&mut writer, LABELS, u64::from(wires) * 8)?;
    for label in 0..u64::from(wires) {
        writer.write_all(&label.to_le_bytes())?;
    }
    writer.flush()
}

/// Writes the head of a section of `bytes` bytes.
pub(super) fn section_header(writer: &mut impl Write, id: u32, bytes: u64) -> io::Result<()> {
    writer.write_all(&id.to_le_bytes())?;
    writer.write_all(&bytes.to_le_bytes())
}

/// Writes a field header: 36 bytes.
pub(super) fn write_field(writer: &mut impl Write) -> io::Result<()> {
    writer.write_all(&(SCALAR_BYTES as u32).to_le_bytes())?;
    writer.write_all(&scalar_modulus().to_bytes_le())
}
