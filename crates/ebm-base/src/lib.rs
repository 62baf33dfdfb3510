//! What every crate stands on.
//!
//! | what | item |
//! |---|---|
//! | a splittable random seed | [`Key`] |
//! | files as others may have left them: opened, replaced, locked and removed | [`files`] |
//! | settings, each declared in one place with its range, unit and meaning | [`settings`](mod@settings), [`settings!`] |
//! | libraries that are opened at run time, and which there are | [`libraries`] |

pub mod files;
pub mod libraries;
mod seed;
pub mod settings;

pub use seed::{Key, Rng};

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
