//! Datasets, decoding, augmentation and prefetching.
//!
//! The path of a training image: [`coco::CocoDataset`] reads and checks the annotations. [`loader::Loader`] draws
//! an order, and its worker threads decode ([`decode`]), resize, flip and normalise ([`transform`]) ahead of the
//! training loop, which receives [`loader::Batch`]es. A user's own folder in the format of COCO, Pascal VOC or
//! YOLO becomes such a dataset ([`detection_folder`]). Faces ([`faces`]) take the same path, augmented as
//! published for ages and head poses ([`faces::loader`]). So do pairs of frames of a video ([`sequences`]),
//! cropped around a target.
//!
//! A defective sample is recorded as a [`quarantine::Defect`] and left out. More defects than the tolerated
//! fraction are an error. No result depends on the number of threads or on ambient randomness.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

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
