//! circom's and snarkjs's files, read by the engine and by `taceo-circom-types`, which shares no code
//! with it.

use std::fmt::Display;
use std::io::Cursor;

use blstrs::{G1Affine, G2Affine, Scalar};
use ff::{Field, PrimeField};
use interlock_engine::circuit::{Circuit, Csr, WitnessError, r1cs, wtns};
use interlock_engine::format::{FormatError, Input, PointCheck, Reason};
use interlock_engine::proof::{self, Verifier, VerifyError, vkey};
use interlock_engine::srs::{HBasis, Srs, zkey};
use interlock_tests::fixtures::{self, CIRCUITS, Sections};
use taceo_circom_types::ark_bls12_381::{self as ark, Bls12_381};
use taceo_circom_types::{CheckElement, R1CS, groth16};

/// The circuits that a snarkjs `.zkey` is checked in for.
const WITH_ZKEY: [(&str, &str); 2] =
    [("circom_mul/mul.r1cs", "circom_mul/mul.zkey"), ("circuits/range.r1cs", "circuits/range.zkey")];

/// A scalar of the engine, as arkworks prints its own.
fn decimal(value: &Scalar) -> String {
    num(value.to_repr().as_ref())
}

/// Little-endian bytes as a decimal number.
fn num(bytes: &[u8]) -> String {
    let mut digits = vec![0u8];
    for byte in bytes.iter().rev() {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 10) as u8;
            carry /= 10;
        }
        while carry > 0 {
            digits.push((carry % 10) as u8);
            carry /= 10;
        }
    }
    digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect()
}

/// The coordinates of an uncompressed point as decimal numbers.
fn coordinates(bytes: &[u8]) -> Vec<String> {
    let element = |bytes: &[u8]| num(&bytes.iter().rev().copied().collect::<Vec<_>>());
    bytes.chunks(48).map(element).collect()
}

fn text(values: &[&dyn Display]) -> Vec<String> {
    values.iter().map(|value| value.to_string()).collect()
}

fn same_g1(ours: &G1Affine, theirs: &ark::G1Affine) -> bool {
    match *theirs == ark::G1Affine::default() {
        true => ours.to_uncompressed()[0] == 0x40,
        false => coordinates(&ours.to_uncompressed()) == text(&[&theirs.x, &theirs.y]),
    }
}

fn same_g2(ours: &G2Affine, theirs: &ark::G2Affine) -> bool {
    let ark::G2Affine { x, y, .. } = theirs;
    *theirs != ark::G2Affine::default()
        && coordinates(&ours.to_uncompressed()) == text(&[&x.c1, &x.c0, &y.c1, &y.c0])
}

fn all<A, B>(ours: &[A], theirs: &[B], same: impl Fn(&A, &B) -> bool) -> bool {
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| same(a, b))
}

/// A row as {variable, coefficient} in decimal, sorted.
fn row(circuit: &Circuit, matrix: &Csr, row: usize) -> Vec<(usize, String)> {
    let entries = matrix.row(row);
    entries.map(|(column, index)| (column as usize, decimal(&circuit.coefficients[index as usize]))).collect()
}

fn sorted(mut row: Vec<(usize, String)>) -> Vec<(usize, String)> {
    row.sort();
    row
}

#[test]
fn r1cs_is_what_taceo_reads() {
    for name in CIRCUITS {
        let (ours, _) = fixtures::circuit(name);
        let bytes = fixtures::bytes(&format!("circuits/{name}.r1cs"));
        let theirs = R1CS::<Bls12_381>::from_reader(Cursor::new(bytes)).unwrap();
        assert_eq!((ours.num_inputs, ours.num_aux), (theirs.num_inputs, theirs.num_aux), "{name}");
        assert_eq!(ours.num_constraints(), theirs.constraints.len(), "{name}");
        for (i, (a, b, c)) in theirs.constraints.iter().enumerate() {
            for (matrix, theirs) in [(&ours.a, a), (&ours.b, b), (&ours.c, c)] {
                let theirs = theirs.iter().map(|(wire, value)| (*wire, value.to_string())).collect();
                assert_eq!(row(&ours, matrix, i), sorted(theirs), "{name}, constraint {i}");
            }
        }
    }
}

#[test]
fn wtns_is_what_taceo_reads_and_satisfies_its_circuit() {
    for name in CIRCUITS {
        let (circuit, ours) = fixtures::circuit(name);
        let bytes = fixtures::bytes(&format!("circuits/{name}.wtns"));
        let theirs = taceo_circom_types::Witness::<ark::Fr>::from_reader(Cursor::new(bytes)).unwrap();
        assert!(all(&ours.values, &theirs.values, |a, b| decimal(a) == b.to_string()), "{name}");
        assert_eq!(ours.check(&circuit), Ok(()), "{name}");
    }
}

fn srs(r1cs_name: &str, zkey_name: &str) -> (Circuit, Srs) {
    let circuit = r1cs::read(&fixtures::open(r1cs_name)).unwrap();
    let srs = zkey::read(&fixtures::open(zkey_name), &circuit, PointCheck::Full).unwrap();
    (circuit, srs)
}

#[test]
fn zkey_is_what_taceo_reads() {
    for (r1cs_name, zkey_name) in WITH_ZKEY {
        let (circuit, ours) = srs(r1cs_name, zkey_name);
        let bytes = fixtures::bytes(zkey_name);
        let theirs = groth16::Zkey::<Bls12_381>::from_reader(Cursor::new(bytes), CheckElement::Yes).unwrap();
        assert_eq!(ours.h_basis, HBasis::OddCoset);
        assert_eq!(circuit.num_inputs, theirs.n_public + 1);
        assert!(all(&ours.h, &theirs.h_query, same_g1), "{zkey_name}");
        assert!(all(&ours.l, &theirs.l_query, same_g1), "{zkey_name}");
        assert!(all(&ours.vk.ic, &theirs.ic, same_g1), "{zkey_name}");
        let finite = |point: &&ark::G1Affine| **point != ark::G1Affine::default();
        let a: Vec<_> = theirs.a_query.iter().filter(finite).copied().collect();
        assert!(all(&ours.a, &a, same_g1), "{zkey_name}");
        let b: Vec<_> = theirs.b_g1_query.iter().filter(finite).copied().collect();
        assert!(all(&ours.b_g1, &b, same_g1), "{zkey_name}");
        let b: Vec<_> =
            theirs.b_g2_query.iter().copied().filter(|p| *p != ark::G2Affine::default()).collect();
        assert!(all(&ours.b_g2, &b, same_g2), "{zkey_name}");
        let mentioned = |query: &[ark::G1Affine]| -> Vec<u32> {
            let finite = query.iter().enumerate().filter(|(_, p)| **p != ark::G1Affine::default());
            finite.map(|(variable, _)| variable as u32).collect()
        };
        assert_eq!(ours.a_variables, mentioned(&theirs.a_query));
        assert_eq!(ours.b_variables, mentioned(&theirs.b_g1_query));
        assert_eq!((ours.a_variables.clone(), ours.b_variables.clone()), circuit.densities());
        assert!(same_g1(&ours.vk.alpha_g1, &theirs.alpha_g1) && same_g1(&ours.vk.beta_g1, &theirs.beta_g1));
        assert!(same_g1(&ours.vk.delta_g1, &theirs.delta_g1) && same_g2(&ours.vk.delta_g2, &theirs.delta_g2));
        assert!(same_g2(&ours.vk.beta_g2, &theirs.beta_g2) && same_g2(&ours.vk.gamma_g2, &theirs.gamma_g2));
    }
}

#[test]
fn keys_and_proofs_are_what_taceo_reads() {
    let bytes = fixtures::bytes("circom_mul/vkey.json");
    let theirs = groth16::VerificationKey::<Bls12_381>::from_reader(Cursor::new(bytes)).unwrap();
    let (_, srs) = srs(WITH_ZKEY[0].0, WITH_ZKEY[0].1);
    let from_json = vkey::read(&fixtures::open("circom_mul/vkey.json")).unwrap();
    // Ours from the zkey, written as JSON and read by both, too.
    let written = vkey::read(&Input::from_bytes("vkey", vkey::to_json(&srs.vk))).unwrap();
    for ours in [&from_json, &srs.vk, &written] {
        assert!(same_g1(&ours.alpha_g1, &theirs.alpha_1) && same_g2(&ours.beta_g2, &theirs.beta_2));
        assert!(same_g2(&ours.gamma_g2, &theirs.gamma_2) && same_g2(&ours.delta_g2, &theirs.delta_2));
        assert!(all(&ours.ic, &theirs.ic, same_g1));
    }
    let text = String::from_utf8(fixtures::bytes("circom_mul/proof.json")).unwrap();
    let theirs: groth16::Proof<Bls12_381> = serde_json::from_str(&text).unwrap();
    let ours = proof::read(&fixtures::open("circom_mul/proof.json")).unwrap();
    assert!(same_g1(&ours.a, &theirs.pi_a) && same_g2(&ours.b, &theirs.pi_b));
    assert!(same_g1(&ours.c, &theirs.pi_c));
    let again: groth16::Proof<Bls12_381> = serde_json::from_str(&proof::to_json(&ours)).unwrap();
    assert_eq!(again, theirs);
}

#[test]
fn snarkjs_proof_is_accepted_and_a_wrong_input_is_not() {
    let (_, srs) = srs(WITH_ZKEY[0].0, WITH_ZKEY[0].1);
    let proof = proof::read(&fixtures::open("circom_mul/proof.json")).unwrap();
    let public = proof::read_public(&fixtures::open("circom_mul/public.json")).unwrap();
    assert_eq!(public, [Scalar::from(33)]);
    for key in [srs.vk, vkey::read(&fixtures::open("circom_mul/vkey.json")).unwrap()] {
        let verifier = Verifier::new(&key).unwrap();
        assert_eq!(verifier.verify(&proof, &public), Ok(true));
        assert_eq!(verifier.verify(&proof, &[Scalar::from(34)]), Ok(false));
        let count = Err(VerifyError::InputCount { expected: 1, found: 0 });
        assert_eq!(verifier.verify(&proof, &[]), count);
    }
}

#[test]
fn both_forms_of_a_proof_and_of_a_key_say_the_same() {
    let ours = proof::read(&fixtures::open("circom_mul/proof.json")).unwrap();
    let mut theirs = Vec::new();
    ours.write(&mut theirs).unwrap();
    assert_eq!(proof::to_bytes(&ours).as_slice(), theirs);
    assert!(proof::read(&Input::from_bytes("proof", theirs)).unwrap() == ours);

    let (_, srs) = srs(WITH_ZKEY[1].0, WITH_ZKEY[1].1);
    let mut bytes = Vec::new();
    vkey::write_bytes(&srs.vk, &mut bytes).unwrap();
    assert!(vkey::read(&Input::from_bytes("vkey", bytes)).unwrap() == srs.vk);
    // JSON lacks two points that bellperson's form needs.
    let from_json = vkey::read(&Input::from_bytes("vkey", vkey::to_json(&srs.vk))).unwrap();
    assert!(vkey::write_bytes(&from_json, Vec::new()).is_err());

    let public = vec![Scalar::ZERO, Scalar::from(7), -Scalar::ONE];
    let text = proof::public_to_json(&public);
    assert_eq!(proof::read_public(&Input::from_bytes("public", text)).unwrap(), public);
}

#[test]
fn what_is_written_is_read_back() {
    for name in CIRCUITS {
        let (circuit, witness) = fixtures::circuit(name);
        let (mut r1cs_bytes, mut wtns_bytes) = (Vec::new(), Vec::new());
        r1cs::write(&circuit, &mut r1cs_bytes).unwrap();
        wtns::write(&witness, &mut wtns_bytes).unwrap();
        assert_eq!(r1cs::read(&Input::from_bytes("r1cs", r1cs_bytes.clone())).unwrap(), circuit);
        assert_eq!(wtns_bytes, fixtures::bytes(&format!("circuits/{name}.wtns")));
        R1CS::<Bls12_381>::from_reader(Cursor::new(r1cs_bytes)).unwrap();
    }
}

#[test]
fn of_several_values_that_are_none_the_first_is_told() {
    let read = |bytes: &[u8]| wtns::read(&Input::from_bytes("range.wtns", bytes.to_vec()));
    let mut bytes = fixtures::bytes("circuits/range.wtns");
    let first = read(&bytes).unwrap().values.len() - 6;
    // The values are the end of the file.
    let end = bytes.len();
    [3, 6, 1].iter().for_each(|value| bytes[end - 32 * value..][..32].fill(0xff));
    let error = read(&bytes).unwrap_err();
    assert!(matches!(error.reason, Reason::NonCanonicalScalar { index } if index == first as u64), "{error}");
}

#[test]
fn sections_may_come_in_any_order() {
    let (circuit, srs) = srs(WITH_ZKEY[1].0, WITH_ZKEY[1].1);
    for turn in 0..10 {
        let turned = |name: &str| {
            let mut file = Sections::split(&fixtures::bytes(name));
            let turn = turn % file.sections.len();
            file.sections.rotate_left(turn);
            Input::from_bytes(name, file.join())
        };
        assert_eq!(r1cs::read(&turned(WITH_ZKEY[1].0)).unwrap(), circuit);
        let again = zkey::read(&turned(WITH_ZKEY[1].1), &circuit, PointCheck::Sampled).unwrap();
        assert!(again.vk == srs.vk && again.h == srs.h && again.l == srs.l && again.a == srs.a);
        assert!(again.b_g1 == srs.b_g1 && again.b_g2 == srs.b_g2);
        wtns::read(&turned("circuits/range.wtns")).unwrap();
    }
}

#[test]
fn a_witness_of_another_circuit_is_refused() {
    let (circuit, mut witness) = fixtures::circuit("multiplier");
    let (_, other) = fixtures::circuit("range");
    assert_eq!(other.check(&circuit), Err(WitnessError::OtherCircuit { expected: 10, found: 38 }));
    let last = witness.values.len() - 1;
    witness.values[last] += Scalar::ONE;
    let error = witness.check(&circuit).unwrap_err();
    // The last wire is a partial product: of the four products, the third makes it.
    assert!(matches!(error, WitnessError::Unsatisfied { constraint: 2 }), "{error}");
    witness.values[0] = Scalar::from(2);
    assert_eq!(witness.check(&circuit), Err(WitnessError::FirstNotOne));
}

/// Reads `range.zkey` after `change`.
fn damaged(change: impl FnOnce(&mut Sections)) -> FormatError {
    let circuit = r1cs::read(&fixtures::open("circuits/range.r1cs")).unwrap();
    let mut file = Sections::split(&fixtures::bytes("circuits/range.zkey"));
    change(&mut file);
    let input = Input::from_bytes("range.zkey", file.join());
    zkey::read(&input, &circuit, PointCheck::Sampled).err().unwrap()
}

#[test]
fn an_srs_of_another_circuit_is_refused() {
    let (other, _) = fixtures::circuit("merkle");
    let input = fixtures::open("circuits/range.zkey");
    let error = zkey::read(&input, &other, PointCheck::Sampled).err().unwrap();
    assert!(matches!(error.reason, Reason::OtherCircuit { expected: 113, found: 38, .. }), "{error}");

    // The same counts, but one coefficient, one place, or one entry is another.
    let term = |file: &mut Sections, index: usize| 4 + 44 * (index % (file.content(4).len() / 44));
    for index in [0, 7, 63, 64, 65] {
        let error = damaged(|file| {
            let at = term(file, index);
            file.content(4)[at + 12] ^= 1;
        });
        assert!(matches!(error.reason, Reason::OtherCircuitEntry { .. }), "{error}");
        let error = damaged(|file| {
            let at = term(file, index);
            file.content(4)[at + 8] ^= 1;
        });
        assert!(matches!(error.reason, Reason::OtherCircuitEntry { .. }), "{error}");
        let error = damaged(|file| {
            let at = term(file, index);
            let section = file.content(4);
            section.drain(at..at + 44);
            section[0] -= 1;
        });
        assert!(matches!(error.reason, Reason::OtherCircuitEntry { .. }), "{error}");
    }
}

/// snarkjs writes a sum as it stands in the `.r1cs`; the engine has it summed.
#[test]
fn terms_to_be_summed_are_the_same_circuit() {
    let circuit = r1cs::read(&fixtures::open("circuits/range.r1cs")).unwrap();
    let mut file = Sections::split(&fixtures::bytes("circuits/range.zkey"));
    let section = file.content(4);
    let first = section[4..48].to_vec();
    // value + value - value, and another value that is summed to zero.
    let negative = -Option::<Scalar>::from(Scalar::from_repr(first[12..].try_into().unwrap())).unwrap();
    let minus = [&first[..12], negative.to_repr().as_ref()].concat();
    let mut elsewhere = [first.clone(), minus.clone()];
    for term in &mut elsewhere {
        term[4] = 20;
    }
    for term in [&first, &minus, &elsewhere[1], &elsewhere[0]] {
        section.extend(term);
    }
    section[0] += 4;
    let input = Input::from_bytes("range.zkey", file.join());
    zkey::read(&input, &circuit, PointCheck::Sampled).unwrap();
}

#[test]
fn zkey_errors_name_their_section() {
    type Case = (&'static str, FormatError, fn(&Reason) -> bool);
    let cases: [Case; 9] = [
        ("section 1", damaged(|f| f.content(1)[0] = 2), |r| matches!(r, Reason::WrongProtocol { .. })),
        ("section 2", damaged(|f| f.content(2)[4] ^= 1), |r| matches!(r, Reason::WrongCurve { .. })),
        ("section 3", damaged(|f| f.content(3).extend([0; 96])), |r| {
            matches!(r, Reason::TrailingBytes { extra: 96 })
        }),
        ("section 5", damaged(|f| f.content(5).truncate(100)), |r| matches!(r, Reason::Truncated { .. })),
        ("section 7", damaged(|f| f.content(6)[96 * 4..][..96].fill(0)), |r| {
            matches!(r, Reason::InfinityDisagrees { variable: 4 })
        }),
        ("section 9", damaged(|f| f.content(9)[96 * 5] ^= 1), |r| {
            matches!(r, Reason::PointNotOnCurve { index: 5 })
        }),
        ("section 9", damaged(|f| f.content(9)[96 * 4..][..96].fill(0)), |r| {
            matches!(r, Reason::PointAtInfinity { index: 4 })
        }),
        ("section 8", damaged(|f| f.sections.retain(|s| s.0 != 8)), |r| matches!(r, Reason::MissingSection)),
        ("section 7", damaged(|f| f.sections.push((7, Vec::new()))), |r| {
            matches!(r, Reason::DuplicateSection)
        }),
    ];
    for (section, error, expected) in cases {
        assert!(error.section.starts_with(section), "{error}");
        assert!(expected(&error.reason), "{error}");
        assert!(error.to_string().starts_with("range.zkey, "), "{error}");
        assert!(!error.help().is_empty());
    }
}

#[test]
fn the_zkey_that_a_failed_setup_leaves_is_explained() {
    let error = zkey::Zkey::open(&Input::from_bytes("c.zkey", [])).err().unwrap();
    assert!(matches!(error.reason, Reason::Empty));
    assert!(error.help().contains("groth16 setup"));
    let head = fixtures::bytes("circuits/range.zkey")[..12].to_vec();
    let error = zkey::Zkey::open(&Input::from_bytes("c.zkey", head)).err().unwrap();
    assert!(matches!(error.reason, Reason::Empty));
}

#[test]
fn files_over_another_curve_are_named() {
    // The order of BN254's scalar field, circom's default.
    let bn254 = "010000f093f5e1439170b97948e833285d588181b64550b829a031e1724e6430";
    let prime: Vec<u8> = (0..32).map(|i| u8::from_str_radix(&bn254[2 * i..2 * i + 2], 16).unwrap()).collect();
    for name in ["circuits/range.r1cs", "circuits/range.wtns"] {
        let mut file = Sections::split(&fixtures::bytes(name));
        file.content(1)[4..36].copy_from_slice(&prime);
        let input = Input::from_bytes(name, file.join());
        let error = match name.ends_with("r1cs") {
            true => r1cs::read(&input).unwrap_err(),
            false => wtns::read(&input).unwrap_err(),
        };
        assert!(error.to_string().contains("bn128") && error.to_string().contains("BLS12-381"), "{error}");
        assert!(error.help().contains("--prime bls12381"));
    }
}

#[test]
fn custom_gates_are_refused_only_when_used() {
    let mut file = Sections::split(&fixtures::bytes("circuits/range.r1cs"));
    file.sections.retain(|section| section.0 < 4);
    file.sections.push((4, vec![0; 4]));
    file.sections.push((5, vec![0; 4]));
    r1cs::read(&Input::from_bytes("r1cs", file.join())).unwrap();
    file.content(5)[0] = 1;
    let error = r1cs::read(&Input::from_bytes("r1cs", file.join())).unwrap_err();
    assert!(matches!(error.reason, Reason::Unsupported { what: "custom gates" }), "{error}");
}

#[test]
fn json_errors_name_their_field() {
    let text = String::from_utf8(fixtures::bytes("circom_mul/proof.json")).unwrap();
    let read = |text: String| proof::read(&Input::from_bytes("proof.json", text)).unwrap_err();
    let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    let a = parsed["pi_a"][0].as_str().unwrap();

    let error = read(text.replace(a, "5"));
    assert!(matches!(error.reason, Reason::PointNotOnCurve { .. }), "{error}");
    assert_eq!(error.section, "field pi_a");
    let error = read(text.replace(a, &format!("-{a}")));
    assert!(matches!(error.reason, Reason::NonCanonicalPoint { .. }), "{error}");
    // The modulus of the base field: a second name for zero.
    let modulus = "4002409555221667393417789825735904156556882819939007885332058136124031650490837864442687629129015664037894272559787";
    let error = read(text.replace(a, modulus));
    assert!(matches!(error.reason, Reason::NonCanonicalPoint { .. }), "{error}");
    let error = read(text.replace("bls12381", "bn128"));
    assert!(matches!(error.reason, Reason::WrongCurve { .. }), "{error}");
    let error = read(text.replace("groth16", "plonk"));
    assert!(matches!(error.reason, Reason::WrongProtocol { .. }), "{error}");
    let error = read(text.replace("pi_b", "pi_x"));
    assert!(matches!(error.reason, Reason::Json(_)), "{error}");

    // The order of the scalar field: a second name for zero.
    let order = "52435875175126190479447740508185965837690552500527637822603658699938581184513";
    let public = Input::from_bytes("public.json", format!("[\"1\", \"{order}\"]"));
    let error = proof::read_public(&public).unwrap_err();
    assert!(matches!(error.reason, Reason::NonCanonicalScalar { index: 1 }), "{error}");
}

#[test]
fn a_proof_with_a_bad_point_is_refused() {
    let good = proof::to_bytes(&proof::read(&fixtures::open("circom_mul/proof.json")).unwrap());
    let read = |bytes: &[u8]| proof::read(&Input::from_bytes("proof", bytes));
    let error = read(&good[..191]).unwrap_err();
    assert!(matches!(error.reason, Reason::Truncated { .. }), "{error}");
    let error = read(&[good.as_slice(), &[0]].concat()).unwrap_err();
    assert!(matches!(error.reason, Reason::TrailingBytes { extra: 1 }), "{error}");
    let mut infinity = good;
    infinity[48..144].fill(0);
    infinity[48] = 0xc0;
    let error = read(&infinity).unwrap_err();
    assert!(matches!(error.reason, Reason::PointAtInfinity { .. }), "{error}");
    assert_eq!(error.offset, Some(48));
    // (x, y) with x = 4 or so is on the curve, but hardly in the subgroup.
    let outside = (1..60).find_map(|x| {
        let mut bytes = good;
        bytes[..48].fill(0);
        (bytes[0], bytes[47]) = (0x80, x);
        read(&bytes).err().filter(|error| matches!(error.reason, Reason::PointNotInSubgroup { .. }))
    });
    assert_eq!(outside.unwrap().offset, Some(0));
}
