//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod backbone;
mod box_module;
mod classifier;
mod config;
mod localize;
#[path = "../../../ebm-ops/tests/common/mod.rs"]
mod tensors;
mod tracker;
mod training;
