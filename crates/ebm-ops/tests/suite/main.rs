//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "../common/mod.rs"]
mod common;

mod boxes_golden;
mod candle;
mod norm_golden;
mod ops_image;
mod optim_golden;
mod roi_align;
mod roi_prroi_pool;
mod roi_robustness;
