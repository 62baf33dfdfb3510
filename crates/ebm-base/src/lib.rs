//! What every crate stands on.
//!
//! | what | item |
//! |---|---|
//! | a splittable random seed | [`Key`] |
//! | files as others may have left them: opened, replaced, locked and removed | [`files`] |
//! | libraries that are opened at run time, and which there are | [`libraries`] |

pub mod files;
pub mod libraries;
mod seed;

pub use seed::{Key, Rng};

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
