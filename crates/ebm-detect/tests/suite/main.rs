//! The crate's tests: one binary, because linking is the slow part.
//! `processes.rs` stands beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

#[path = "../formula/mod.rs"]
mod formula;

mod faster_rcnn;
mod fastest_det;
mod heads;
mod maskrcnn_benchmark;
mod real;
mod refiner;
