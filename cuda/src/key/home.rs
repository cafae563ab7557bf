//! The sizes of a key, and whether it is to be on the device or streamed from host memory.

use interlock_core_api::{BasisCode, CsrView, KeyView, Residency};

use super::placement::Placement;
use super::{Contents, long_rows, matrices};
use crate::fault::Fault;
use crate::plan::{G1, Home, Shape, Work};

/// The largest domain.
const MOST_LOG_DOMAIN: u32 = 27;

/// What devices have for a key: one answer for all of them.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes for keys.
    pub keys: u64,
    /// Bytes for tasks.
    pub tasks: u64,
    /// Multiprocessors.
    pub multiprocessors: u64,
}

/// The sizes of a key on devices with so much room each.
///
/// # Errors
/// They contradict each other or are more than the kernels can number.
pub fn shape_of(view: &KeyView<'_>, residency: Residency, room: Room) -> Result<Shape, Fault> {
    let points = [view.h_points.len(), view.l_points.len(), view.a_points.len(), view.b_g1_points.len()];
    if view.log_domain > MOST_LOG_DOMAIN {
        return Err(Fault::Input(format!(
            "a domain of 2^{} is more than 2^{MOST_LOG_DOMAIN}",
            view.log_domain
        )));
    }
    let longest = points.iter().copied().max().unwrap_or(0) as u64;
    if longest.max(view.num_variables).max(view.num_inputs) > 1 << (MOST_LOG_DOMAIN + 1) {
        return Err(Fault::Input(format!(
            "vectors of {longest} points and {} variables",
            view.num_variables
        )));
    }
    let mut shape = Shape {
        log_domain: view.log_domain,
        variables: view.num_variables,
        h_points: view.h_points.len() as u64,
        g1_points: longest,
        g2_points: view.b_g2_points.len() as u64,
        multiprocessors: room.multiprocessors,
        home: Home::Device { multiples: None },
    };
    shape.home = home_of(view, residency, room, &shape)?;
    Ok(shape)
}

/// Multiples of points may take this part of the memory for keys, with the rest of the key: others want room too.
const MULTIPLES_SHARE: u64 = 4;

/// And tasks that use them, which take more than others, this part of the memory for tasks: the next one has to fit beside.
const TASK_SHARE: u64 = 2;

fn home_of(view: &KeyView<'_>, residency: Residency, room: Room, shape: &Shape) -> Result<Home, Fault> {
    let key_memory = room.keys;
    // Found once: it takes a look at every row.
    let long: Vec<_> = matrices(view).map(long_rows).collect();
    if residency != Residency::STREAMED {
        let h = Work::new(G1, shape.h_points, shape.h_points, u64::MAX, shape.multiprocessors);
        let multiples = h.best_multiples(G1);
        let home = Home::Device { multiples };
        let task = Shape { home, ..*shape };
        if device_bytes(view, &long, home) <= key_memory / MULTIPLES_SHARE
            && task.staged_bytes() + task.compute_bytes() <= room.tasks / TASK_SHARE
        {
            return Ok(home);
        }
        let bytes = device_bytes(view, &long, Home::Device { multiples: None });
        if bytes <= key_memory {
            return Ok(Home::Device { multiples: None });
        }
        if residency == Residency::RESIDENT {
            return Err(Fault::Input(format!(
                "the key takes {bytes} bytes on the device, key_memory is {key_memory}: raise it, or let the key be \
                 streamed (srs: Auto)"
            )));
        }
    }
    let longest = |matrix: &CsrView<'_>| {
        let pairs = matrix.row_starts.as_slice().windows(2);
        pairs.map(|pair| pair[1].saturating_sub(pair[0])).max().unwrap_or(0)
    };
    let longest_row = u64::from(matrices(view).map(longest).max().unwrap_or(0));
    let home = Home::Host { longest_row, halves: view.h_basis == BasisCode::MONOMIAL };
    let bytes = device_bytes(view, &long, home);
    if bytes > key_memory {
        return Err(Fault::Input(format!(
            "even streamed, the key's tables and coefficients take {bytes} bytes on the device, key_memory is \
             {key_memory}: raise it"
        )));
    }
    Ok(home)
}

/// Bytes of a key on a device.
fn device_bytes(view: &KeyView<'_>, long: &[Vec<u32>], home: Home) -> u64 {
    let mut placement = Placement::sizes(home);
    Contents::place(view, long, &Default::default(), &mut placement);
    placement.bytes()
}
