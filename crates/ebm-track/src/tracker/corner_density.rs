//! What the paper's Figure 1 and its supplement show: p(y|x) over the places of one corner.

use candle_core::{Device, Tensor};
use ebm_data::patch::PatchGeometry;
use ebm_data::sequences::Rect;

use crate::box_module::{BoxNetwork, TestFeatures};
use crate::error::Result;

/// p(y|x) over a grid of top-right corners, the bottom-left corner being fixed; the numbers sum to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct CornerDensity {
    /// The grid's points (x, y) in the first row and column …
    pub first: [f64; 2],
    /// … and the step (x, y) between them.
    pub step: [f64; 2],
    /// Points along each side.
    pub size: usize,
    /// In rows.
    pub p: Vec<f64>,
}

/// How far the grid reaches beyond the box, in its own sides.
const REACH: f64 = 0.75;

impl CornerDensity {
    /// Over corners up to three quarters of a side away from that of `bbox`, in the crop.
    pub(super) fn new<B: BoxNetwork>(
        network: &B,
        features: &TestFeatures,
        bbox: Rect,
        size: usize,
        device: &Device,
    ) -> Result<Self> {
        let [x, y, width, height] = bbox;
        let (left, bottom) = (x, y + height);
        let size = size.max(2);
        let step = [width, height].map(|side| 2.0 * REACH * side / (size - 1) as f64);
        let first = [x + width - REACH * width, y - REACH * height];
        let corners = (0..size * size).flat_map(|i| {
            let right = first[0] + step[0] * (i % size) as f64;
            let top = first[1] + step[1] * (i / size) as f64;
            [left, top, right, bottom].map(|number| number as f32)
        });
        let corners = Tensor::from_vec(corners.collect(), (1, size * size, 4), device)?;
        let f: Vec<f32> =
            network.corner_scores(features, &corners)?.flatten_all()?.to_device(&Device::Cpu)?.to_vec1()?;
        let highest = f.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let p: Vec<f64> = f.iter().map(|f| f64::from(f - highest).exp()).collect();
        let sum: f64 = p.iter().sum();
        Ok(Self { first, step, size, p: p.iter().map(|p| p / sum).collect() })
    }

    /// The same over the image.
    pub(super) fn in_image(self, geometry: &PatchGeometry) -> Self {
        let [x, y] = self.first;
        let [y, x] = geometry.to_image([y, x]);
        // From centres of pixels to the box's own coordinates, in which its last column ends.
        Self { first: [x + 0.5, y + 0.5], step: self.step.map(|step| step * geometry.scale()), ..self }
    }
}
