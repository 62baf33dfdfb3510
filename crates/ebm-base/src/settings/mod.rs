//! Declarations of settings. [`settings!`](crate::settings!) declares a structure or an enumeration of settings, each number with its range and
//! unit beside its type and documentation. [`Setting::declaration`] returns them at run time.

mod declare;
mod explain;
mod range;

use std::path::PathBuf;

pub use range::Range;

/// A type that settings have. Numbers are none: a field of [`settings!`](crate::settings!) that is one, or has one in it,
/// states its range.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no declaration as a setting",
    note = "a number needs its range, `field: {Self} where 0.0..=1.0`; a type of its own is declared by `settings!`"
)]
pub trait Setting {
    /// What it may be; unless overridden, something without a number.
    fn declaration() -> Declaration {
        Declaration::Plain
    }
}

/// What a setting may be.
#[derive(Clone, Debug, PartialEq)]
pub enum Declaration {
    /// A word, a text or a switch: there is no number in it.
    Plain,
    /// Numbers, one or any list of them, each in the range.
    Numbers(Range),
    /// A list, of which every item is declared alike.
    List(Box<Declaration>),
    /// A table.
    Table(Vec<Field>),
    /// One of several kinds.
    Choice {
        /// The key that names the kind beside its settings; none where the kind is the key that its settings
        /// stand under.
        tag: Option<&'static str>,
        /// The kinds by their names.
        kinds: Vec<Field>,
    },
}

/// A setting of a table, or a kind of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The key.
    pub name: String,
    /// What it means, in lines.
    pub meaning: &'static [&'static str],
    /// What it may be.
    pub declaration: Declaration,
}

impl Setting for bool {}
impl Setting for String {}
impl Setting for PathBuf {}
/// What takes the place of a type whose range is stated.
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

/// `MlIs` as `ml_is`: serde's `rename_all = "snake_case"`, and for names of one word its `lowercase`.
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
