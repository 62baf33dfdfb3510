//! Visual tracking: the ATOM tracker with an energy-based box module (Section 4.2).
//!
//! A program that uses a trained tracker begins with [`Tracker`].
//!
//! | step | item |
//! |---|---|
//! | features of a crop, once a frame | [`Backbone`] |
//! | position of the target | [`Classifier`], [`localize`] |
//! | f(x, y) of a box y | [`box_module`] |
//! | training of the box module: Eq. 4 and its rivals | [`training`], [`MethodConfig`] |
//! | frame by frame | [`tracker::TargetTracker`] |
//! | bands that contain a target's edges in 90 % of the frames | [`calibrate_bands`], [`band_coverage`] |
//! | Table 3 | [`reproduce`] |
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod backbone;
mod bands;
mod benchmark;
pub mod box_module;
mod classifier;
pub mod config;
pub mod localize;
mod method;
mod onnx;
pub mod reproduce;
pub mod saved;
mod sequence;
pub mod tracker;
mod trained;
pub mod training;

pub use backbone::{Backbone, BackboneFeatures};
pub use bands::{BandCalibration, BandCoverage, band_coverage, calibrate_bands};
pub use benchmark::{Origin, Repetition, Runs, run_folder, track_dataset, write_submission};
pub use classifier::{Classifier, ClassifierConfig, Projected};
pub use ebm_experiment::{Error, Result};
pub use method::{MethodConfig, Published, Quoted, Refinement, RivalConfig, StepCoordinates};
pub use sequence::{FrameCallback, TrackedSequence, track_sequence};
pub use trained::{Tracker, TrackerOptions};
