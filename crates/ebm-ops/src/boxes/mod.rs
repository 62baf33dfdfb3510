//! Axis-aligned boxes (x0, y0, x1, y1): area, IoU, clipping, non-maximum suppression.

mod nms;

use candle_core::Tensor;
use ebm_base::settings::Setting;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

pub use nms::{batched_nms, batched_nms_on};

/// Box as (x0, y0, x1, y1) in pixels.
pub type BBox = [f32; 4];

/// Meaning of the second corner of a box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoxConvention {
    /// (x1, y1) is the first point outside: width = x1 − x0. Convention of torchvision, COCO and the paper's IoU.
    #[default]
    HalfOpen,
    /// (x1, y1) is the last pixel inside: width = x1 − x0 + 1. Convention of maskrcnn-benchmark.
    Inclusive,
}

impl Setting for BoxConvention {}

impl BoxConvention {
    /// Returns the number that is added to x1 − x0 for the width: 0 or 1.
    pub fn offset(self) -> f32 {
        match self {
            Self::HalfOpen => 0.0,
            Self::Inclusive => 1.0,
        }
    }
}

/// Returns the area in square pixels, 0 for an inverted box.
pub fn area(bbox: &BBox, convention: BoxConvention) -> f32 {
    let [x0, y0, x1, y1] = *bbox;
    let offset = convention.offset();
    (x1 - x0 + offset).max(0.0) * (y1 - y0 + offset).max(0.0)
}

/// Returns the intersection over union, in [0, 1], and 0 if the union is empty.
pub fn iou(a: &BBox, b: &BBox, convention: BoxConvention) -> f32 {
    iou_with_areas(a, area(a, convention), b, area(b, convention), convention)
}

fn iou_with_areas(a: &BBox, area_a: f32, b: &BBox, area_b: f32, convention: BoxConvention) -> f32 {
    let [ax0, ay0, ax1, ay1] = *a;
    let [bx0, by0, bx1, by1] = *b;
    let common = [ax0.max(bx0), ay0.max(by0), ax1.min(bx1), ay1.min(by1)];
    ratio(area(&common, convention), area_a, area_b)
}

/// Returns the intersection over union from three areas, and 0 if they overflow, which needs boxes larger than any map.
fn ratio(intersection: f32, area_a: f32, area_b: f32) -> f32 {
    let union = area_a + area_b - intersection;
    if union > 0.0 && union.is_finite() { intersection / union } else { 0.0 }
}

/// Moves the corners of a box into the image: [0, width] × [0, height], or to the last pixel under
/// [`BoxConvention::Inclusive`].
pub fn clip(bbox: &BBox, width: f32, height: f32, convention: BoxConvention) -> BBox {
    let [x0, y0, x1, y1] = *bbox;
    let right = (width - convention.offset()).max(0.0);
    let bottom = (height - convention.offset()).max(0.0);
    [x0.min(right).max(0.0), y0.min(bottom).max(0.0), x1.min(right).max(0.0), y1.min(bottom).max(0.0)]
}

/// Returns the IoU of candidates with their own target, half-open: `y` (B, M, 4) and `y_i` (B, 4) as (x0, y0, x1, y1) give
/// (B, M). The function works on any device and in any float type. It is for the training targets of IoU-Net, and not meant
/// to be differentiated.
///
/// # Errors
/// [`Error::Argument`] if the shapes do not fit.
pub fn paired_iou(y: &Tensor, y_i: &Tensor) -> Result<Tensor> {
    match (y.dims(), y_i.dims()) {
        // candle panics on empty views.
        (&[b, m, 4], &[b_i, 4]) if b == b_i && b * m == 0 => {
            return Ok(Tensor::zeros((b, m), y.dtype(), y.device())?);
        }
        (&[b, _, 4], &[b_i, 4]) if b == b_i => {}
        (y, y_i) => {
            let reason = format!("y must be (B, M, 4) and y_i (B, 4), not {y:?} and {y_i:?}");
            return Err(Error::Argument { op: "paired_iou", reason });
        }
    }
    let (y, y_i) = (y.detach(), y_i.detach().unsqueeze(1)?);
    let corners = |t: &Tensor| -> Result<(Tensor, Tensor)> { Ok((t.narrow(2, 0, 2)?, t.narrow(2, 2, 2)?)) };
    let ((low, high), (low_i, high_i)) = (corners(&y)?, corners(&y_i)?);
    let area = |low: &Tensor, high: &Tensor| -> Result<Tensor> {
        // The upper limit keeps the area of absurd boxes finite in f32.
        let side = (high - low)?.clamp(0.0, 1e18)?;
        Ok((side.narrow(2, 0, 1)? * side.narrow(2, 1, 1)?)?.squeeze(2)?)
    };
    let intersection = area(&low.broadcast_maximum(&low_i)?, &high.broadcast_minimum(&high_i)?)?;
    let both = area(&low, &high)?.broadcast_add(&area(&low_i, &high_i)?)?;
    let union = (both - &intersection)?;
    // An empty union has an empty intersection: the quotient is 0/1 there.
    let union = union.gt(0.0)?.where_cond(&union, &union.ones_like()?)?;
    Ok((intersection / union)?)
}
