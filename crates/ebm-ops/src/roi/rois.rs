//! Rows of a box tensor.

use crate::error::{Error, Result};
use crate::float::Float;

/// Largest absolute coordinate. Larger ones are clamped, far outside any map, so that widths and areas stay finite in f64.
const FAR: f64 = 1e100;

/// Extent of a box along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    pub start: f64,
    pub end: f64,
}

impl Span {
    /// Applies `f` to both ends.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self { start: f(self.start), end: f(self.end) }
    }
}

/// Box in pixels of its map, from a row (image index, x0, y0, x1, y1) times the spatial scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roi {
    /// Number of its map, 0 if there is only one.
    pub level: usize,
    /// Index of the image in the batch.
    pub image: usize,
    pub x: Span,
    pub y: Span,
}

/// Reads R rows of (image index, x0, y0, x1, y1) of boxes on one map.
///
/// # Errors
/// [`Error::Argument`] if the length is not a multiple of 5, a number is NaN or infinite, or an image index is not one of
/// `0..images`.
pub(crate) fn parse<T: Float>(
    op: &'static str,
    rois: &[T],
    images: usize,
    spatial_scale: f64,
) -> Result<Vec<Roi>> {
    let refuse = |reason: String| Err(Error::Argument { op, reason });
    let (rows, rest) = rois.as_chunks::<5>();
    if !rest.is_empty() {
        return refuse(format!("rois holds {} numbers; 5 per box are expected", rois.len()));
    }
    let mut boxes = Vec::with_capacity(rows.len());
    for (row, values) in rows.iter().enumerate() {
        let all = values.map(|value| value.to_f64());
        if all.iter().any(|v| !v.is_finite()) {
            return refuse(format!("row {row} of rois is not finite: {all:?}"));
        }
        let [image, x0, y0, x1, y1] = all;
        if image.fract() != 0.0 || image < 0.0 || image >= images as f64 {
            return refuse(format!(
                "row {row} of rois names image {image}; the batch has {images}, counted from 0"
            ));
        }
        let scaled = |v: f64| (v * spatial_scale).clamp(-FAR, FAR);
        let span = |start, end| Span { start, end }.map(scaled);
        boxes.push(Roi { level: 0, image: image as usize, x: span(x0, x1), y: span(y0, y1) });
    }
    Ok(boxes)
}
