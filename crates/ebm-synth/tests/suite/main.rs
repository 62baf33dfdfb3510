//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod generated_dir;
mod heads;
mod scenes_dataset;
mod scenes_render;
mod videos;
