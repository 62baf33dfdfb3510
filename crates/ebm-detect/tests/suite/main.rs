//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used)]

mod box_head;
mod config;
mod energy_head;
mod example;
mod faster_rcnn;
mod fastest_det;
mod formula;
mod heads;
mod inference;
mod maskrcnn_benchmark;
mod nuclei;
mod pooler;
mod processes;
mod real;
mod refiner;
mod refiner_config;
mod scene;
#[path = "../../../ebm-ops/tests/common/mod.rs"]
mod tensors;
