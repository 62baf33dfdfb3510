//! p(y|x) of the target's box in a frame: where each edge may lie, and how much of the box is right.

use candle_core::{DType, Device, Tensor};
use ebm_core::{DensityMap, ImportanceDensity, Region, Tempered, WeightedSamples};
use ebm_data::patch::PatchGeometry;
use ebm_data::rect::overlap;
use ebm_data::sequences::Rect;
use ebm_experiment::{CalibratedEdge, edge_regions, edges_of};
use rand::RngCore;

use super::target::Target;
use crate::Result;
use crate::box_module::{BoxNetwork, TargetFeatures, TestFeatures, rects};
use crate::saved::DensityConfig;

/// Weighted samples of p(y|x) about a target's box, as edges in pixels of the image: left, top, right and
/// bottom.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxDensity {
    edges: WeightedSamples<4>,
    /// What a calibration knows of each edge.
    calibrated: Option<[CalibratedEdge; 4]>,
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
        let DensityConfig { proposal, temperature, factors } = config;
        let model = Tempered::new(network, *temperature)?;
        let density = ImportanceDensity::adaptive(&model, &features, proposal, &center, num_samples, rng)?;
        let y: Vec<f32> = density.samples().flatten().map(|&number| number as f32).collect();
        let y = Tensor::from_vec(y, (1, num_samples, 4), &Device::Cpu)?.to_device(center.device())?;
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

    /// The probability of [`bands`](Self::bands).
    pub const LEVEL: f64 = 0.9;

    /// Where each edge lies with probability `level` as p(y|x) says, the smallest sets: left, top, right,
    /// bottom.
    ///
    /// # Errors
    /// When `level` is not between 0 and 1, or the samples have no spread.
    pub fn edge_regions(&self, level: f64) -> Result<[Region; 4]> {
        Ok(edge_regions(&self.edges, level)?)
    }

    /// Where each edge lies with probability 0.9: what p(y|x) says, or, where there is a calibration, as wide
    /// about the box's own edges as held them so often on videos like those of the calibration.
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
