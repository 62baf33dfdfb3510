//! The crate's tests: one binary, because linking is the slow part.
//! `.ci/cuda` runs `bf16_golden.rs` and `devices.rs` by themselves.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "../common/mod.rs"]
mod common;

mod efficientnet_golden;
mod fpn_golden;
mod import_files;
mod import_pickles;
mod import_views;
mod mobilefacenet_golden;
mod params_store;
mod resnet_constant;
mod resnet_golden;
