//! Macro that declares settings.

/// Declares a structure or an enumeration of settings. The macro defines the type as written and implements
/// [`Setting`](crate::settings::Setting). A range follows the type of a field and holds for every number in it; a
/// unit may follow the range. A field without a range must be a `Setting` itself. Further declarations may follow
/// a structure without type parameters.
///
/// `settings!(Grid as Written);` declares a type that serde reads and writes as another type.
///
/// The macro reads serde's attribute `tag`. Variants have the names of `rename_all = "snake_case"`.
///
/// ```
/// use ebm_base::settings;
/// use ebm_base::settings::Setting;
///
/// settings! {
///     /// How an image becomes the network's input.
///     #[derive(Clone, Debug)]
///     pub struct InputConfig {
///         /// The side after resizing.
///         pub side: usize where 16..=8192 => "pixels",
///         /// Divided by, per channel.
///         pub std: [f32; 3] where 1e-3..=1e3,
///         /// Whether it is mirrored.
///         pub flip: bool,
///     }
/// }
///
/// let ebm_base::settings::Declaration::Table(fields) = InputConfig::declaration() else { panic!() };
/// let ebm_base::settings::Declaration::Numbers(side) = fields[0].declaration else { panic!() };
/// assert_eq!(side.to_string(), "a whole number from 16 to 8192, in pixels");
/// ```
///
/// ```compile_fail
/// ebm_base::settings! {
///     /// A number without a range does not compile.
///     struct InputConfig {
///         side: usize,
///     }
/// }
/// ```
#[macro_export]
macro_rules! settings {
    ($name:ident as $written:ty) => {
        impl $crate::settings::Setting for $name {
            fn declaration() -> $crate::settings::Declaration {
                <$written as $crate::settings::Setting>::declaration()
            }
        }
    };
    (@declaration $type:ty) => { <$type as $crate::settings::Setting>::declaration() };
    (@declaration $type:ty where $range:expr) => {
        $crate::settings::Declaration::Numbers($crate::settings::Range::from($range))
    };
    (@declaration $type:ty where $range:expr => $unit:literal) => {
        $crate::settings::Declaration::Numbers($crate::settings::Range::from($range).of($unit))
    };
    // Bound of a field: a type without a range must be a setting.
    (@bound $type:ty) => { $type };
    (@bound $type:ty where $($range:tt)*) => { () };
    (@meaning doc = $line:literal) => { $line };
    (@meaning $($other:tt)*) => { "" };
    (@tag serde(tag = $tag:literal $($other:tt)*)) => { Some($tag) };
    (@tag $($other:tt)*) => { None::<&'static str> };
    (@table $($(#[$($note:tt)*])* $field:ident: $type:ty $(where $range:expr $(=> $unit:literal)?)?;)*) => {
        $crate::settings::Declaration::Table(vec![$($crate::settings::Field {
            name: stringify!($field).to_owned(),
            meaning: &[$($crate::settings!(@meaning $($note)*)),*],
            declaration: $crate::settings!(@declaration $type $(where $range $(=> $unit)?)?),
        }),*])
    };
    (
        $(#[$($meta:tt)*])*
        $vis:vis struct $name:ident $(<$($param:ident),+>)? {
            $($(#[$($note:tt)*])* $field_vis:vis $field:ident: $type:ty $(where $range:expr $(=> $unit:literal)?)?),*
            $(,)?
        }
    ) => {
        $(#[$($meta)*])*
        $vis struct $name $(<$($param),+>)? {
            $($(#[$($note)*])* $field_vis $field: $type),*
        }

        #[allow(trivial_bounds, reason = "fields without parameters have bounds too")]
        impl $(<$($param),+>)? $crate::settings::Setting for $name $(<$($param),+>)?
        where
            $($crate::settings!(@bound $type $(where $range)?): $crate::settings::Setting),*
        {
            fn declaration() -> $crate::settings::Declaration {
                $crate::settings!(@table
                    $($(#[$($note)*])* $field: $type $(where $range $(=> $unit)?)?;)*)
            }
        }
    };
    // A structure that further declarations follow.
    ($(#[$($meta:tt)*])* $vis:vis struct $name:ident { $($field:tt)* } $($others:tt)+) => {
        $crate::settings! { $(#[$($meta)*])* $vis struct $name { $($field)* } }
        $crate::settings! { $($others)+ }
    };
    (
        $(#[$($meta:tt)*])*
        $vis:vis enum $name:ident $(<$param:ident = $default:ty>)? {
            $($(#[$($note:tt)*])* $kind:ident
                $(($inner:ty $(where $range:expr $(=> $unit:literal)?)?))?
                $({
                    $($(#[$($field_note:tt)*])* $field:ident: $type:ty
                        $(where $field_range:expr $(=> $field_unit:literal)?)?),* $(,)?
                })?
            ),* $(,)?
        }
    ) => {
        $(#[$($meta)*])*
        $vis enum $name $(<$param = $default>)? {
            $($(#[$($note)*])* $kind $(($inner))? $({ $($(#[$($field_note)*])* $field: $type),* })?),*
        }

        #[allow(trivial_bounds, reason = "fields without parameters have bounds too")]
        impl $(<$param>)? $crate::settings::Setting for $name $(<$param>)?
        where
            $(
                $($crate::settings!(@bound $inner $(where $range)?): $crate::settings::Setting,)?
                $($($crate::settings!(@bound $type $(where $field_range)?): $crate::settings::Setting,)*)?
            )*
        {
            fn declaration() -> $crate::settings::Declaration {
                let tag = [$($crate::settings!(@tag $($meta)*)),*].into_iter().flatten().next();
                let kinds = vec![$({
                    let settings = None;
                    $(let settings = settings.or(Some(
                        $crate::settings!(@declaration $inner $(where $range $(=> $unit)?)?)));)?
                    $(let settings = settings.or(Some($crate::settings!(@table
                        $($(#[$($field_note)*])* $field: $type $(where $field_range $(=> $field_unit)?)?;)*)));)?
                    $crate::settings::Field {
                        name: $crate::settings::snake_case(stringify!($kind)),
                        meaning: &[$($crate::settings!(@meaning $($note)*)),*],
                        declaration: settings.unwrap_or($crate::settings::Declaration::Plain),
                    }
                }),*];
                $crate::settings::Declaration::Choice { tag, kinds }
            }
        }
    };
}

/// Declares structures that are tables of a configuration file: [`settings!`](crate::settings!) with the traits that all
/// of them have, and with an error for unknown names. Further traits are derived as usual.
#[macro_export]
macro_rules! settings_table {
    ($($(#[$($meta:tt)*])* $vis:vis struct $name:ident $(<$($param:ident),+>)? { $($field:tt)* })+) => {$(
        $crate::settings! {
            #[derive(Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
            #[serde(deny_unknown_fields)]
            $(#[$($meta)*])*
            $vis struct $name $(<$($param),+>)? { $($field)* }
        }
    )+};
}
