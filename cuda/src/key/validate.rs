//! Whether a key is consistent.

use interlock_core_api::{BasisCode, KeyView};

use crate::fault::Fault;

/// Everything the kernels take for granted. The engine's own readers see to it already; a kernel that
/// reads out of bounds would take all tasks of the device with it.
pub fn validate(key: &KeyView<'_>) -> Result<(), Fault> {
    let wrong = |what: &str| Err(Fault::Input(format!("the key is not consistent: {what}")));
    let rows = key.a.row_starts.len().wrapping_sub(1);
    for matrix in [&key.a, &key.b, &key.c] {
        let starts = matrix.row_starts.as_slice();
        let entries = matrix.columns.len();
        if starts.len().wrapping_sub(1) != rows || starts.first() != Some(&0) {
            return wrong("numbers of rows");
        }
        if !starts.is_sorted() || starts[rows] as usize != entries || matrix.coefficients.len() != entries {
            return wrong("row starts");
        }
        if matrix.columns.iter().any(|column| u64::from(*column) >= key.num_variables) {
            return wrong("a column past the last variable");
        }
        if matrix.coefficients.iter().any(|index| *index as usize >= key.coefficients.len()) {
            return wrong("a coefficient index past the table");
        }
    }
    let domain = 1_usize << key.log_domain;
    let inputs = key.num_inputs as usize;
    let h = if key.h_basis == BasisCode::MONOMIAL { domain - 1 } else { domain };
    if inputs == 0 || key.num_inputs > key.num_variables || rows + inputs > domain {
        return wrong("numbers of inputs, variables and constraints");
    }
    let lengths = [
        (key.h_points.len(), h),
        (key.l_points.len(), key.num_variables as usize - inputs),
        (key.a_points.len(), key.a_variables.len()),
        (key.b_g1_points.len(), key.b_variables.len()),
        (key.b_g2_points.len(), key.b_variables.len()),
    ];
    if lengths.iter().any(|(found, expected)| found != expected) {
        return wrong("lengths of the point vectors");
    }
    let variables = key.a_variables.iter().chain(key.b_variables.iter());
    if variables.into_iter().any(|variable| u64::from(*variable) >= key.num_variables) {
        return wrong("a query for a variable past the last");
    }
    // Sums have room for each variable once.
    let is_twice = |variables: &[u32]| {
        let mut seen = vec![false; key.num_variables as usize];
        variables.iter().any(|variable| std::mem::replace(&mut seen[*variable as usize], true))
    };
    if is_twice(key.a_variables.as_slice()) || is_twice(key.b_variables.as_slice()) {
        return wrong("a variable twice in a query");
    }
    if ![BasisCode::MONOMIAL, BasisCode::ODD_COSET].contains(&key.h_basis) {
        return wrong("an unknown basis of the h points");
    }
    Ok(())
}
