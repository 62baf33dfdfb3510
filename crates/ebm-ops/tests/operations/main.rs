//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/differences.rs"]
mod differences;
#[path = "../common/older_processor.rs"]
mod older_processor;

mod boxes_golden;
mod candle;
mod conv2d;
mod conv2d_packed;
mod dense;
mod depthwise;
mod graph;
mod inverted;
mod late_fusion;
mod linear;
mod linear_at;
mod linear_packed;
mod max_pool;
mod nms;
mod norm;
mod norm_golden;
mod ops_image;
mod optim_golden;
mod prelu;
mod prroi_pool;
mod relu;
mod roi_align;
mod roi_prroi_pool;
mod roi_robustness;
mod silu;
mod sizes;
mod student_fusion;
mod sum_of_losses;
mod sum_taps;
mod upsample;
