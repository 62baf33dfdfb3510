//! p(y|x) of the target's box in a frame: regions of its edges, and its expected overlap.

use candle_core::{DType, Device, Tensor};
use ebm_core::{AdaptiveSampler, Anchored, DensityMap, Region, Tempered, WeightedSamples};
use ebm_data::patch::PatchGeometry;
use ebm_data::rect::overlap;
use ebm_data::sequences::Rect;
use ebm_experiment::{CalibratedEdge, edge_regions, edges_of};
use rand::RngCore;

use super::target::Target;
use crate::Result;
use crate::box_module::{BoxNetwork, TargetFeatures, TestFeatures, rects};
use crate::saved::DensityConfig;

/// Weighted samples of p(y|x) about a target's box, as left, top, right and bottom edge in pixels of the image.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxDensity {
    edges: WeightedSamples<4>,
    /// Calibration of each edge, if there is one.
    calibrated: Option<[CalibratedEdge; 4]>,
}

impl BoxDensity {
    /// Draws samples about the box `bbox` of the crop with these features. They [adapt](AdaptiveSampler) to the density,
    /// which is [`Anchored`] to the box with the standard deviations of the proposal's widest component.
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
        let DensityConfig { proposal, temperature, factors } = config;
        let model = Tempered::new(network, *temperature)?;
        let model = Anchored::new(&model, &center, &proposal.widest())?;
        let sampler = AdaptiveSampler::new(num_samples);
        let density = sampler.densities(&model, &features, proposal, &center, rng)?.swap_remove(0);
        let y: Vec<f32> = density.samples().flatten().map(|&number| number as f32).collect();
        let y = Tensor::from_vec(y, (1, (), 4), &Device::Cpu)?.to_device(center.device())?;
        let in_image = |boxes: &Tensor| -> Result<Vec<Rect>> {
            let boxes = rects(&boxes.to_dtype(DType::F32)?)?.into_iter();
            Ok(boxes.map(|bbox| Target::of_patch(bbox, geometry).rect()).collect())
        };
        let edges = in_image(&features.decode(&y)?.squeeze(0)?)?.into_iter().map(edges_of).collect();
        let calibrated = match (factors, in_image(bbox)?.first()) {
            (Some(factors), Some(bbox)) => Some(CalibratedEdge::of_box(*bbox, *factors)),
            _ => None,
        };
        Ok(Self { edges: WeightedSamples::new(&density, edges)?, calibrated })
    }

    /// Probability of [`bands`](Self::bands).
    pub const LEVEL: f64 = 0.9;

    /// Returns the smallest region of the left, top, right and bottom edge that has probability `level` under p(y|x).
    ///
    /// # Errors
    /// When `level` is not between 0 and 1, or the samples have no spread.
    pub fn edge_regions(&self, level: f64) -> Result<[Region; 4]> {
        Ok(edge_regions(&self.edges, level)?)
    }

    /// Returns a region of each edge with probability 0.9. With a calibration, the region is an interval about the
    /// box's edge, scaled to contain 90 % of the edges in the calibration videos. Without one, p(y|x) gives the region.
    ///
    /// # Errors
    /// When the samples have no spread.
    pub fn bands(&self) -> Result<[Region; 4]> {
        let mut regions = self.edge_regions(Self::LEVEL)?;
        for (region, calibrated) in regions.iter_mut().zip(self.calibrated.into_iter().flatten()) {
            region.intervals = vec![calibrated.interval(region)];
        }
        Ok(regions)
    }

    /// Returns the expected overlap E[IoU(Y, `bbox`)] under p(y|x).
    pub fn expected_overlap(&self, bbox: Rect) -> f64 {
        self.edges.expectation(|[left, top, right, bottom]| {
            overlap(&[*left, *top, right - left, bottom - top], &bbox)
        })
    }

    /// Returns the density of the top-right corner, as in the paper's Figure 1, on `size` points along each side of the
    /// range of the samples.
    ///
    /// # Errors
    /// When the samples have no spread.
    pub fn corner(&self, size: usize) -> Result<DensityMap> {
        Ok(self.edges.joint([2, 1], size)?)
    }

    /// Returns the effective sample size, from 1 to M: the number of draws from p with about the same accuracy.
    pub fn effective_sample_size(&self) -> f64 {
        self.edges.effective_sample_size()
    }
}
