//! Where the vectors of a key go.

use std::sync::Arc;

use cust::stream::Stream;
use cust::sys::CUdeviceptr;
use interlock_core_api::{G1Limbs, KeyView};

use super::host::HostVector;
use super::{Place, matrices};
use crate::arena::aligned;
use crate::driver;
use crate::fault::Fault;
use crate::gpu::Gpu;
use crate::plan::{Home, window_count};

/// Logarithm of the larger of the two tables that hold powers.
const LOG_HIGH_POWERS: u32 = 15;

/// Lays vectors out one after another from an address on, then copies them there.
pub struct Placement<'a> {
    base: CUdeviceptr,
    bytes: u64,
    copies: Vec<(CUdeviceptr, *const u8, usize)>,
    host: &'a [HostVector],
    home: Home,
}

impl<'a> Placement<'a> {
    /// To find out how many bytes go to the device, and no more.
    pub fn sizes(home: Home) -> Self {
        Self { base: 0, bytes: 0, copies: Vec::new(), host: &[], home }
    }

    /// From `base` on; vectors that stay in host memory are among `host`.
    pub fn new(base: CUdeviceptr, host: &'a [HostVector], home: Home) -> Self {
        Self { base, bytes: 0, copies: Vec::new(), host, home }
    }

    /// Device bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Room on the device.
    pub fn reserve(&mut self, bytes: u64) -> CUdeviceptr {
        let address = self.base + self.bytes;
        self.bytes += aligned(bytes.max(1));
        address
    }

    /// A vector that is on the device wherever the key's home is.
    pub fn resident<T: Copy>(&mut self, values: &[T]) -> CUdeviceptr {
        let address = self.reserve(size_of_val(values) as u64);
        self.copies.push((address, values.as_ptr().cast(), size_of_val(values)));
        address
    }

    /// A vector that is where the key's home is.
    pub fn vector<T: Copy>(&mut self, values: &[T]) -> Place {
        if let Home::Device { .. } = self.home {
            return Place::Device(self.resident(values));
        }
        let (address, bytes) = (values.as_ptr().cast::<u8>(), size_of_val(values));
        let is_it = |vector: &&HostVector| vector.as_ptr() == address && vector.bytes() == bytes;
        let pinned = self.host.iter().find(is_it).is_some_and(|vector| vector.pinned);
        Place::Host(HostVector::new(values, pinned))
    }

    /// Points, and room for their multiples if there are to be any; then also the bits of their windows.
    pub fn with_multiples(&mut self, points: &[G1Limbs]) -> (Place, Option<u32>) {
        let place = self.vector(points);
        let Home::Device { multiples: Some(bits), .. } = self.home else { return (place, None) };
        // They follow the points without a gap.
        self.bytes +=
            aligned(size_of_val(points) as u64 * window_count(bits)) - aligned(size_of_val(points) as u64);
        (place, Some(bits))
    }

    /// How many bits of an exponent the second table of powers is for; none where the first one is whole.
    pub fn power_split(&self, log_domain: u32) -> u32 {
        match self.home {
            Home::Device { whole_powers: true, .. } => 0,
            _ => log_domain.saturating_sub(LOG_HIGH_POWERS),
        }
    }

    /// Copies, and waits for it. What is copied may lie on pages of which some are pinned, for another key say, and from
    /// such memory the driver refuses to copy: it goes through a buffer.
    ///
    /// # Errors
    /// When the driver refuses.
    ///
    /// # Safety
    /// What was placed is still there, and `base` has room for [`Placement::bytes`].
    pub unsafe fn copy(&self, gpu: &Arc<Gpu>, stream: &Stream) -> Result<(), Fault> {
        const PIECE: usize = 16 << 20;
        let mut buffer = gpu.host_buffer(PIECE / 8);
        for &(address, source, bytes) in &self.copies {
            for offset in (0..bytes).step_by(PIECE) {
                let length = PIECE.min(bytes - offset);
                let to: *mut u8 = buffer.as_mut_slice().as_mut_ptr().cast();
                // SAFETY: the caller's; the buffer has room for a piece, and the last one has left it.
                unsafe {
                    std::ptr::copy_nonoverlapping(source.add(offset), to, length);
                    driver::upload(address + offset as u64, to, length, stream, "upload the key")?;
                }
                driver::synchronize(stream, "upload the key")?;
            }
        }
        Ok(())
    }
}

/// The vectors of a key that can stay in host memory.
pub fn streamed<'a>(view: &'a KeyView<'_>) -> Vec<&'a [u8]> {
    let mut slices = Vec::new();
    for matrix in matrices(view) {
        slices.extend(
            [&matrix.row_starts, &matrix.columns, &matrix.coefficients].map(|part| bytes(part.as_slice())),
        );
    }
    let g1 = [&view.h_points, &view.l_points, &view.a_points, &view.b_g1_points];
    slices.extend(g1.map(|points| bytes(points.as_slice())));
    slices.push(bytes(view.b_g2_points.as_slice()));
    slices.extend([&view.a_variables, &view.b_variables].map(|variables| bytes(variables.as_slice())));
    slices
}

/// Numbers, or arrays of numbers, without padding.
fn bytes<T: Copy>(values: &[T]) -> &[u8] {
    // SAFETY: the records of the boundary are made of integers only; any byte can be read.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}
