//! The crate's tests: one binary, because linking is the slow part.
//! `mpi.rs` stands beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

#[path = "../common/regression.rs"]
mod regression;

mod checkpoint;
mod run_dir;
mod together;
mod trainer;
