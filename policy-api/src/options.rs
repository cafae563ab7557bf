//! Typed options, declared once: the struct, its defaults and the schema in the manifest.

/// Types an option may have.
pub trait OptionType {
    /// The type's name in the manifest.
    const KIND: &'static str;
}

macro_rules! option_types {
    ($($ty:ty => $kind:literal),* $(,)?) => {
        $(impl OptionType for $ty {
            const KIND: &'static str = $kind;
        })*
    };
}

option_types! {
    bool => "bool",
    u32 => "u32",
    u64 => "u64",
    i64 => "i64",
    f64 => "f64",
    String => "string",
}

/// Options of a policy that has none.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoOptions {}

/// Declares a policy's options: a struct that serde reads from `plugins.ron`, its defaults, and a
/// `SPEC` constant for the manifest. The first doc line of each field is its help text.
///
/// ```
/// interlock_policy_api::policy_options! {
///     /// Options of a policy.
///     pub struct Options {
///         /// How many tasks may compute at once.
///         pub compute_permits: u32 = 1,
///     }
/// }
/// assert_eq!(Options::default().compute_permits, 1);
/// assert_eq!(Options::SPEC[0].doc, "How many tasks may compute at once.");
/// ```
#[macro_export]
macro_rules! policy_options {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                #[doc = $doc:literal] $(#[doc = $more:literal])*
                $field_vis:vis $field:ident : $ty:ty = $default:expr
            ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, $crate::__private::Deserialize)]
        #[serde(crate = "interlock_policy_api::__private::serde", default, deny_unknown_fields)]
        $vis struct $name {
            $(#[doc = $doc] $(#[doc = $more])* $field_vis $field: $ty),+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),+ }
            }
        }

        impl $name {
            /// The schema of these options, for the manifest.
            pub const SPEC: &'static [$crate::OptionSpec] = &[
                $($crate::OptionSpec {
                    name: stringify!($field),
                    kind: <$ty as $crate::OptionType>::KIND,
                    default: stringify!($default),
                    doc: $crate::__private::trimmed($doc),
                }),+
            ];
        }
    };
}
