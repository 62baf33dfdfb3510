//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod backbone;
mod box_module;
mod tracker;
mod training;
