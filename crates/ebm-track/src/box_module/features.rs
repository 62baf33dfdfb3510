//! Features that are computed once per target or once per frame.

use candle_core::{D, Device, Tensor};
use ebm_core::{BoxSpace, TargetSpace};
use ebm_data::sequences::Rect;
use ebm_ops::boxes::paired_iou;

use crate::Result;

/// Modulation by N targets: a factor ≥ 0 for each channel of the two maps that boxes are pooled from, as vectors at 1/8
/// and at 1/16, (N, channels) each.
#[derive(Clone, Debug)]
pub struct Modulation(pub [Tensor; 2]);

impl Modulation {
    /// Returns a copy that is detached from any graph.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self(self.0.each_ref().map(Tensor::detach))
    }
}

/// Modulated maps of N crops, from which boxes are pooled: at 1/8 and at 1/16, (N, C, H, W) each, with the channels
/// innermost.
#[derive(Clone, Debug)]
pub struct TestFeatures(pub [Tensor; 2]);

impl TestFeatures {
    /// Returns the maps of crop `i` alone.
    ///
    /// # Errors
    /// When there is no such crop.
    pub fn crop(&self, i: usize) -> Result<Self> {
        let [third, fourth] = &self.0;
        Ok(Self([third.narrow(0, i, 1)?, fourth.narrow(0, i, 1)?]))
    }

    /// Returns a copy that is detached from any graph.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self(self.0.each_ref().map(Tensor::detach))
    }
}

/// Features of f: the modulated maps of B crops and, for each crop, the space of its boxes.
#[derive(Clone, Debug)]
pub struct TargetFeatures {
    /// Modulated maps.
    pub test: TestFeatures,
    /// Space of y.
    pub space: BoxSpace,
}

impl TargetFeatures {
    /// Joins `test` with the space of boxes relative to `reference` `(B, 4)`, x, y, w, h. In training, the reference is
    /// the ground truth. In prediction it is the first initial box, for all boxes of a crop.
    ///
    /// # Errors
    /// When a shape is wrong or a box has no extent.
    pub fn new(test: TestFeatures, reference: &Tensor) -> Result<Self> {
        let space = BoxSpace::new(&corners(&reference.unsqueeze(1)?)?)?;
        Ok(Self { test, space })
    }

    /// Returns the IoU `(B, M)` of the boxes `y` `(B, M, 4)` with `y_i` `(B, 4)`.
    pub(super) fn overlap(&self, y: &Tensor, y_i: &Tensor) -> ebm_core::Result<Tensor> {
        let target = self.space.decode(&y_i.unsqueeze(1)?)?.squeeze(1)?;
        paired_iou(&self.space.decode(y)?, &target).map_err(ebm_core::Error::model)
    }

    /// Converts boxes `(B, M, 4)`, x, y, w, h, to y `(B, M, 4)`.
    ///
    /// # Errors
    /// When a shape is wrong or a box has no extent.
    pub fn encode(&self, boxes: &Tensor) -> Result<Tensor> {
        Ok(self.space.encode(&corners(boxes)?)?)
    }

    /// Converts y `(B, M, 4)` to boxes `(B, M, 4)`, x, y, w, h.
    ///
    /// # Errors
    /// When the shape is wrong.
    pub fn decode(&self, y: &Tensor) -> Result<Tensor> {
        let corners = self.space.decode(y)?;
        let (low, high) = (corners.narrow(D::Minus1, 0, 2)?, corners.narrow(D::Minus1, 2, 2)?);
        Ok(Tensor::cat(&[&low, &(high - &low)?], D::Minus1)?)
    }
}

/// Returns the corners x, y, x + w, y + h `(…, 4)` of boxes x, y, w, h `(…, 4)`.
///
/// # Errors
/// When the last dimension is not 4.
pub fn corners(boxes: &Tensor) -> Result<Tensor> {
    let (low, size) = (boxes.narrow(D::Minus1, 0, 2)?, boxes.narrow(D::Minus1, 2, 2)?);
    Ok(Tensor::cat(&[&low, &(&low + size)?], D::Minus1)?)
}

/// Reads boxes `(M, 4)` as numbers.
///
/// # Errors
/// When the shape differs, or the type is not f32.
pub fn rects(boxes: &Tensor) -> Result<Vec<Rect>> {
    let rows = boxes.to_device(&Device::Cpu)?.to_vec2::<f32>()?;
    Ok(rows.iter().map(|row| [0, 1, 2, 3].map(|i| f64::from(row[i]))).collect())
}
