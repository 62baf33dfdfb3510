//! p(y|x) of the target's box in a frame: where each edge may lie, and how much of the box is right.

use candle_core::{DType, Device, Tensor};
use ebm_core::{DensityMap, ImportanceDensity, Region, Tempered, WeightedSamples};
use ebm_data::patch::PatchGeometry;
use ebm_data::rect::overlap;
use ebm_data::sequences::Rect;
use rand::RngCore;

use super::target::Target;
use crate::box_module::{BoxNetwork, TargetFeatures, TestFeatures, rects};
use crate::error::Result;
use crate::saved::DensityConfig;

/// Weighted samples of p(y|x) about a target's box, as edges in pixels of the image: left, top, right and
/// bottom.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxDensity {
    edges: WeightedSamples<4>,
}

impl BoxDensity {
    /// About the box `bbox` of the crop with these features, of samples that
    /// [adapt](ImportanceDensity::adaptive) to it.
    pub(super) fn about<B: BoxNetwork>(
        network: &B,
        features: TestFeatures,
        bbox: &Tensor,
        geometry: &PatchGeometry,
        config: &DensityConfig,
        num_samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<Self> {
        let features = TargetFeatures::new(features, bbox)?;
        let center = features.encode(&bbox.unsqueeze(1)?)?.squeeze(1)?;
        let DensityConfig { proposal, temperature } = config;
        let model = Tempered::new(network, *temperature)?;
        let density = ImportanceDensity::adaptive(&model, &features, proposal, &center, num_samples, rng)?;
        let y: Vec<f32> = density.samples().flatten().map(|&number| number as f32).collect();
        let y = Tensor::from_vec(y, (1, num_samples, 4), &Device::Cpu)?.to_device(center.device())?;
        let boxes = rects(&features.decode(&y)?.squeeze(0)?.to_dtype(DType::F32)?)?;
        let edges = boxes.into_iter().map(|bbox| edges(Target::of_patch(bbox, geometry).rect()));
        Ok(Self { edges: WeightedSamples::new(&density, edges.collect())? })
    }

    /// Where each edge lies with probability `level`, the smallest sets: left, top, right, bottom.
    ///
    /// # Errors
    /// When `level` is not between 0 and 1, or the samples have no spread.
    pub fn edge_regions(&self, level: f64) -> Result<[Region; 4]> {
        let region =
            |edge| -> Result<Region> { Ok(self.edges.marginal(edge)?.highest_density_region(level)?) };
        Ok([region(0)?, region(1)?, region(2)?, region(3)?])
    }

    /// E[IoU(Y, `bbox`)]: how much of the box is right if f is.
    pub fn expected_overlap(&self, bbox: Rect) -> f64 {
        self.edges.expectation(|[left, top, right, bottom]| {
            overlap(&[*left, *top, right - left, bottom - top], &bbox)
        })
    }

    /// The density of the top-right corner, which the paper's Figure 1 shows, over `size` points along each
    /// side of what the samples reach.
    ///
    /// # Errors
    /// When the samples have no spread.
    pub fn corner(&self, size: usize) -> Result<DensityMap> {
        Ok(self.edges.joint([2, 1], size)?)
    }

    /// From 1 to M: as many draws from p itself would be about as good.
    pub fn effective_sample_size(&self) -> f64 {
        self.edges.effective_sample_size()
    }
}

/// Left, top, right and bottom of a box.
fn edges([x, y, width, height]: Rect) -> [f64; 4] {
    [x, y, x + width, y + height]
}
