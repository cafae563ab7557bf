//! What [`export_policy!`](crate::export_policy) puts behind the boundary.

use core::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use abi_stable::prefix_type::{PrefixTypeTrait, WithMetadata};
use abi_stable::std_types::{RResult, RStr, RString, RVec, Tuple2};

use crate::abi::{Instance, PolicyModule, PolicyModuleRef, PolicyTable, PolicyTableRef, Status};
use crate::{DeviceView, Observation, Policy, Request, Strided, Verdict, View};

/// The exported functions of policy `P`.
pub struct Exported<P>(PhantomData<P>);

impl<P: Policy> Exported<P> {
    const TABLE: &'static WithMetadata<PolicyTable> = &WithMetadata::new(PolicyTable {
        decide: decide::<P>,
        rank: rank::<P>,
        place: place::<P>,
        observe: observe::<P>,
        stats: stats::<P>,
        destroy: destroy::<P>,
    });

    /// The root module, with `manifest` as its manifest function.
    pub const fn module(manifest: extern "C" fn() -> RStr<'static>) -> PolicyModule {
        PolicyModule { manifest, create: create::<P>, table: PolicyTableRef(Self::TABLE.static_as_prefix()) }
    }
}

/// Gives a root module the `'static` home that its reference needs.
pub fn leak(module: PolicyModule) -> PolicyModuleRef {
    module.leak_into_prefix()
}

/// Runs `call`; a panic becomes a status, because it must never cross the boundary.
fn caught(call: impl FnOnce()) -> Status {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(()) => Status::OK,
        Err(payload) => {
            // A payload may panic when it is dropped: leak it.
            core::mem::forget(payload);
            Status::PANICKED
        }
    }
}

extern "C" fn create<P: Policy>(options: RStr<'_>) -> RResult<Instance, RString> {
    let made = catch_unwind(AssertUnwindSafe(|| {
        let text = options.as_str().trim();
        let options = if text.is_empty() {
            P::Options::default()
        } else {
            ron::from_str(text).map_err(|error| error.to_string())?
        };
        P::new(options)
    }));
    match made {
        Ok(Ok(policy)) => RResult::ROk(Instance(Box::into_raw(Box::new(policy)).cast())),
        Ok(Err(reason)) => RResult::RErr(reason.into()),
        Err(payload) => {
            let said = payload.downcast_ref::<&str>().copied();
            let said = said.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            let reason = format!("the policy panicked: {}", said.unwrap_or("no message"));
            core::mem::forget(payload);
            RResult::RErr(reason.into())
        }
    }
}

unsafe extern "C" fn decide<P: Policy>(
    instance: Instance,
    request: *const (),
    view: *const (),
    verdict: *mut (),
) -> Status {
    caught(|| {
        // SAFETY: the host keeps the contract of `PolicyTable`.
        let (policy, request, view) =
            unsafe { (&*instance.0.cast::<P>(), &*request.cast::<Request>(), &*view.cast::<View<'_>>()) };
        let answer = policy.decide(request, view);
        // SAFETY: as above; the host's record is at least as long as ours.
        unsafe { verdict.cast::<Verdict>().write(answer) };
    })
}

unsafe extern "C" fn rank<P: Policy>(
    instance: Instance,
    request: *const (),
    view: *const (),
    rank: &mut i64,
) -> Status {
    caught(|| {
        // SAFETY: the host keeps the contract of `PolicyTable`.
        let (policy, request, view) =
            unsafe { (&*instance.0.cast::<P>(), &*request.cast::<Request>(), &*view.cast::<View<'_>>()) };
        *rank = policy.rank(request, view);
    })
}

unsafe extern "C" fn place<P: Policy>(
    instance: Instance,
    request: *const (),
    devices: *const (),
    device: &mut u32,
) -> Status {
    caught(|| {
        // SAFETY: the host keeps the contract of `PolicyTable`.
        let (policy, request, devices) = unsafe {
            (
                &*instance.0.cast::<P>(),
                &*request.cast::<Request>(),
                *devices.cast::<Strided<'_, DeviceView>>(),
            )
        };
        *device = policy.place(request, devices);
    })
}

unsafe extern "C" fn observe<P: Policy>(instance: Instance, observation: *const ()) -> Status {
    caught(|| {
        // SAFETY: the host keeps the contract of `PolicyTable`, one thread at a time included.
        let (policy, observation) =
            unsafe { (&mut *instance.0.cast::<P>(), &*observation.cast::<Observation>()) };
        policy.observe(observation);
    })
}

unsafe extern "C" fn stats<P: Policy>(instance: Instance, stats: &mut RVec<Tuple2<RString, u64>>) -> Status {
    caught(|| {
        // SAFETY: the host keeps the contract of `PolicyTable`.
        let policy = unsafe { &*instance.0.cast::<P>() };
        stats.extend(policy.stats().into_iter().map(|(name, value)| Tuple2(name.into(), value)));
    })
}

unsafe extern "C" fn destroy<P: Policy>(instance: Instance) -> Status {
    caught(|| {
        // SAFETY: the pointer came out of `Box::into_raw` in `create`, and the host destroys once.
        drop(unsafe { Box::from_raw(instance.0.cast::<P>()) });
    })
}

/// Exports a [`Policy`] from the crate: its root module, under a symbol that carries the crate's
/// name, and its manifest, in an ELF section of its own.
///
/// Because each crate's symbol is its own, several policies can be linked into one program as well.
/// The macro also makes `interlock_policy() -> PolicyModuleRef`, for that use.
///
/// Call it once, at the root of the crate. See the [crate's documentation](crate) for a whole policy.
#[macro_export]
macro_rules! export_policy {
    ($policy:ty) => {
        // With `panic = "abort"` a panic of the policy would end the engine.
        #[cfg(not(panic = "unwind"))]
        ::core::compile_error!("a policy must be built with panic = \"unwind\"");

        const _: () = {
            #[used]
            #[unsafe(link_section = ".interlock.manifest")]
            static MANIFEST: [u8; $crate::manifest::encoded_len(
                &<$policy as $crate::Policy>::MANIFEST,
                INTERLOCK_POLICY_ENTRY,
            )] = $crate::manifest::encode(&<$policy as $crate::Policy>::MANIFEST, INTERLOCK_POLICY_ENTRY);

            impl $crate::__private::Linked for $policy {
                fn manifest() -> &'static [u8] {
                    &MANIFEST
                }
            }
        };

        const INTERLOCK_POLICY_ENTRY: &str = concat!("interlock_policy__", env!("CARGO_CRATE_NAME"));

        extern "C" fn interlock_policy_manifest() -> $crate::__private::RStr<'static> {
            $crate::__private::manifest_str(<$policy as $crate::__private::Linked>::manifest())
        }

        extern "C" fn interlock_policy_constructor() -> $crate::__private::RootModuleResult {
            $crate::__private::call_root_module_loader(interlock_policy)
        }

        /// The policy's root module, for a program that links the policy instead of loading it.
        pub fn interlock_policy() -> $crate::abi::PolicyModuleRef {
            $crate::__private::leak($crate::__private::Exported::<$policy>::module(interlock_policy_manifest))
        }

        #[doc(hidden)]
        #[unsafe(export_name = concat!("interlock_policy__", env!("CARGO_CRATE_NAME")))]
        // SAFETY: the constructor's module comes from `interlock_policy`, whose type is named here.
        pub static INTERLOCK_POLICY_HEADER: $crate::__private::LibHeader = unsafe {
            $crate::__private::LibHeader::from_constructor::<$crate::abi::PolicyModuleRef>(
                interlock_policy_constructor,
                $crate::__private::CheckTypeLayout::Yes,
            )
        };
    };
}
