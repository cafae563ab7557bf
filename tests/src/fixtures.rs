//! The checked-in files; `fixtures/README.md` says how each was made.

use std::path::{Path, PathBuf};

use blstrs::Scalar;
use ff::Field;
use interlock_engine::circuit::recorder::{Recorder, Variable};
use interlock_engine::circuit::{Circuit, Witness, r1cs, wtns};
use interlock_engine::format::Input;

/// The circuits of `fixtures/circuits`.
pub const CIRCUITS: [&str; 3] = ["multiplier", "range", "merkle"];

/// The path of a fixture.
pub fn path(name: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// A fixture, opened.
///
/// # Panics
/// When there is no such file.
pub fn open(name: &str) -> Input {
    Input::open(path(name)).unwrap()
}

/// The bytes of a fixture.
///
/// # Panics
/// When there is no such file.
pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

/// A circuit of [`CIRCUITS`] with its witness.
///
/// # Panics
/// When there is no such circuit.
pub fn circuit(name: &str) -> (Circuit, Witness) {
    let circuit = r1cs::read(&open(&format!("circuits/{name}.r1cs"))).unwrap();
    let witness = wtns::read(&open(&format!("circuits/{name}.wtns"))).unwrap();
    (circuit, witness)
}

/// The circuit of `small.params`. A and B leave variables out, some terms sum to zero, and an input
/// stands in B: x (z + w - w) = y, y 2 = w, (0 w) w = 0, with z public.
///
/// # Panics
/// Never: it is a fixed circuit.
pub fn small() -> Circuit {
    let mut recorder = Recorder::new();
    let one = Variable::Input(0);
    let (x, y) = (recorder.alloc_aux(), recorder.alloc_aux());
    let z = recorder.alloc_input();
    let w = recorder.alloc_aux();
    let unit = |variable| [(variable, Scalar::ONE)];
    recorder.enforce(unit(x), [(z, Scalar::ONE), (w, Scalar::ONE), (w, -Scalar::ONE)], unit(y));
    recorder.enforce(unit(y), [(one, Scalar::from(2))], unit(w));
    recorder.enforce([(w, Scalar::ZERO)], unit(w), []);
    recorder.finish().unwrap()
}

/// A circom or snarkjs file taken apart: its first eight bytes, then the number and content of each
/// section.
pub struct Sections {
    /// Magic and version.
    pub head: [u8; 8],
    /// The sections, in the order of the file.
    pub sections: Vec<(u32, Vec<u8>)>,
}

impl Sections {
    /// Takes a well-formed file apart.
    ///
    /// # Panics
    /// When the file is not well-formed.
    pub fn split(bytes: &[u8]) -> Self {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut at = 12;
        let sections = (0..number(8)).map(|_| {
            let length = number(at + 4) as usize;
            let content = bytes[at + 12..][..length].to_vec();
            let id = number(at);
            at += 12 + length;
            (id, content)
        });
        Self { sections: sections.collect(), head: bytes[..8].try_into().unwrap() }
    }

    /// The content of section `id`.
    ///
    /// # Panics
    /// When there is no such section.
    pub fn content(&mut self, id: u32) -> &mut Vec<u8> {
        &mut self.sections.iter_mut().find(|section| section.0 == id).unwrap().1
    }

    /// The file again.
    pub fn join(&self) -> Vec<u8> {
        let mut bytes = self.head.to_vec();
        bytes.extend((self.sections.len() as u32).to_le_bytes());
        for (id, content) in &self.sections {
            bytes.extend(id.to_le_bytes());
            bytes.extend((content.len() as u64).to_le_bytes());
            bytes.extend(content);
        }
        bytes
    }
}
