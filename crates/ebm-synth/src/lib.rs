//! Drawn scenes, videos and faces with exact annotations, for tests and quick checks without downloaded data.
//!
//! | module | task | files |
//! |---|---|---|
//! | [`scenes`] | detection | JPEG files and COCO annotations |
//! | [`videos`] | tracking | folders in OTB's layout |
//! | [`faces`] | age and head pose | PNG files and a split in UTKFace's format, or images in memory |
//!
//! The bytes of a sample depend only on its key, index and configuration, never on the number of threads or
//! samples. They may differ between platforms whose `sin`, `cos` and `exp` differ.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod drawing;
pub mod faces;
mod generated_dir;
pub mod scenes;
pub mod videos;
