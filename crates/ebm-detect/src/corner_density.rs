//! Densities of a box's corners and edges under p(y | x), as in Figure 1 of the paper.
//!
//! Both come from importance samples of all four coordinates around the refined box, proposed by Eq. 5's mixture.

use candle_core::{DType, Device, Tensor};
use ebm_core::{
    AdaptiveSampler, Anchored, DensityMap, EnergyModel, GaussianMixture, GridDensity, Region, WeightedSamples,
};
use ebm_data::loader::Sample;
use ebm_experiment::{CalibratedEdge, edge_regions};
use ebm_ops::boxes::BoxConvention;
use rand::RngCore;

use crate::{Result, energy_head::BoxFeatures, input::original_pixel};

/// Corner of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    /// Corner of the left and top edges.
    TopLeft,
    /// Corner of the right and top edges, which Figure 1 shows.
    TopRight,
    /// Corner of the left and bottom edges.
    BottomLeft,
    /// Corner of the right and bottom edges.
    BottomRight,
}

impl Corner {
    /// Returns the indices of the corner's x and y in `[left, top, right, bottom]`.
    pub fn coordinates(self) -> [usize; 2] {
        match self {
            Self::TopLeft => [0, 1],
            Self::TopRight => [2, 1],
            Self::BottomLeft => [0, 3],
            Self::BottomRight => [2, 3],
        }
    }
}

/// Weighted samples of p(y | x) around one box, as edges `[left, top, right, bottom]` in pixels, with
/// exclusive ends.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxDensity {
    edges: WeightedSamples<4>,
    /// Logarithm of Z, in nats.
    log_z: f64,
    /// Width and height of the image that edges are clipped to; `None` for no clipping.
    bounds: Option<[f64; 2]>,
    /// Calibration of each edge.
    calibrated: Option<[CalibratedEdge; 4]>,
}

impl BoxDensity {
    /// Least effective sample size for reliable intervals: among 100 draws, the share in an interval of
    /// probability 0.9 has a standard error of √(0.9 · 0.1 / 100) = 0.03.
    pub const ENOUGH: f64 = 100.0;

    /// Probability of [`edge_intervals`](Self::edge_intervals).
    pub const LEVEL: f64 = 0.9;

    /// Estimates the density around the one box of `features` by [adaptive](AdaptiveSampler) importance sampling in the
    /// coordinates of f, `(c_x/w, c_y/h, log w, log h)` with the box's own size as reference. The first samples come
    /// from `proposal`, the mixture of Eq. 5 used in training. The density is [`Anchored`] to the box, with the standard
    /// deviations of the mixture's widest component.
    ///
    /// # Errors
    /// As [`AdaptiveSampler::densities`].
    pub fn about<M: EnergyModel<Features = BoxFeatures>>(
        head: &M,
        features: &BoxFeatures,
        proposal: &GaussianMixture,
        num_samples: usize,
        rng: &mut dyn RngCore,
    ) -> Result<Self> {
        let center = features.targets()?.squeeze(1)?;
        let sampler = AdaptiveSampler::new(num_samples);
        let head = anchored(head, features, proposal)?;
        let density = sampler.densities(&head, features, proposal, &center, rng)?.swap_remove(0);
        let samples: Vec<f64> = density.samples().flatten().copied().collect();
        let samples = Tensor::from_vec(samples, (1, (), 4), &Device::Cpu)?;
        let samples = samples.to_dtype(center.dtype())?.to_device(center.device())?;
        let edges =
            features.continuous_corners(&samples)?.squeeze(0)?.to_dtype(DType::F64)?.to_vec2::<f64>()?;
        let edges = edges.iter().map(|e| [e[0], e[1], e[2], e[3]]).collect();
        let (edges, log_z) = (WeightedSamples::new(&density, edges)?, density.log_z());
        Ok(Self { edges, log_z, bounds: None, calibrated: None })
    }

    /// Converts the samples from the network's input to pixels of the image that `sample` describes, as
    /// [`to_original`](crate::input::to_original) converts boxes of this convention. With `clips`, edges are clipped.
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

    /// Returns the density with calibrated [`edge_intervals`](Self::edge_intervals); `edges` are the calibrations of
    /// left, top, right and bottom, in pixels.
    #[must_use]
    pub fn calibrated(self, edges: [CalibratedEdge; 4]) -> Self {
        Self { calibrated: Some(edges), ..self }
    }

    /// Returns `true` if the intervals are calibrated.
    pub fn is_calibrated(&self) -> bool {
        self.calibrated.is_some()
    }

    /// Returns the smallest set that holds each edge with probability `level` under p(y | x): left, top, right,
    /// bottom.
    ///
    /// # Errors
    /// When `level` is not between 0 and 1, or the samples have no spread.
    pub fn edge_regions(&self, level: f64) -> Result<[Region; 4]> {
        Ok(self.bounded(edge_regions(&self.edges, level)?))
    }

    /// Returns an interval for each edge with probability 0.9: left, top, right, bottom. A calibrated interval has this
    /// probability on images like the calibration's; without a calibration, the probability is under p(y | x).
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

    /// Returns the effective sample size, from 1 to M: the number of draws from p itself of about the same accuracy.
    pub fn effective_sample_size(&self) -> f64 {
        self.edges.effective_sample_size()
    }

    /// Returns `true` if the effective sample size is at least [`ENOUGH`](Self::ENOUGH).
    pub fn is_reliable(&self) -> bool {
        self.effective_sample_size() >= Self::ENOUGH
    }

    /// Returns log p(y | x), in nats, of a box in the coordinates of f, given its anchored score `f`.
    pub(crate) fn log_prob(&self, f: f64) -> f64 {
        f - self.log_z
    }

    /// Returns the samples with their weights, which sum to 1.
    pub fn samples(&self) -> impl Iterator<Item = (&[f64; 4], f64)> {
        self.edges.iter()
    }

    /// Returns the marginal density of one edge: 0 left, 1 top, 2 right, 3 bottom.
    ///
    /// # Errors
    /// As [`WeightedSamples::marginal`].
    pub fn edge(&self, edge: usize) -> Result<GridDensity> {
        Ok(self.edges.marginal(edge)?)
    }

    /// Returns the marginal density of a corner on a grid of `size` × `size` points over the samples' range.
    ///
    /// # Errors
    /// As [`WeightedSamples::joint`].
    pub fn corner(&self, corner: Corner, size: usize) -> Result<DensityMap> {
        Ok(self.edges.joint(corner.coordinates(), size)?)
    }
}

/// Returns the model of [`BoxDensity::about`].
pub(crate) fn anchored<'a, M: EnergyModel>(
    head: &'a M,
    features: &BoxFeatures,
    proposal: &GaussianMixture,
) -> Result<Anchored<'a, M>> {
    Ok(Anchored::new(head, &features.targets()?.squeeze(1)?, &proposal.widest())?)
}

#[cfg(test)]
mod tests;
