//! Datasets of sequences as they lie on disk, the crops around their targets, and batches of pairs.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod crop;
mod pairs;
mod readers;
