//! The kernels as the driver knows them.

use std::ffi::c_void;

use cust::module::Module;
use cust::stream::Stream;
use cust::sys::CUfunction;

use crate::driver::{self, Context};
use crate::fault::Fault;
use crate::plan::split;

/// Fat binaries are read as 64-bit words.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

macro_rules! fatbin {
    ($name:literal) => {{
        static IMAGE: &Aligned<[u8]> =
            &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".fatbin")));
        Module::from_fatbin(&IMAGE.0, &[]).context(concat!("load the kernels of ", $name))
    }};
}

/// A kernel, and its name for errors.
#[derive(Clone, Copy)]
pub struct Kernel {
    function: CUfunction,
    name: &'static str,
}

// SAFETY: a function handle may be used from any thread; its module lives as long as the `Gpu`.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    fn of(module: &Module, name: &'static str) -> Result<Self, Fault> {
        let function = module.get_function(name).context(name)?.to_raw();
        Ok(Self { function, name })
    }

    /// Lets its blocks have so many bytes of shared memory, in all that a launch gives them: beyond 48 KiB the driver asks for this.
    fn allow_shared(&self, bytes: u32) -> Result<(), Fault> {
        // SAFETY: the function handle is live.
        unsafe { driver::allow_shared(self.function, bytes, self.name) }
    }

    /// Puts the kernel on a stream. See [`launch!`](crate::launch).
    ///
    /// # Safety
    /// `arguments` point to values of the types of the kernel's parameters, in order, and what the
    /// kernel reads and writes is valid until the stream is done with it.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        (blocks, threads, shared_bytes): (u64, u32, u32),
        arguments: &mut [*mut c_void],
    ) -> Result<(), Fault> {
        let blocks =
            u32::try_from(blocks).map_err(|_| Fault::Input(format!("{}: {blocks} blocks", self.name)))?;
        // SAFETY: the caller's, and the function handle is live.
        unsafe {
            driver::launch(self.function, (blocks, threads, shared_bytes), stream, arguments, self.name)
        }
    }
}

/// Launches a kernel: `launch!(kernel, stream, (blocks, threads, shared_bytes), argument, ...)`.
#[macro_export]
macro_rules! launch {
    ($kernel:expr, $stream:expr, $grid:expr, $($argument:expr),+ $(,)?) => {
        $kernel.launch($stream, $grid, &mut [$((&raw const *(&$argument)).cast_mut().cast()),+])
    };
}

/// The kernels for one group.
pub struct MsmKernels {
    /// See `kernels/msm.cuh`, as all of these; over G1 it is in `kernels/g1.cu`.
    pub accumulate: Kernel,
    /// Adds up parts.
    pub merge: Kernel,
    /// Adds up runs of buckets.
    pub weigh_runs: Kernel,
    /// Weighs runs.
    pub weigh: Kernel,
    /// Adds up windows.
    pub sum: Kernel,
}

impl MsmKernels {
    fn of(module: &Module) -> Result<Self, Fault> {
        Ok(Self {
            accumulate: Kernel::of(module, "accumulate")?,
            merge: Kernel::of(module, "merge")?,
            weigh_runs: Kernel::of(module, "weigh_runs")?,
            weigh: Kernel::of(module, "weigh")?,
            sum: Kernel::of(module, "sum")?,
        })
    }
}

/// `split_digits` of `kernels/split.cu`, in the blocks that the device has shared memory for.
pub struct SplitDigits {
    /// The kernel.
    pub kernel: Kernel,
    /// Threads of its blocks.
    pub threads: u64,
}

impl SplitDigits {
    fn of(module: &Module, block_shared_bytes: u64) -> Result<Self, Fault> {
        let threads = split::split_threads(block_shared_bytes);
        let more = threads == split::MORE_THREADS;
        let kernel = Kernel::of(module, if more { "split_digits_1024" } else { "split_digits_512" })?;
        kernel.allow_shared(split::split_shared_bytes(split::MOST_SPLIT, threads))?;
        Ok(Self { kernel, threads })
    }
}

macro_rules! kernels {
    ($($module:ident: $($name:ident)+;)+) => {
        /// All kernels but those for one group: see `kernels/`.
        pub struct Kernels {
            $($(#[allow(missing_docs)] pub $name: Kernel,)+)+
            /// Puts entries in the runs of their groups.
            pub split_digits: SplitDigits,
            /// Sums over G1.
            pub g1: MsmKernels,
            /// Sums over G2.
            pub g2: MsmKernels,
        }

        impl Kernels {
            /// Those of modules that are loaded, for a device whose blocks can have so many bytes of shared memory.
            ///
            /// # Errors
            /// When the driver does not know one, or refuses.
            pub fn of(modules: &Modules, block_shared_bytes: u64) -> Result<Self, Fault> {
                let kernels = Self {
                    $($($name: Kernel::of(&modules.$module, stringify!($name))?,)+)+
                    split_digits: SplitDigits::of(&modules.split, block_shared_bytes)?,
                    g1: MsmKernels::of(&modules.g1)?,
                    g2: MsmKernels::of(&modules.g2)?,
                };
                kernels.place_members.allow_shared(split::PLACE_SHARED_BYTES)?;
                Ok(kernels)
            }
        }
    };
}

kernels! {
    quotient: powers spmv spmv_long fill_below to_canonical;
    ntt: ntt_down ntt_turn ntt_up ntt_quotient;
    multiples: multiples;
    sort: count_digits place_digits sum_blocks sum_totals add_totals;
    split: count_groups begin_groups count_members place_members;
    batched: accumulate_batched merge_runs;
}

/// What the kernels are loaded from.
pub struct Modules {
    quotient: Module,
    ntt: Module,
    multiples: Module,
    sort: Module,
    split: Module,
    batched: Module,
    g1: Module,
    g2: Module,
}

impl Modules {
    /// Loads all.
    ///
    /// # Errors
    /// When the driver refuses one.
    pub fn load() -> Result<Self, Fault> {
        Ok(Self {
            quotient: fatbin!("quotient")?,
            ntt: fatbin!("ntt")?,
            multiples: fatbin!("multiples")?,
            sort: fatbin!("sort")?,
            split: fatbin!("split")?,
            batched: fatbin!("batched")?,
            g1: fatbin!("g1")?,
            g2: fatbin!("g2")?,
        })
    }
}
