//! The crate's tests: one binary, because linking is the slow part.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod calibration;
mod coco;
mod coco_tables;
mod detections;
mod error_breakdown;
mod stats;
mod tracking;
