//! One proof on a device, stage by stage.

use std::sync::Arc;

use cust::event::{Event, EventFlags};
use cust::stream::Stream;
use cust::sys::CUdeviceptr;
use interlock_core_api::{BasisCode, ScalarLimbs, StepRecord, SumsRecord};

use crate::arena::End;
use crate::clock::Clock;
use crate::driver::{self, Context};
use crate::fault::Fault;
use crate::feed::Feed;
use crate::gpu::{Block, HostBuffer};
use crate::key::{Key, Points};
use crate::msm::{Leftover, Msm, Scalars};
use crate::plan::{COUNT_OFFSET, G1, G2, MOST_RESULTS, RESULT_BYTES, Work};
use crate::quotient::Quotient;
use crate::sums::{G1Xyzz, G2Xyzz, combine_g1, combine_g2};

/// A proof being made.
pub struct Task {
    key: Arc<Key>,
    /// For copies to the device.
    copies: Stream,
    /// For kernels, and copies from the device.
    kernels: Stream,
    /// The witness, for as long as it is to be copied.
    source: Option<HostBuffer>,
    results: HostBuffer,
    staged: Option<Block>,
    extra: Option<Block>,
    /// In the order of the results: h, l, a, b in G1, b in G2.
    leftover: Option<[Leftover; 5]>,
    steps: Vec<StepRecord>,
}

impl Task {
    /// A task for a full assignment, which is copied to pinned memory.
    ///
    /// # Errors
    /// The assignment has the wrong length, or the driver refuses a stream.
    pub fn new(key: Arc<Key>, witness: &[ScalarLimbs]) -> Result<Self, Fault> {
        key.gpu.enter()?;
        let (expected, found) = (key.shape.variables as usize, witness.len());
        if expected != found {
            return Err(Fault::Input(format!(
                "the witness has {found} values, the circuit {expected} variables"
            )));
        }
        let (copies, kernels) = (key.gpu.stream()?, key.gpu.stream()?);
        let mut source = key.gpu.host_buffer(4 * expected);
        copy(source.as_mut_slice(), witness.as_flattened());
        let results = key.gpu.host_buffer(RESULT_BYTES as usize / 8);
        let source = Some(source);
        let (staged, extra, leftover, steps) = (None, None, None, Vec::new());
        Ok(Self { key, copies, kernels, source, results, staged, extra, leftover, steps })
    }

    /// Takes the staged block and uploads the witness.
    ///
    /// # Errors
    /// The block cannot be had, or the driver refuses.
    pub fn stage(&mut self) -> Result<(), Fault> {
        self.key.gpu.enter()?;
        let Some(source) = &self.source else { return Err(Fault::Order { stage: "stage" }) };
        if self.staged.is_some() {
            return Err(Fault::Order { stage: "stage" });
        }
        let block = self.key.gpu.take(self.key.shape.staged_bytes(), End::Low, "the witness")?;
        let (to, from) = (block.address(), source.as_slice());
        self.staged = Some(block);
        let mut clock = Clock::new(&self.key.gpu, &self.copies)?;
        // SAFETY: source and block have that many bytes, and both live until the stream is done.
        unsafe {
            driver::upload(to, from.as_ptr().cast(), size_of_val(from), &self.copies, "upload the witness")?
        };
        clock.mark("upload")?;
        driver::synchronize(&self.copies, "upload the witness")?;
        self.steps.extend(clock.steps()?);
        if self.key.shape.b_in_staged() == 0 {
            self.source = None;
        }
        Ok(())
    }

    /// Takes the block of Compute and runs the kernels; gives both blocks back.
    ///
    /// # Errors
    /// A block cannot be had, or the driver reports an error, of this or of an earlier launch.
    pub fn compute(&mut self) -> Result<(), Fault> {
        if self.staged.is_none() {
            self.stage()?;
        }
        self.key.gpu.enter()?;
        let done = self.run();
        self.release();
        self.leftover = Some(done?);
        Ok(())
    }

    /// Waits for the streams, then gives everything back that was only needed for them.
    fn release(&mut self) {
        // An error here has been seen by whoever waited first, or comes to nobody who could use the result.
        let _ = self.copies.synchronize();
        let _ = self.kernels.synchronize();
        (self.source, self.staged, self.extra) = (None, None, None);
    }

    fn run(&mut self) -> Result<[Leftover; 5], Fault> {
        let Some(staged) = &self.staged else { return Err(Fault::Order { stage: "compute" }) };
        let z = staged.address();
        let shape = self.key.shape;
        let block = self.key.gpu.take(shape.compute_bytes(), End::High, "Compute")?;
        let results = block.address();
        self.extra = Some(block);
        let ring = results + RESULT_BYTES;
        let a = ring + shape.ring_bytes();
        let workspace = a + shape.vector_bytes();
        let wide = results + COUNT_OFFSET;
        let host: *mut u8 = self.results.as_mut_slice().as_mut_ptr().cast();
        let (key, stream) = (&*self.key, &self.kernels);
        let feed = &mut Feed::new(&key.gpu, &self.copies, stream, (ring, shape.chunk_bytes()))?;
        let mut clock = Clock::new(&key.gpu, stream)?;

        // SAFETY: two words of the task's own block.
        unsafe { driver::clear(wide, 2, stream)? };
        let source = self.source.as_ref().map(HostBuffer::as_slice);
        Quotient { key, feed, z, source, a, b: workspace, wide }.run()?;
        // SAFETY: the number has its place in the results, here and there; read once `counted` has happened.
        unsafe { driver::download(host.add(COUNT_OFFSET as usize), wide, 8, stream, "count scalars")? };
        let counted =
            Event::new(EventFlags::DISABLE_TIMING | EventFlags::BLOCKING_SYNC).context("make an event")?;
        counted.record(stream).context("record an event")?;
        clock.mark("quotient")?;

        // Only once the scalars of `h` are used up is their vector free.
        let beside = (workspace, shape.workspace_bytes());
        let mut sums = Sums { key, feed, results, workspace: beside };
        let contents = &key.contents;
        let order = match key.basis {
            BasisCode::MONOMIAL => Scalars::Reversed(shape.log_domain),
            _ => Scalars::Shifted(0),
        };
        let h = sums.sum(0, contents.h, a, order, contents.h.count)?;
        clock.mark("h")?;
        // While the card sums over h, the host learns how the rest is best done.
        counted.synchronize().context("make the quotient")?;
        let wide = self.results.as_slice()[COUNT_OFFSET as usize / 8];
        sums.workspace = (a, shape.vector_bytes() + shape.workspace_bytes());
        let l = sums.sum(1, contents.l, z, Scalars::Shifted(key.inputs), wide)?;
        clock.mark("l")?;
        let a = sums.sum(2, contents.a, z, Scalars::Listed(contents.a_variables), wide)?;
        clock.mark("a")?;
        let b_g1 = sums.sum(3, contents.b_g1, z, Scalars::Listed(contents.b_variables), wide)?;
        clock.mark("b_g1")?;
        let b_g2 = sums.sum(4, contents.b_g2, z, Scalars::Listed(contents.b_variables), wide)?;
        clock.mark("b_g2")?;
        // SAFETY: both sides have that many bytes; the copy is over once the stream is.
        unsafe { driver::download(host, results, COUNT_OFFSET as usize, stream, "download the sums")? };
        driver::synchronize(stream, "run the kernels")?;
        self.steps.extend(clock.steps()?);
        Ok([h, l, a, b_g1, b_g2])
    }

    /// Combines what the card left to the host.
    ///
    /// # Errors
    /// `compute` has not been done.
    pub fn finish(&self) -> Result<SumsRecord, Fault> {
        let Some(leftover) = &self.leftover else { return Err(Fault::Order { stage: "finish" }) };
        let words = self.results.as_slice();
        let words = |index: usize| &words[index * (MOST_RESULTS * G1.point_bytes) as usize / 8..];
        // Each takes about half a millisecond, that over G2 more: side by side.
        std::thread::scope(|scope| {
            let g1 = [0, 1, 2, 3].map(|index| {
                let points = points::<G1Xyzz>(words(index), leftover[index]);
                scope.spawn(move || combine_g1(&points))
            });
            let b_g2 = combine_g2(&points::<G2Xyzz>(words(4), leftover[4]));
            // A panic goes on here, and ends at the boundary.
            let [h, l, a, b_g1] =
                g1.map(|sum| sum.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload)));
            Ok(SumsRecord { h, l, a, b_g1, b_g2 })
        })
    }

    /// Device time of the steps, when it was measured.
    pub fn steps(&self) -> &[StepRecord] {
        &self.steps
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.key.gpu.enter().is_ok() {
            self.release();
        }
    }
}

/// Copies with a few threads: one alone does not fill the memory's bandwidth.
fn copy(to: &mut [u64], from: &[u64]) {
    const THREADS: usize = 8;
    const WORTH_A_THREAD: usize = 1 << 18;
    let chunk = from.len().div_ceil(THREADS).max(WORTH_A_THREAD);
    std::thread::scope(|scope| {
        let mut pieces = to.chunks_mut(chunk).zip(from.chunks(chunk));
        let first = pieces.next();
        pieces.for_each(|(to, from)| {
            scope.spawn(|| to.copy_from_slice(from));
        });
        if let Some((to, from)) = first {
            to.copy_from_slice(from);
        }
    });
}

fn points<T: Copy + Default>(words: &[u64], count: usize) -> Vec<T> {
    let mut points = vec![T::default(); count];
    let bytes = size_of_val(points.as_slice());
    assert!(bytes <= size_of_val(words));
    // SAFETY: the points are made of `u64` limbs only, and there are enough words.
    unsafe { std::ptr::copy_nonoverlapping(words.as_ptr().cast::<u8>(), points.as_mut_ptr().cast(), bytes) };
    points
}

/// The five sums of a task: the first four over G1.
struct Sums<'a, 'b> {
    key: &'a Key,
    feed: &'a mut Feed<'b>,
    results: CUdeviceptr,
    workspace: (CUdeviceptr, u64),
}

impl Sums<'_, '_> {
    fn sum(
        &mut self,
        index: u64,
        points: Points,
        scalars: CUdeviceptr,
        order: Scalars,
        wide: u64,
    ) -> Result<Leftover, Fault> {
        let gpu = &*self.key.gpu;
        let (group, kernels) = if index < 4 { (G1, &gpu.kernels.g1) } else { (G2, &gpu.kernels.g2) };
        let results = self.results + index * MOST_RESULTS * G1.point_bytes;
        let chunk = self.key.shape.chunk_points(group);
        let multiples = if index == 0 { self.key.contents.multiples } else { None };
        let work = Work::new(group, points.count, wide, chunk, gpu.multiprocessors).with_multiples(multiples);
        let (stream, workspace) = (self.feed.stream(), self.workspace);
        let feed = &mut *self.feed;
        Msm { gpu, stream, feed, group, kernels, points, scalars, order, work, workspace, results }.run()
    }
}
