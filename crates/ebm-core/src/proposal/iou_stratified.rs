//! IoU-Net's proposal: boxes spread evenly over their overlap with the true box.

use candle_core::Tensor;
use rand::distr::{Distribution, weighted::WeightedIndex};
use rand::{Rng, RngCore};
use rand_distr::StandardNormal;

use super::Proposal;
use crate::{Error, Result, check, host};

/// The factors on the unit box's size from which a jitter's standard deviation is drawn.
const SIGMAS: [f64; 6] = [0.004, 0.01, 0.05, 0.1, 0.2, 0.3];
/// The least overlap that a jitter should have.
const MIN_OVERLAP: f64 = 0.5;
/// How often a jitter with less overlap is drawn again.
const RETRIES: usize = 100;
/// The factor on the standard deviation with every such retry.
const SHRINK: f64 = 0.9;
/// The range of sizes that stand in for a size drawn below 0.
const STAND_IN_SIZE: std::ops::Range<f64> = 0.15..0.5;
/// Bins of the histogram of overlaps in [0, 1].
const BINS: usize = 100;

/// The proposal of IoU-Net (Jiang et al., 2018), the rival of Section 4.1 that learns an overlap: a pool of
/// jitters of a unit box, drawn with probability 1 / (1 + the number of jitters in its bin of overlap), so
/// that overlaps above ½ are about equally frequent.
///
/// Targets are boxes of [`BoxSpace`](crate::BoxSpace), `(cx/w₀, cy/h₀, log w, log h)` in units of the true
/// box's own size, where a jitter is an offset and its overlap does not depend on the box. It has samples but
/// no density, so that it serves [`QualityRegression`](crate::QualityRegression) and not Eq. 4.
#[derive(Clone, Debug)]
pub struct IouStratified {
    offsets: Vec<[f64; 4]>,
    frequencies: WeightedIndex<f64>,
}

impl IouStratified {
    /// Draws the pool; IoU-Net's has 50 000 jitters.
    ///
    /// # Errors
    /// [`Error::Setting`] when `pool` is 0.
    pub fn new(pool: usize, rng: &mut dyn RngCore) -> Result<Self> {
        check::at_least_one("pool", pool)?;
        let offsets: Vec<[f64; 4]> = (0..pool).map(|_| jitter(rng)).collect();
        let bins: Vec<usize> =
            offsets.iter().map(|o| ((overlap(o) * BINS as f64) as usize).min(BINS - 1)).collect();
        let mut histogram = [0usize; BINS];
        bins.iter().for_each(|&bin| histogram[bin] += 1);
        let weights = bins.iter().map(|&bin| 1.0 / (histogram[bin] as f64 + 1.0));
        // Positive and finite by construction, and not empty.
        let frequencies = WeightedIndex::new(weights).map_err(|error| Error::Setting {
            name: "pool",
            value: error.to_string(),
            expected: "a number of jitters with positive frequencies",
        })?;
        Ok(Self { offsets, frequencies })
    }
}

impl Proposal for IouStratified {
    fn sample(&self, center: &Tensor, num_samples: usize, rng: &mut dyn RngCore) -> Result<Tensor> {
        let (batch, _) = check::dims2("the proposal's centre", center)?;
        check::dims("the proposal's centre", center, "(B, 4)", &[batch, 4])?;
        check::at_least_one("num_samples", num_samples)?;
        let draws = (0..batch * num_samples).flat_map(|_| self.offsets[self.frequencies.sample(rng)]);
        let offsets = host::tensor(draws.collect(), (batch, num_samples, 4), center)?;
        Ok(offsets.broadcast_add(&center.unsqueeze(1)?)?)
    }

    /// Always an error: the pool is a finite set and has no density.
    fn log_prob(&self, _: &Tensor, _: &Tensor) -> Result<Tensor> {
        Err(Error::Unsupported {
            what: "IouStratified::log_prob",
            remedy: "use it with QualityRegression, which needs samples alone, or take a GaussianMixture",
        })
    }
}

/// One jitter of the box with centre 0 and size 1: the offset of its centre and the logarithm of its size.
fn jitter(rng: &mut dyn RngCore) -> [f64; 4] {
    let mut sigma = SIGMAS[rng.random_range(0..SIGMAS.len())];
    let mut draw = |sigma: f64| {
        let mut normal = || sigma * rng.sample::<f64, _>(StandardNormal);
        let (center, size) = ([normal(), normal()], [1.0 + normal(), 1.0 + normal()]);
        let size = size.map(|side| if side > 0.0 { side } else { rng.random_range(STAND_IN_SIZE) });
        [center[0], center[1], size[0].ln(), size[1].ln()]
    };
    let mut offset = draw(sigma);
    for _ in 0..RETRIES {
        if overlap(&offset) > MIN_OVERLAP {
            break;
        }
        sigma *= SHRINK;
        offset = draw(sigma);
    }
    offset
}

/// Intersection over union of the unit box and the box at this offset. The crate knows no boxes but these.
pub(super) fn overlap(offset: &[f64; 4]) -> f64 {
    let shared =
        |center: f64, size: f64| ((center + size / 2.0).min(0.5) - (center - size / 2.0).max(-0.5)).max(0.0);
    let (width, height) = (offset[2].exp(), offset[3].exp());
    let intersection = shared(offset[0], width) * shared(offset[1], height);
    intersection / (1.0 + width * height - intersection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overlap_of_known_boxes() {
        let cases = [
            ([0.0, 0.0, 0.0, 0.0], 1.0),
            ([0.5, 0.0, 0.0, 0.0], 1.0 / 3.0),
            ([0.5, 0.5, 0.0, 0.0], 1.0 / 7.0),
            ([0.0, 0.0, 2f64.ln(), 0.0], 0.5),
            ([2.0, 0.0, 0.0, 0.0], 0.0),
        ];
        for (offset, expected) in cases {
            assert!((overlap(&offset) - expected).abs() < 1e-15, "{offset:?}");
        }
    }
}
