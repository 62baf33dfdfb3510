//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

#[path = "../common/mod.rs"]
mod common;

mod backbones;
mod evaluation;
mod folds;
mod networks;
mod optimum;
mod resnet_file;
mod torch;
mod training;
