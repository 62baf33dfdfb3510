//! Figure 2 of the paper: the illustrative 1-D regression problem.

pub mod calibration;
mod course;
pub mod dataset;
mod energy;
mod error;
pub mod evaluation;
mod experiment;
mod layers;

pub use course::{Course, Schedule};
pub use dataset::{Points, Problem};
pub use energy::{Network, ToyEnergy};
pub use error::{Error, Result};
pub use experiment::{
    Dataset, Experiment, Job, Method, ModelConfig, Reference, Row, Trained, run_all, training_points,
};
pub use layers::Heads;

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
