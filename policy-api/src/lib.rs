//! The stable ABI and SDK for Interlock scheduling policies.
//!
//! A policy decides when a proof task may enter each of its stages, which locks it takes there, and
//! whether its data goes to the device ahead of its turn. It is a small crate, built as a `cdylib`, that depends
//! on this crate only; the engine loads it at run time. [`Policy`] says what is asked, when, and what is refused.
//!
//! # A whole policy
//!
//! One task at a time on the device; among those of a priority, tasks with many bytes go last. That is what `interlock policy check`
//! calls a break of *bounded wait*: while small tasks keep coming, a large one may wait for ever. Where they do not, it is a fair trade.
//!
//! ```
//! use interlock_policy_api::{
//!     Capabilities, Lock, Manifest, Policy, Request, Stage, Verdict, View, WakeSet, export_policy,
//!     policy_options,
//! };
//!
//! policy_options! {
//!     /// Options of `small-first`.
//!     pub struct Options {
//!         /// Tasks whose bytes differ by less are equals.
//!         pub step_bytes: u64 = 1_073_741_824,
//!     }
//! }
//!
//! pub struct SmallFirst(Options);
//!
//! impl Policy for SmallFirst {
//!     type Options = Options;
//!
//!     const MANIFEST: Manifest = Manifest::new("small-first", "1.0.0", "one at a time, small tasks first")
//!         .with_locks(&[Lock::exclusive("device", Stage::STAGE, Stage::COMPUTE)])
//!         .with_options(Options::SPEC)
//!         .with_capabilities(Capabilities::RANK);
//!
//!     fn new(options: Options) -> Result<Self, String> {
//!         if options.step_bytes == 0 {
//!             return Err("step_bytes: 0 divides nothing, give at least 1".into());
//!         }
//!         Ok(Self(options))
//!     }
//!
//!     fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
//!         if request.grantable() {
//!             Verdict::enter(request.need_bytes)
//!         } else {
//!             Verdict::wait(WakeSet::FREED)
//!         }
//!     }
//!
//!     fn rank(&self, request: &Request, _view: &View<'_>) -> i64 {
//!         let steps = u32::try_from(request.peak_bytes / self.0.step_bytes).unwrap_or(u32::MAX);
//!         i64::from(steps).saturating_sub(i64::from(request.priority) << 32)
//!     }
//! }
//!
//! export_policy!(SmallFirst);
//! # fn main() {}
//! ```
//!
//! # Building and using it
//!
//! The crate's `Cargo.toml` needs this; `rlib` is there for its tests, and for programs that link the policy:
//!
//! ```toml
//! [lib]
//! crate-type = ["cdylib", "rlib"]
//!
//! [dependencies]
//! interlock-policy-api = "1"
//! ```
//!
//! `cargo build --release` makes `libNAME.so`; `interlock policy inspect libNAME.so` shows its manifest without running
//! it; an entry in `plugins.ron` makes it known: `(name: "small-first", library: "path/to/libNAME.so")`. The
//! [`testing`] module has requests and views for unit tests.
//!
//! # Versions
//!
//! [`abi::ABI_MAJOR`] and [`abi::ABI_MINOR`] are the version of the boundary. Fields, functions, flags and stages
//! are only ever appended, and each appended one raises the minor version. A host loads a library whose
//! major version is its own and whose minor version is not above its own.

#![deny(missing_docs)]

pub mod abi;
mod export;
pub mod manifest;
mod observation;
mod options;
mod policy;
mod request;
mod stage;
mod strided;
pub mod testing;
mod verdict;

pub use abi::{ABI_MAJOR, ABI_MINOR};
pub use manifest::{Capabilities, Lock, LockDoc, Manifest, ManifestDoc, OptionDoc, OptionSpec};
pub use observation::{Observation, ObservationKind};
pub use options::{NoOptions, OptionType};
pub use policy::{Policy, least_loaded};
pub use request::{DeviceView, LockView, Request, RequestFlags, View};
pub use stage::Stage;
pub use strided::Strided;
pub use verdict::{Verdict, VerdictKind, WakeSet};

/// What the macros use; not for people.
#[doc(hidden)]
pub mod __private {
    pub use crate::export::{Exported, leak};
    pub use abi_stable::library::{
        __call_root_module_loader as call_root_module_loader, CheckTypeLayout, LibHeader, RootModuleResult,
    };
    pub use abi_stable::std_types::RStr;
    pub use serde::{self, Deserialize};

    /// Where the manifest of an exported policy is.
    pub trait Linked {
        /// The bytes of the ELF section.
        fn manifest() -> &'static [u8];
    }

    /// The manifest's bytes as the string they are.
    pub fn manifest_str(bytes: &'static [u8]) -> RStr<'static> {
        core::str::from_utf8(bytes).expect("the encoder copies whole strings").into()
    }

    /// A doc line without the space that `///` leaves in front.
    pub const fn trimmed(doc: &'static str) -> &'static str {
        match doc.as_bytes().split_first() {
            Some((b' ', _)) => doc.split_at(1).1,
            _ => doc,
        }
    }
}
