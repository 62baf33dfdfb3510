//! What a tracker sees of an image: a square around the target ([`PatchSampler`]), and what becomes of the
//! first one before the classifier learns from it ([`first_frame_views`]). Facts of ATOM's tracker,
//! supplement E.
//!
//! Positions are `(row, column)`, as trackers have them, and name the centres of pixels: the middle of the
//! upper left pixel is `(0, 0)`, the centre of a box `(x, y, width, height)` is
//! `(y + (height - 1) / 2, x + (width - 1) / 2)`.

mod first_frame;
mod geometry;
mod sample;

pub use first_frame::{PatchTransform, PatchView, first_frame_views};
pub use geometry::PatchGeometry;
pub use sample::PatchSampler;
