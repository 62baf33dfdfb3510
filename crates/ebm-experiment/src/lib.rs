//! What the experiments of all tasks share, between the training loop and the tasks.
//!
//! | what | item |
//! |---|---|
//! | settings: embedded or a file, one extending another, changed from the command line | [`config`] |
//! | the best of several step lengths, on validation data | [`best`] |
//! | a training, the same course for every task | [`Training`], [`train`] |
//! | a network in training that is judged and kept | [`Validation`], [`train_validated`] |
//! | its validations | [`read_validations`] |
//! | predicted densities: their likelihood, coverage, calibration | [`Predictions`] |
//! | where a box's edges lie: regions, and how wide a calibration makes them | [`edge_regions`], [`EdgeIntervals`], [`CalibratedEdge`] |
//! | what a change does to the error of the same items | [`PairedDifference`] |

mod choice;
pub mod config;
mod edges;
mod error;
mod paired;
mod predictions;
mod training;
mod validated;

pub use choice::best;
pub use edges::{CalibratedEdge, EdgeIntervals, edge_regions, edges_of};
pub use error::{Error, Result};
pub use paired::PairedDifference;
pub use predictions::{Calibration, Predictions};
pub use training::{Built, Inputs, Run, Session, Training, train};
pub use validated::{KeptBest, Measure, Validated, Validation, read_validations, train_validated};

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
