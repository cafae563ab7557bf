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
        home: Home::Device { multiples: None, whole_powers: false },
    };
    shape.home = home_of(view, residency, room, &shape)?;
    Ok(shape)
}

/// What only makes tasks faster, multiples of points and whole tables of powers, may take this part of the memory for
/// keys, with the rest of the key: others want room too.
const SPARE_SHARE: u64 = 4;

/// And tasks with multiples, which take more than others, this part of the memory for tasks: the next one has to fit beside.
const TASK_SHARE: u64 = 2;

fn home_of(view: &KeyView<'_>, residency: Residency, room: Room, shape: &Shape) -> Result<Home, Fault> {
    let key_memory = room.keys;
    // Found once: it takes a look at every row.
    let long: Vec<_> = matrices(view).map(long_rows).collect();
    if residency != Residency::STREAMED {
        let h = Work::new(G1, shape.h_points, shape.h_points, u64::MAX, shape.multiprocessors);
        let multiples = h.best_multiples(G1).filter(|bits| {
            let task = Shape { home: Home::Device { multiples: Some(*bits), whole_powers: false }, ..*shape };
            task.staged_bytes() + task.compute_bytes() <= room.tasks / TASK_SHARE
        });
        let fits = |home: &Home| device_bytes(view, &long, *home) <= key_memory / SPARE_SHARE;
        if let Some(home) = spare_homes(multiples).into_iter().find(fits) {
            return Ok(home);
        }
        let home = Home::Device { multiples: None, whole_powers: false };
        let bytes = device_bytes(view, &long, home);
        if bytes <= key_memory {
            return Ok(home);
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

/// Homes on the device for a key with memory to spare, the fastest for its tasks first. Multiples, which save more than
/// whole tables, do not give way to these.
fn spare_homes(multiples: Option<u32>) -> [Home; 3] {
    [(multiples, true), (multiples, false), (None, true)]
        .map(|(multiples, whole_powers)| Home::Device { multiples, whole_powers })
}

/// Bytes of a key on a device.
fn device_bytes(view: &KeyView<'_>, long: &[Vec<u32>], home: Home) -> u64 {
    let mut placement = Placement::sizes(home);
    Contents::place(view, long, &Default::default(), &mut placement);
    placement.bytes()
}

#[cfg(test)]
mod tests {
    use abi_stable::std_types::RSlice;
    use interlock_core_api::G1Limbs;

    use super::*;
    use crate::arena::aligned;

    const LOG_DOMAIN: u32 = 18;
    const ROOM: Room = Room { keys: 0, tasks: 8 << 30, multiprocessors: 132 };

    /// A key whose only points are those of `h`, and without constraints.
    fn view(h_points: &[G1Limbs]) -> KeyView<'_> {
        let none = RSlice::EMPTY;
        let matrix = || CsrView { row_starts: RSlice::from_slice(&[0]), columns: none, coefficients: none };
        KeyView {
            a: matrix(),
            b: matrix(),
            c: matrix(),
            coefficients: RSlice::EMPTY,
            num_inputs: 1,
            num_variables: 1 << LOG_DOMAIN,
            log_domain: LOG_DOMAIN,
            h_basis: BasisCode::MONOMIAL,
            root: [0; 4],
            shift: [0; 4],
            h_points: RSlice::from_slice(h_points),
            l_points: RSlice::EMPTY,
            a_points: RSlice::EMPTY,
            a_variables: none,
            b_g1_points: RSlice::EMPTY,
            b_g2_points: RSlice::EMPTY,
            b_variables: none,
        }
    }

    fn bytes(view: &KeyView<'_>, home: Home) -> u64 {
        device_bytes(view, &[Vec::new(), Vec::new(), Vec::new()], home)
    }

    #[test]
    fn what_memory_is_left_decides_what_a_key_has() {
        let points = vec![G1Limbs::default(); (1 << LOG_DOMAIN) - 1];
        let view = view(&points);
        let home = |keys, tasks| {
            shape_of(&view, Residency::AUTO, Room { keys, tasks, ..ROOM }).map(|shape| shape.home)
        };
        let Ok(Home::Device { multiples: Some(bits), whole_powers: true }) = home(8 << 30, ROOM.tasks) else {
            panic!("a key with all the room there is")
        };
        let [both, multiples, powers] = spare_homes(Some(bits));
        let neither = Home::Device { multiples: None, whole_powers: false };
        let spare = |of: Home| SPARE_SHARE * bytes(&view, of);
        for (enough, next) in [(both, multiples), (multiples, powers), (powers, neither)] {
            assert_eq!(home(spare(enough), ROOM.tasks).ok(), Some(enough));
            assert_eq!(home(spare(enough) - 1, ROOM.tasks).ok(), Some(next));
        }
        assert_eq!(home(bytes(&view, neither), ROOM.tasks).ok(), Some(neither));
        assert!(matches!(home(bytes(&view, neither) - 1, ROOM.tasks), Ok(Home::Host { .. })));
        // Tasks with multiples take more, those with whole tables do not.
        assert_eq!(home(spare(both), 64 << 20).ok(), Some(powers));
    }

    #[test]
    fn tables_of_powers_are_counted() {
        let points = vec![G1Limbs::default(); (1 << LOG_DOMAIN) - 1];
        let view = view(&points);
        let of = |whole_powers| bytes(&view, Home::Device { multiples: None, whole_powers });
        let parts =
            |log_counts: [u32; 2]| log_counts.map(|log_count| aligned(32 << log_count)).iter().sum::<u64>();
        assert_eq!(of(true) - of(false), 3 * (parts([LOG_DOMAIN, 0]) - parts([15, LOG_DOMAIN - 15])));
    }
}
