//! The crate's tests: one binary, because linking is the slow part.
//! `mpi.rs` starts its own binary anew in each process.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

#[path = "../common/regression.rs"]
mod regression;

mod checkpoint;
mod run_dir;
mod together;
mod trainer;
