//! Figure 2 of the paper: the illustrative 1-D regression problem.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod composed;
mod course;
pub mod dataset;
mod energy;
pub mod evaluation;
mod experiment;
mod kernel;
mod layout;
mod network;
mod op;

pub use course::{Course, Schedule};
pub use dataset::{Points, Problem};
pub use ebm_experiment::{Error, Result};
pub use energy::ToyEnergy;
pub use experiment::{
    Dataset, Experiment, Job, Method, ModelConfig, Reference, Row, Trained, run_all, training_points,
};
pub use layout::{Activation, LAYERS, Layout, Linear, Network, WIDTH};
pub use network::Heads;
