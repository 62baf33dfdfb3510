//! Shared parts of the experiments of all tasks, between the training loop and the tasks.
//!
//! | purpose | item |
//! |---|---|
//! | settings: embedded or in a file, extended, changed from the command line | [`config`] |
//! | the best of several step lengths, on validation data | [`best`] |
//! | training, with the same steps for every task | [`Training`], [`train`] |
//! | validation during training, which keeps the best network | [`Validation`], [`train_validated`] |
//! | recorded validations | [`read_validations`] |
//! | predicted densities: their likelihood, coverage, calibration | [`Predictions`] |
//! | edges of a box: regions, and calibrated intervals | [`edge_regions`], [`EdgeIntervals`], [`CalibratedEdge`] |
//! | effect of a change on the error of the same items | [`PairedDifference`] |
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod choice;
pub mod config;
mod edges;
mod error;
mod paired;
mod predictions;
mod training;
mod validated;

pub use choice::best;
pub use edges::{CalibratedEdge, EdgeIntervals, edge_distances, edge_regions, edges_of};
pub use error::{Error, Result};
pub use paired::PairedDifference;
pub use predictions::{Calibration, Predictions};
pub use training::{Built, Inputs, Opened, Run, Session, Training, train};
pub use validated::{KeptBest, Measure, Validated, Validation, read_validations, train_validated};
