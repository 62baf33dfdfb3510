//! Declarations of settings. [`settings!`](crate::settings!) declares a structure or an enumeration of settings;
//! each number has its range and unit beside its type and documentation. [`Setting::declaration`] returns the
//! declarations at run time.

mod declare;
mod explain;
mod range;

use std::path::PathBuf;

pub use range::Range;

/// Type of a setting. Numbers do not implement this trait: a field of [`settings!`](crate::settings!) that is a
/// number or contains one states its range.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no declaration as a setting",
    note = "a number needs its range, `field: {Self} where 0.0..=1.0`; a type of its own is declared by `settings!`"
)]
pub trait Setting {
    /// Returns the declaration of the type. The default is a type without numbers.
    fn declaration() -> Declaration {
        Declaration::Plain
    }
}

/// Declaration of a setting: its possible values.
#[derive(Clone, Debug, PartialEq)]
pub enum Declaration {
    /// A word, a text or a switch, without a number.
    Plain,
    /// One number or any list of numbers, each in the range.
    Numbers(Range),
    /// A list whose items all have the same declaration.
    List(Box<Declaration>),
    /// A table.
    Table(Vec<Field>),
    /// A choice of one of several kinds.
    Choice {
        /// Key that holds the name of the kind, beside the kind's settings; `None` if the name of the kind is the
        /// key of its settings.
        tag: Option<&'static str>,
        /// Kinds with their names.
        kinds: Vec<Field>,
    },
}

/// Setting of a table, or kind of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Key of the setting.
    pub name: String,
    /// Documentation of the setting, line by line.
    pub meaning: &'static [&'static str],
    /// Declaration of the setting.
    pub declaration: Declaration,
}

impl Setting for bool {}
impl Setting for String {}
impl Setting for PathBuf {}
/// Replaces, in trait bounds, a type whose range is stated.
impl Setting for () {}

impl<T: Setting> Setting for Option<T> {
    fn declaration() -> Declaration {
        T::declaration()
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn declaration() -> Declaration {
        Declaration::List(Box::new(T::declaration()))
    }
}

/// Converts `MlIs` to `ml_is`, as serde's `rename_all = "snake_case"` does and, for names of one word,
/// `lowercase`.
#[doc(hidden)]
pub fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests;
