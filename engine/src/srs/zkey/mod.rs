//! snarkjs's Groth16 `.zkey`, version 1, over BLS12-381.
//!
//! All numbers are little-endian, points are in Montgomery form (see [`crate::format`]).
//!
//! | section | holds |
//! |---|---|
//! | 1 | the proof system: 1 is Groth16 |
//! | 2 | fields, number of variables, public inputs, domain size, then alpha, beta, gamma, delta |
//! | 3 IC | a point for each public input and the constant one |
//! | 4 coefficients | the entries of A and B, the implied rows of the inputs included; see [`Zkey::check_matches`] |
//! | 5 A, 6 B in G1, 7 B in G2 | a point per variable, infinity where the variable is not mentioned |
//! | 8 L | a point per private variable |
//! | 9 H | a point per element of the domain, on the odd coset |
//! | 10 | contributions; not read |
//!
//! Nothing is kept but the header until [`Zkey::srs`] reads the points, section by section.

use blstrs::{Bls12, G1Affine, G2Affine};

use super::{HBasis, Srs, VerifyingKey};
use crate::circuit::Circuit;
use crate::format::binfile::BinFile;
use crate::format::field::{expect_modulus, scalar_modulus};
use crate::format::points::{
    Encoding, FilePoint, base_modulus, read_all, read_finite, read_point, read_points,
};
use crate::format::{FormatError, Input, PointCheck, Reason, Section};

mod coefficients;

const FORMAT: &str = "zkey";
const VERSION: u32 = 1;
const ENCODING: Encoding = Encoding::Montgomery;
const HEADER: &str = "section 2 (Groth16 header)";

/// An open `.zkey`, of which the header has been read.
pub struct Zkey<'a> {
    file: BinFile<'a>,
    header: Header,
}

/// What section 2 says.
struct Header {
    /// Where the three counts lie, for errors.
    counts_at: u64,
    num_variables: u32,
    num_public: u32,
    domain: u32,
    alpha_g1: G1Affine,
    beta_g1: G1Affine,
    beta_g2: G2Affine,
    gamma_g2: G2Affine,
    delta_g1: G1Affine,
    delta_g2: G2Affine,
}

/// Reads the SRS of `circuit`, after checking that it is one of that circuit.
///
/// # Errors
/// When the file is no Groth16 `.zkey` over BLS12-381, is damaged, a point in it is bad, or it was made
/// for another circuit.
pub fn read(input: &Input, circuit: &Circuit, check: PointCheck) -> Result<Srs, FormatError> {
    let zkey = Zkey::open(input)?;
    zkey.check_matches(circuit)?;
    let srs = zkey.srs(check)?;
    zkey.check_queries(circuit, &srs)?;
    Ok(srs)
}

impl<'a> Zkey<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// When the file is no Groth16 `.zkey` over BLS12-381, or its header is damaged.
    pub fn open(input: &'a Input) -> Result<Self, FormatError> {
        let file = BinFile::open(input, FORMAT, VERSION)?;
        let mut section = file.section(1, "section 1 (protocol)")?;
        let at = section.position();
        let protocol = section.u32_le()?;
        if protocol != 1 {
            let found = match protocol {
                2 => "PLONK".to_owned(),
                10 => "FFLONK".to_owned(),
                other => format!("proof system {other}"),
            };
            return Err(section.error_at(at, Reason::WrongProtocol { found }));
        }
        section.finish()?;
        let header = Header::read(file.section(2, HEADER)?)?;
        Ok(Self { file, header })
    }

    /// Public inputs, without the constant one.
    pub fn num_public(&self) -> usize {
        self.header.num_public as usize
    }

    /// Variables, the constant one included.
    pub fn num_variables(&self) -> usize {
        self.header.num_variables as usize
    }

    /// Size of the evaluation domain.
    pub fn domain_size(&self) -> usize {
        self.header.domain as usize
    }

    /// Whether this is an SRS of `circuit`: the counts, and every entry of A and B.
    ///
    /// A `.zkey` does not hold C: what only differs there shows when a proof is verified.
    ///
    /// # Errors
    /// [`Reason::OtherCircuit`], [`Reason::OtherCircuitEntry`], or a damaged section 4.
    pub fn check_matches(&self, circuit: &Circuit) -> Result<(), FormatError> {
        let header = &self.header;
        for (what, expected, found) in [
            ("the number of variables", circuit.num_variables(), header.num_variables),
            ("the number of public inputs", circuit.num_inputs - 1, header.num_public),
            ("the size of the domain", circuit.domain_size(), header.domain),
        ] {
            self.expect(what, expected, found as usize)?;
        }
        coefficients::check(self.file.section(4, "section 4 (coefficients)")?, circuit)
    }

    fn expect(&self, what: &'static str, expected: usize, found: usize) -> Result<(), FormatError> {
        if expected == found {
            return Ok(());
        }
        let reason = Reason::OtherCircuit { what, expected: expected as u64, found: found as u64 };
        Err(self.file.input().error(HEADER, Some(self.header.counts_at), reason))
    }

    /// Whether the points of A and B belong to the variables that `circuit` mentions there.
    fn check_queries(&self, circuit: &Circuit, srs: &Srs) -> Result<(), FormatError> {
        let (a, b) = circuit.densities();
        let queries = [
            ("section 5 (A)", "the number of variables in A", a, &srs.a_variables),
            ("section 6 (B in G1)", "the number of variables in B", b, &srs.b_variables),
        ];
        for (section, what, expected, found) in queries {
            if expected != *found {
                let (expected, found) = (expected.len() as u64, found.len() as u64);
                let reason = Reason::OtherCircuit { what, expected, found };
                return Err(self.file.input().error(section, None, reason));
            }
        }
        Ok(())
    }

    /// Reads the points.
    ///
    /// # Errors
    /// When a section is missing, damaged or of a length that the header does not say, or a point is bad.
    pub fn srs(&self, check: PointCheck) -> Result<Srs, FormatError> {
        let variables = self.num_variables();
        let inputs = self.num_public() + 1;
        let ic = self.points(3, "section 3 (IC)", inputs, |section, count| {
            read_finite(section, count, ENCODING, PointCheck::Full)
        })?;
        let h = self.points(9, "section 9 (H)", self.domain_size(), |section, count| {
            read_finite(section, count, ENCODING, check)
        })?;
        // Infinity belongs to a private variable that no constraint mentions.
        let l = self.points(8, "section 8 (L)", variables - inputs, |section, count| {
            read_all(section, count, ENCODING, check)
        })?;
        let (a, a_variables) =
            self.points(5, "section 5 (A)", variables, |section, count| read_query(section, count, check))?;
        let (b_g1, b_variables) = self.points(6, "section 6 (B in G1)", variables, |section, count| {
            read_query(section, count, check)
        })?;
        let b_g2 = self.points(7, "section 7 (B in G2)", variables, |section, count| {
            read_same_query(section, count, &b_variables, check)
        })?;
        let Header { alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1, delta_g2, .. } = self.header;
        let vk: VerifyingKey<Bls12> =
            VerifyingKey { alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1, delta_g2, ic };
        Ok(Srs { vk, h, h_basis: HBasis::OddCoset, l, a, a_variables, b_g1, b_g2, b_variables })
    }

    /// Reads section `id`, which must hold exactly `count` points of the group that `read` reads.
    fn points<T>(
        &self,
        id: u32,
        name: &'static str,
        count: usize,
        read: impl FnOnce(&mut Section, usize) -> Result<T, FormatError>,
    ) -> Result<T, FormatError> {
        let mut section = self.file.section(id, name)?;
        let points = read(&mut section, count)?;
        section.finish()?;
        Ok(points)
    }
}

impl Header {
    fn read(mut section: Section) -> Result<Self, FormatError> {
        expect_modulus(&mut section, &base_modulus())?;
        expect_modulus(&mut section, &scalar_modulus())?;
        let counts_at = section.position();
        let [num_variables, num_public, domain] = [section.u32_le()?, section.u32_le()?, section.u32_le()?];
        if num_public >= num_variables {
            let (expected, found) = (u64::from(num_public) + 1, num_variables.into());
            let what = "the number of variables";
            return Err(section.error_at(counts_at, Reason::CountMismatch { what, expected, found }));
        }
        if !domain.is_power_of_two() {
            let (expected, found) = (u64::from(domain).next_power_of_two(), domain.into());
            let what = "the size of the domain";
            return Err(section.error_at(counts_at + 8, Reason::CountMismatch { what, expected, found }));
        }
        let header = Self {
            counts_at,
            num_variables,
            num_public,
            domain,
            alpha_g1: read_point(&mut section, ENCODING, 0)?,
            beta_g1: read_point(&mut section, ENCODING, 1)?,
            beta_g2: read_point(&mut section, ENCODING, 2)?,
            gamma_g2: read_point(&mut section, ENCODING, 3)?,
            delta_g1: read_point(&mut section, ENCODING, 4)?,
            delta_g2: read_point(&mut section, ENCODING, 5)?,
        };
        section.finish()?;
        Ok(header)
    }
}

/// Reads a point per variable; returns those that are not infinity, and their variables.
fn read_query<P: FilePoint>(
    section: &mut Section,
    count: usize,
    check: PointCheck,
) -> Result<(Vec<P>, Vec<u32>), FormatError> {
    section.require(count as u64 * P::BYTES as u64)?;
    let mut points = Vec::with_capacity(count);
    let mut variables = Vec::new();
    read_points(section, count, ENCODING, check, |variable, point: P| {
        if !bool::from(point.is_identity()) {
            points.push(point);
            variables.push(variable as u32);
        }
        Ok(())
    })?;
    points.shrink_to_fit();
    variables.shrink_to_fit();
    Ok((points, variables))
}

/// Reads a point per variable, of which exactly those of `variables` must not be infinity.
fn read_same_query<P: FilePoint>(
    section: &mut Section,
    count: usize,
    variables: &[u32],
    check: PointCheck,
) -> Result<Vec<P>, FormatError> {
    let mut points = Vec::with_capacity(variables.len());
    read_points(section, count, ENCODING, check, |variable, point: P| {
        let expected = variables.get(points.len()) == Some(&(variable as u32));
        if expected == bool::from(point.is_identity()) {
            return Err(Reason::InfinityDisagrees { variable: variable as u64 });
        }
        if expected {
            points.push(point);
        }
        Ok(())
    })?;
    Ok(points)
}
