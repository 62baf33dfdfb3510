//! Datasets, decoding, augmentation and prefetching.
//!
//! The road of a training image: [`coco::CocoDataset`] reads and checks the annotations,
//! [`loader::Loader`] decides on an order and lets worker threads decode ([`decode`]), resize, flip and
//! normalise ([`transform`]) ahead of the training loop, which receives [`loader::Batch`]es.
//! A user's own folder in COCO's, Pascal VOC's or YOLO's form becomes such a dataset ([`detection_folder`]).
//! Faces ([`faces`]) take the same road, augmented as published for ages and head poses ([`faces::loader`]).
//! So do pairs of frames of a video ([`sequences`]), cut out around a target.
//!
//! What is defective is written down as a [`quarantine::Defect`] and left out; above a tolerated fraction
//! the answer is an error. Nothing here depends on the number of threads or on ambient randomness.

pub mod check;
pub mod coco;
pub mod decode;
pub mod detection_folder;
mod digest;
mod draw;
pub mod encode;
pub mod error;
pub mod faces;
pub mod fetch;
pub mod files;
pub mod image;
pub mod loader;
pub mod patch;
mod planes;
pub mod quarantine;
pub mod rect;
pub mod resize;
pub mod sequences;
pub mod transform;

pub use crate::error::{Error, Result};
pub use crate::image::Image;

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
