//! p(y | x) of a box as the paper's Figure 1 shows it: where a corner may lie, and where each edge.
//!
//! Importance samples of the four coordinates together, about the refined box, from Eq. 5's mixture, give both.

use candle_core::{DType, Device, Tensor};
use ebm_core::{
    DensityMap, EnergyModel, GaussianMixture, GridDensity, ImportanceDensity, Region, WeightedSamples,
};
use ebm_data::loader::Sample;
use ebm_experiment::{CalibratedEdge, edge_regions};
use ebm_ops::boxes::BoxConvention;
use rand::RngCore;

use crate::{Result, energy_head::BoxFeatures, input::original_pixel};

/// One of the four corners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    /// Left and top edge.
    TopLeft,
    /// Right and top edge, the corner of Figure 1.
    TopRight,
    /// Left and bottom edge.
    BottomLeft,
    /// Right and bottom edge.
    BottomRight,
}

impl Corner {
    /// The places of its x and y in `[left, top, right, bottom]`.
    pub fn coordinates(self) -> [usize; 2] {
        match self {
            Self::TopLeft => [0, 1],
            Self::TopRight => [2, 1],
            Self::BottomLeft => [0, 3],
            Self::BottomRight => [2, 3],
        }
    }
}

/// Weighted samples of p(y | x) about one box, as edges in pixels: `[left, top, right, bottom]` with
/// exclusive ends.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxDensity {
    edges: WeightedSamples<4>,
    /// Columns and rows of the image, where edges end at its border.
    bounds: Option<[f64; 2]>,
    /// What a calibration knows of each edge.
    calibrated: Option<[CalibratedEdge; 4]>,
}

impl BoxDensity {
    /// The least effective sample size at which intervals mean what they say: of 100 draws, the share in an
    /// interval of probability 0.9 has a standard error of √(0.9 · 0.1 / 100) = 0.03.
    pub const ENOUGH: f64 = 100.0;

    /// The probability of [`edge_intervals`](Self::edge_intervals).
    pub const LEVEL: f64 = 0.9;

    /// The density about the one box of `features`, from samples that [adapt](ImportanceDensity::adaptive) to it in
    /// the coordinates of f, `(c_x/w, c_y/h, log w, log h)` with the box's own size as reference. The first are
    /// of `proposal`, the mixture of Eq. 5 as in training.
    ///
    /// # Errors
    /// Those of [`ImportanceDensity::adaptive`].
    pub fn about<M: EnergyModel<Features = BoxFeatures>>(
        head: &M,
        features: &BoxFeatures,
        proposal: &GaussianMixture,
        num_samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<Self> {
        let center = features.targets()?.squeeze(1)?;
        let density = ImportanceDensity::adaptive(head, features, proposal, &center, num_samples, rng)?;
        let samples: Vec<f64> = density.samples().flatten().copied().collect();
        let samples = Tensor::from_vec(samples, (1, num_samples, 4), &Device::Cpu)?;
        let samples = samples.to_dtype(center.dtype())?.to_device(center.device())?;
        let edges =
            features.continuous_corners(&samples)?.squeeze(0)?.to_dtype(DType::F64)?.to_vec2::<f64>()?;
        let edges = edges.iter().map(|e| [e[0], e[1], e[2], e[3]]).collect();
        Ok(Self { edges: WeightedSamples::new(&density, edges)?, bounds: None, calibrated: None })
    }

    /// The same in the image that became the input `sample`, as [`to_original`](crate::input::to_original) takes
    /// boxes of that convention there; edges end at its border where `clips` is true.
    pub(crate) fn in_image(self, sample: &Sample, convention: BoxConvention, clips: bool) -> Self {
        let (factors, end) = (original_pixel(sample), f64::from(convention.offset()));
        let ends = [0.0, 0.0, end, end];
        let scaled = |edges: [f64; 4]| {
            [0, 1, 2, 3].map(|place| (edges[place] - ends[place]) * factors[place % 2] + ends[place])
        };
        let (height, width) = sample.original;
        let bounds = clips.then_some([width as f64, height as f64]);
        Self { edges: self.edges.map(scaled), bounds, ..self }
    }

    /// The same with [`edge_intervals`](Self::edge_intervals) of a calibration: of left, top, right and bottom
    /// in pixels.
    #[must_use]
    pub fn calibrated(self, edges: [CalibratedEdge; 4]) -> Self {
        Self { calibrated: Some(edges), ..self }
    }

    /// Whether a calibration tells how wide intervals have to be.
    pub fn is_calibrated(&self) -> bool {
        self.calibrated.is_some()
    }

    /// Where each edge lies with probability `level` as p(y | x) says, the smallest sets: left, top, right,
    /// bottom.
    ///
    /// # Errors
    /// When `level` is not between 0 and 1, or the samples have no spread.
    pub fn edge_regions(&self, level: f64) -> Result<[Region; 4]> {
        Ok(self.bounded(edge_regions(&self.edges, level)?))
    }

    /// Where each edge lies with probability 0.9, left, top, right, bottom: what p(y | x) says, or, where
    /// there is a calibration, what holds as often as it says on images like those of the calibration.
    ///
    /// # Errors
    /// When the samples have no spread.
    pub fn edge_intervals(&self) -> Result<[Region; 4]> {
        let mut regions = self.edge_regions(Self::LEVEL)?;
        for (region, calibrated) in regions.iter_mut().zip(self.calibrated.into_iter().flatten()) {
            region.intervals = vec![calibrated.interval(region)];
        }
        Ok(self.bounded(regions))
    }

    fn bounded(&self, mut regions: [Region; 4]) -> [Region; 4] {
        for (place, region) in regions.iter_mut().enumerate() {
            if let Some(size) = self.bounds {
                let ends = region.intervals.iter_mut().flatten();
                ends.for_each(|end| *end = end.clamp(0.0, size[place % 2]));
            }
        }
        regions
    }

    /// From 1 to M: as many draws from p itself would be about as good.
    pub fn effective_sample_size(&self) -> f64 {
        self.edges.effective_sample_size()
    }

    /// Whether the intervals are to be believed: from [`ENOUGH`](Self::ENOUGH) effective samples on.
    pub fn is_reliable(&self) -> bool {
        self.effective_sample_size() >= Self::ENOUGH
    }

    /// The samples and their weights, whose sum is 1.
    pub fn samples(&self) -> impl Iterator<Item = (&[f64; 4], f64)> {
        self.edges.iter()
    }

    /// The marginal density of one edge: 0 left, 1 top, 2 right, 3 bottom.
    ///
    /// # Errors
    /// As [`WeightedSamples::marginal`].
    pub fn edge(&self, edge: usize) -> Result<GridDensity> {
        Ok(self.edges.marginal(edge)?)
    }

    /// The marginal density of a corner, over `size` points along each side of what the samples reach.
    ///
    /// # Errors
    /// As [`WeightedSamples::joint`].
    pub fn corner(&self, corner: Corner, size: usize) -> Result<DensityMap> {
        Ok(self.edges.joint(corner.coordinates(), size)?)
    }
}

#[cfg(test)]
mod tests;
