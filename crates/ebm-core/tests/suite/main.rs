//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod config;
mod density;
mod eq4;
mod gradients;
mod matrix;
mod network;
mod objective;
mod objective_config;
mod objective_errors;
mod objective_golden;
mod objective_levels;
mod objective_noise;
mod parametric;
mod proposal;
mod proposal_rivals;
mod refine;
mod refine_robustness;
mod target_space;
mod zoo;
