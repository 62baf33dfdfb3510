//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod config;
mod density;
mod eq4;
mod gradients;
mod matrix;
mod objective;
mod parametric;
mod proposal;
mod refine;
mod refine_robustness;
mod target_space;
mod zoo;
