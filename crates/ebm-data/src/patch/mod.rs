//! A tracker's view of an image: a square around the target ([`PatchSampler`]), and the transforms of the first
//! one for the classifier's training ([`first_frame_views`]). All follow ATOM's tracker, supplement E.
//!
//! Positions are `(row, column)`, as in trackers, and refer to the centres of pixels. The middle of the upper left
//! pixel is `(0, 0)`; the centre of a box `(x, y, width, height)` is `(y + (height - 1) / 2, x + (width - 1) / 2)`.

mod first_frame;
mod geometry;
mod sample;

pub use first_frame::{PatchTransform, PatchView, first_frame_views};
pub use geometry::PatchGeometry;
pub use sample::PatchSampler;
