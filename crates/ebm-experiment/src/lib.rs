//! What the experiments of all tasks share, between the training loop and the tasks.
//!
//! | what | item |
//! |---|---|
//! | settings: embedded or a file, one extending another, changed from the command line | [`config`] |
//! | the best of several step lengths, on validation data | [`best`] |
//! | what an experiment would do | [`plan`] |
//! | predicted densities: their likelihood, coverage, calibration | [`Predictions`] |
//! | training that keeps what is best on validation data | [`train_validated`] |

mod choice;
pub mod config;
mod error;
pub mod plan;
mod predictions;
mod validated;

pub use choice::best;
pub use error::{Error, Result};
pub use predictions::{Calibration, Predictions};
pub use validated::{KeptBest, Validated, Validation, train_validated};
