//! Proposals of two rivals for boxes: IoU-Net and ATOM.

use std::ops::Range;

use candle_core::Tensor;
use rand::distr::{Distribution, weighted::WeightedIndex};
use rand::{Rng, RngCore};
use rand_distr::StandardNormal;

use super::Proposal;
use crate::{Error, Result, check, host};

/// IoU-Net's standard deviations of a jitter, in sizes of the box.
const IOU_NET_SIGMAS: [f64; 6] = [0.004, 0.01, 0.05, 0.1, 0.2, 0.3];
/// ATOM's standard deviations of the noise, as factors of √(wh).
const ATOM_SIGMAS: [f64; 5] = [0.01, 0.05, 0.1, 0.2, 0.3];
/// Least IoU of a sample with the true box, for each proposal.
const IOU_NET_OVERLAP: f64 = 0.5;
const ATOM_OVERLAP: f64 = 0.1;
/// Largest number of redraws of a box with a lower IoU, and the factor on the standard deviation at each.
const TRIES: usize = 100;
const SHRINK: f64 = 0.9;
/// Factors of the true size that replace a drawn size that is not positive.
const REPLACEMENT_SIZE: Range<f64> = 0.15..0.5;
/// Bins of the histogram of IoUs in [0, 1].
const BINS: usize = 100;

/// Returns B of the centres `(B, 4)`, if there is at least one sample per centre.
fn checked(center: &Tensor, num_samples: usize) -> Result<usize> {
    let (batch, _) = check::dims2("the proposal's centre", center)?;
    check::dims("the proposal's centre", center, "(B, 4)", &[batch, 4])?;
    check::at_least_one("num_samples", num_samples)?;
    Ok(batch)
}

/// Proposal of IoU-Net (Jiang et al., 2018), the rival of Section 4.1 that learns the IoU. It holds a pool of
/// jitters of a unit box and draws each with probability proportional to 1 / (1 + the number of jitters in its
/// bin of IoU), so that IoUs above ½ are about equally frequent.
///
/// Targets are boxes of [`BoxSpace`](crate::BoxSpace), `(cx/w₀, cy/h₀, log w, log h)`, in units of the true box's
/// size. A jitter is an offset in this space, and its IoU does not depend on the box. The proposal has no
/// density, so it serves [`QualityRegression`](crate::QualityRegression) and not Eq. 4.
#[derive(Clone, Debug)]
pub struct IouStratified {
    offsets: Vec<[f64; 4]>,
    frequencies: WeightedIndex<f64>,
}

impl IouStratified {
    /// Draws a pool of `pool` jitters; IoU-Net has 50 000.
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
        // The weights are positive and finite by construction, and there is at least one.
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
        let batch = checked(center, num_samples)?;
        let draws = (0..batch * num_samples).flat_map(|_| self.offsets[self.frequencies.sample(rng)]);
        let offsets = host::tensor(draws.collect(), (batch, num_samples, 4), center)?;
        Ok(offsets.broadcast_add(&center.unsqueeze(1)?)?)
    }

    /// Returns an error: the pool is a finite set and has no density.
    fn log_prob(&self, _: &Tensor, _: &Tensor) -> Result<Tensor> {
        Err(Error::Unsupported {
            what: "IouStratified::log_prob",
            remedy: "use it with QualityRegression, which needs samples alone, or take a GaussianMixture",
        })
    }
}

/// Draws a jitter of the box with centre 0 and size 1: the offset of its centre and the logarithm of its size.
fn jitter(rng: &mut dyn RngCore) -> [f64; 4] {
    let mut sigma = IOU_NET_SIGMAS[rng.random_range(0..IOU_NET_SIGMAS.len())];
    let mut draw = |sigma: f64| {
        let mut normal = || sigma * rng.sample::<f64, _>(StandardNormal);
        let (center, size) = ([normal(), normal()], [1.0 + normal(), 1.0 + normal()]);
        let size = size.map(|side| if side > 0.0 { side } else { rng.random_range(REPLACEMENT_SIZE) });
        [center[0], center[1], size[0].ln(), size[1].ln()]
    };
    let mut offset = draw(sigma);
    for _ in 0..TRIES {
        if overlap(&offset) > IOU_NET_OVERLAP {
            break;
        }
        sigma *= SHRINK;
        offset = draw(sigma);
    }
    offset
}

/// Returns the intersection over union of the unit box and the box at `offset`.
fn overlap(offset: &[f64; 4]) -> f64 {
    let shared =
        |center: f64, size: f64| ((center + size / 2.0).min(0.5) - (center - size / 2.0).max(-0.5)).max(0.0);
    let (width, height) = (offset[2].exp(), offset[3].exp());
    let intersection = shared(offset[0], width) * shared(offset[1], height);
    intersection / (1.0 + width * height - intersection)
}

/// ATOM's proposal (supplement, Visual Tracking): normal noise of one standard deviation, 0.01 to 0.3 times
/// √(wh), on the centre and the size of the true box, rounded to whole pixels, with an IoU of at least 0.1.
///
/// Targets are y of a [`BoxSpace`](crate::BoxSpace) with the true box's own size. The proposal has no density, so
/// it serves a regression and not Eq. 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerturbedBoxes;

impl Proposal for PerturbedBoxes {
    fn sample(&self, center: &Tensor, num_samples: usize, rng: &mut dyn RngCore) -> Result<Tensor> {
        let batch = checked(center, num_samples)?;
        let mut samples = Vec::with_capacity(batch * num_samples * 4);
        for row in host::values(center)?.chunks_exact(4) {
            // The reference size is the size of the box itself.
            let (w, h) = (row[2].exp(), row[3].exp());
            let target = [row[0] * w, row[1] * h, w, h];
            for _ in 0..num_samples {
                let [cx, cy, width, height] = perturbed(target, rng);
                samples.extend([cx / w, cy / h, width.ln(), height.ln()]);
            }
        }
        host::tensor(samples, (batch, num_samples, 4), center)
    }

    /// Returns an error: rounded boxes have no density.
    fn log_prob(&self, _: &Tensor, _: &Tensor) -> Result<Tensor> {
        Err(Error::Unsupported {
            what: "PerturbedBoxes::log_prob",
            remedy: "use it with SquaredQualityRegression, which needs samples alone, or take a GaussianMixture",
        })
    }
}

/// Draws a perturbation of the box (cx, cy, w, h), in the same form.
fn perturbed(target: [f64; 4], rng: &mut dyn RngCore) -> [f64; 4] {
    let [_, _, w, h] = target;
    let mut sigma = ATOM_SIGMAS[rng.random_range(0..ATOM_SIGMAS.len())] * (w * h).sqrt();
    let mut result = target;
    for _ in 0..TRIES {
        result = draw(target, sigma, rng);
        if overlap(&offset(target, result)) >= ATOM_OVERLAP {
            break;
        }
        sigma *= SHRINK;
    }
    result
}

fn draw(target: [f64; 4], sigma: f64, rng: &mut dyn RngCore) -> [f64; 4] {
    let [cx, cy, width, height] = target.map(|value| value + sigma * rng.sample::<f64, _>(StandardNormal));
    let mut size = |size: f64, own: f64| {
        if size > 1.0 { size.round() } else { (own * rng.random_range(REPLACEMENT_SIZE)).round().max(1.0) }
    };
    let (width, height) = (size(width, target[2]), size(height, target[3]));
    let (left, top) = ((cx - 0.5 * width).round(), (cy - 0.5 * height).round());
    [left + 0.5 * width, top + 0.5 * height, width, height]
}

/// Returns the offset between two boxes (cx, cy, w, h), in units of the size of `from`.
fn offset(from: [f64; 4], to: [f64; 4]) -> [f64; 4] {
    let [cx, cy, w, h] = from;
    [(to[0] - cx) / w, (to[1] - cy) / h, (to[2] / w).ln(), (to[3] / h).ln()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BoxSpace, TargetSpace};
    use candle_core::{DType, Device};
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

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

    #[test]
    fn samples_are_whole_boxes_that_overlap() {
        let boxes =
            Tensor::new(&[[[20.0, 30.0, 61.0, 54.5]], [[7.25, 8.0, 40.5, 30.0]]], &Device::Cpu).unwrap();
        let space = BoxSpace::new(&boxes).unwrap();
        let y = space.encode(&boxes).unwrap().squeeze(1).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let samples = PerturbedBoxes.sample(&y, 400, &mut rng).unwrap();
        let decoded = space.decode(&samples).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap();
        assert!(decoded.iter().all(|value| (value - value.round()).abs() < 1e-9), "{decoded:?}");
        let offsets = samples.broadcast_sub(&y.unsqueeze(1).unwrap()).unwrap().to_vec3::<f64>().unwrap();
        for offsets in offsets {
            let overlaps: Vec<f64> = offsets.iter().map(|o| overlap(&[o[0], o[1], o[2], o[3]])).collect();
            assert!(overlaps.iter().all(|overlap| *overlap >= 0.0999));
            // Some samples are near and some are far.
            assert!(overlaps.iter().any(|overlap| *overlap > 0.85));
            assert!(overlaps.iter().any(|overlap| *overlap < 0.4));
        }
        assert!(PerturbedBoxes.log_prob(&samples, &y).is_err());
        assert!(PerturbedBoxes.sample(&y, 0, &mut rng).is_err());
        assert!(PerturbedBoxes.sample(&samples, 1, &mut rng).is_err());
    }

    #[test]
    fn a_box_of_less_than_a_pixel_still_has_samples() {
        let boxes = Tensor::new(&[[[20.0, 30.0, 20.5, 30.4]]], &Device::Cpu).unwrap();
        let y = BoxSpace::new(&boxes).unwrap().encode(&boxes).unwrap().squeeze(1).unwrap();
        let samples = PerturbedBoxes.sample(&y, 50, &mut ChaCha8Rng::seed_from_u64(1)).unwrap();
        let sum = samples.to_dtype(DType::F64).unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap();
        assert!(sum.is_finite());
    }
}
