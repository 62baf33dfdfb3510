//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used, clippy::panic)]

mod generated_dir;
mod heads;
mod scenes_dataset;
mod scenes_render;
mod videos;
