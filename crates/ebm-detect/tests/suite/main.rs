//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used)]

mod example;
mod faster_rcnn;
mod fastest_det;
mod formula;
mod heads;
mod maskrcnn_benchmark;
mod nuclei;
mod processes;
mod real;
mod refiner;
