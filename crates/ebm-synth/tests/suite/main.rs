//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used, clippy::panic)]

mod faces;
mod generated_dir;
mod scenes;
mod videos;
