//! Base of all crates.
//!
//! | what | item |
//! |---|---|
//! | a splittable random seed | [`Key`] |
//! | safe reading, replacing, locking and removing of files | [`files`] |
//! | declarations of settings with their ranges, units and meanings | [`settings`](mod@settings), [`settings!`] |
//! | libraries that are opened at run time, and their inventory | [`libraries`] |
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod files;
pub mod libraries;
mod seed;
pub mod settings;

pub use seed::{Key, Rng};
