//! Drawn scenes, videos and faces with exact annotations, for tests, quick checks and clones without data.
//!
//! | module | for | written as |
//! |---|---|---|
//! | [`scenes`] | detection | JPEG files and COCO annotations |
//! | [`videos`] | tracking | folders in OTB's layout |
//! | [`faces`] | age and head pose | PNG files and a split as UTKFace's, or images in memory |
//!
//! The bytes of a sample depend on its key, index and configuration alone, never on the number of threads or
//! samples. Across platforms they may differ where the system's `sin`, `cos` and `exp` do.

mod drawing;
pub mod faces;
mod generated_dir;
pub mod scenes;
pub mod videos;

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
