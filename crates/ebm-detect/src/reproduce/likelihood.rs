//! Log-likelihood of annotated boxes under the densities of Table 2.

use candle_core::{DType, Tensor};
use ebm_base::Key;
use ebm_core::{AdaptiveSampler, EnergyModel, GaussianMixture};
use ebm_ops::boxes::{BBox, area, iou};
use ebm_train::Progress;
use rand::RngCore;

use super::setup::{Setup, Trained};
use crate::box_coder::BoxCoder;
use crate::box_head::ScoredProposals;
use crate::branch::Branch;
use crate::corner_density::anchored;
use crate::energy_head::{BoxFeatures, EnergyHead};
use crate::inference::{BoxAscent, climb};
use crate::input::objects;
use crate::{FasterRcnn, ImageBatch, Result};

/// Largest number of annotated boxes.
const BOXES: usize = 2000;
/// Number of samples for each density of an energy model: enough for a mean over boxes.
const SAMPLES: usize = 256;
/// Least overlap of the detector's box with the annotated one.
const OVERLAP: f32 = 0.5;

/// Annotated box that the detector found.
struct FoundBox {
    /// Place of its pair in [`ScoredProposals::pairs`].
    pair: usize,
    image: u32,
    label: usize,
    /// Box by the detector's own regression.
    own: BBox,
    annotated: BBox,
    /// Offsets of the annotated box from the proposal.
    offsets: [f32; 4],
    /// Logarithm of the volume that the offsets have for each unit of the coordinates of [`log_probs`].
    log_volume: f64,
}

/// Returns log p(y | x), in nats, of the same annotated boxes in test images under the density of each of `trained`;
/// none for a method without a density. Boxes are points `(c_x/w, c_y/h, log w, log h)`, with the size of the detector's
/// own box as w and h. The boxes are the first [`BOXES`] that a box of their class overlaps by [`OVERLAP`]; the density is
/// that of the box with the best score, for an energy model [`Anchored`](ebm_core::Anchored) to the refined one.
pub(super) fn log_probs(
    setup: &Setup,
    trained: &[Trained],
    progress: &mut dyn Progress,
) -> Result<Vec<Option<Vec<f64>>>> {
    let has_density =
        |one: &Trained| matches!(one.branch, Branch::Density(_)) || energy_density(one).is_some();
    let mut all: Vec<Option<Vec<f64>>> = trained.iter().map(|one| has_density(one).then(Vec::new)).collect();
    if all.iter().all(Option::is_none) {
        return Ok(all);
    }
    let (images, detector, mut seen, mut count) = (&setup.images.test, &setup.detector, 0, 0);
    progress.begin("log-likelihoods", images.dataset.images.len());
    for (number, batch) in (0u64..).zip(images.loader(&detector.config().input)?.epoch(0)?) {
        if count >= BOXES {
            break;
        }
        let batch = batch?;
        let input = ImageBatch::new(&batch, &setup.study.device)?;
        let pyramid = detector.features(&input.pixels, false)?;
        let scored = detector.scored(&pyramid, &input)?;
        let convention = detector.config().convention;
        let annotated = batch.samples.iter().map(|sample| objects(sample, convention));
        let annotated = (0u32..).zip(annotated).flat_map(|(image, objects)| {
            objects.boxes.into_iter().zip(objects.classes).map(move |(bbox, class)| (image, bbox, class))
        });
        let mut found = found_boxes(detector, &scored, annotated)?;
        found.truncate(BOXES - count);
        (seen, count) = (seen + batch.samples.len(), count + found.len());
        progress.advance(seen, "");
        if found.is_empty() {
            continue;
        }
        for (one, all) in trained.iter().zip(&mut all) {
            let Some(all) = all else { continue };
            let mut rng = Key::new(one.seed).split("likelihood").index(number).rng();
            let log_probs = match (&one.branch, energy_density(one)) {
                (Branch::Density(head), _) => {
                    let targets: Vec<(usize, [f32; 4])> =
                        found.iter().map(|found| (found.pair, found.offsets)).collect();
                    let log_probs = head.log_prob(&scored, &targets, &mut rng)?;
                    log_probs
                        .iter()
                        .zip(&found)
                        .map(|(log_prob, found)| log_prob + found.log_volume)
                        .collect()
                }
                (_, Some((head, ascent, proposal))) => {
                    of_energy(detector, head, ascent, &proposal, &pyramid, &found, &mut rng)?
                }
                _ => vec![],
            };
            all.extend(log_probs);
        }
    }
    progress.end();
    Ok(all)
}

/// Returns an energy model whose exp f was trained as a density, with its proposal.
fn energy_density(one: &Trained) -> Option<(&EnergyHead, &BoxAscent, GaussianMixture)> {
    let (head, ascent) = one.climbing()?;
    Some((head, ascent, one.method.confidence.as_ref()?.objective.density_proposal()?))
}

/// Returns, for each of the `annotated` boxes with its image and class, the pair with the best score whose box has that
/// class and overlaps it.
fn found_boxes(
    detector: &FasterRcnn,
    scored: &ScoredProposals,
    annotated: impl Iterator<Item = (u32, BBox, usize)>,
) -> Result<Vec<FoundBox>> {
    let (head, convention) = (detector.box_head(), detector.config().convention);
    let coder = head.coder();
    let own: Vec<(u32, BBox, BBox)> = (scored.pairs.iter().zip(head.offsets(scored)?))
        .map(|(pair, offsets)| {
            let (image, proposal) = scored.proposal(pair);
            (image, proposal, coder.decode(&offsets, &proposal))
        })
        .collect();
    let found = annotated.filter_map(|(image, annotated, label)| {
        let right = scored.pairs.iter().zip(&own).enumerate().filter(|(_, (pair, (of, _, own)))| {
            (*of, pair.label) == (image, label) && iou(own, &annotated, convention) >= OVERLAP
        });
        let best = right.max_by(|(_, (a, _)), (_, (b, _))| a.score.total_cmp(&b.score));
        let (pair, (_, &(_, proposal, own))) = best?;
        let log_volume = log_volume(coder, &own, &proposal);
        let offsets = coder.encode(&annotated, &proposal);
        Some(FoundBox { pair, image, label, own, annotated, offsets, log_volume })
    });
    Ok(found.collect())
}

/// Returns the logarithm of the volume that offsets from `proposal` have for each unit of the coordinates of
/// [`log_probs`] with the size of `own`.
fn log_volume(coder: &BoxCoder, own: &BBox, proposal: &BBox) -> f64 {
    let weights: f64 = coder.weights.iter().map(|weight| f64::from(*weight).ln()).sum();
    weights + f64::from(area(own, coder.convention) / area(proposal, coder.convention)).ln()
}

/// Returns log p(y | x) of the annotated boxes under an energy model.
fn of_energy(
    detector: &FasterRcnn,
    head: &EnergyHead,
    ascent: &BoxAscent,
    proposal: &GaussianMixture,
    pyramid: &[Tensor],
    found: &[FoundBox],
    rng: &mut dyn RngCore,
) -> Result<Vec<f64>> {
    let convention = detector.config().convention;
    let features = |boxes: &[BBox]| {
        let images = found.iter().map(|found| found.image).collect();
        let labels = found.iter().map(|found| found.label as u32).collect();
        BoxFeatures::new(pyramid, images, labels, boxes, convention)
    };
    let own: Vec<BBox> = found.iter().map(|found| found.own).collect();
    let refined = climb(head, features(&own)?, ascent)?.boxes;
    let features = features(&refined)?;
    let model = anchored(head, &features, proposal)?;
    let center = features.targets()?.squeeze(1)?;
    let densities = AdaptiveSampler::new(SAMPLES).densities(&model, &features, proposal, &center, rng)?;
    let annotated: Vec<BBox> = found.iter().map(|found| found.annotated).collect();
    let f = model.score(&features, &features.encode(&annotated)?)?.flatten_all()?;
    let f = f.to_dtype(DType::F64)?.to_vec1::<f64>()?;
    let unit = BoxCoder { weights: [1.0; 4], convention };
    let log_volumes = own.iter().zip(&refined).map(|(own, refined)| log_volume(&unit, own, refined));
    Ok(densities.iter().zip(f).zip(log_volumes).map(|((p, f), volume)| p.log_prob(f) + volume).collect())
}

#[cfg(test)]
mod tests {
    use ebm_ops::boxes::BoxConvention;

    use super::*;

    #[test]
    fn volumes_are_products_of_finite_differences() {
        let coder = BoxCoder { weights: [10., 10., 5., 5.], convention: BoxConvention::Inclusive };
        let (own, proposal) = ([12., 20., 61., 99.], [10., 15., 49., 94.]);
        let unit = BoxCoder { weights: [1.0; 4], ..coder };
        let volume: f64 = (0..4)
            .map(|d| {
                let moved = |by: f32| {
                    let mut y = [0.1, -0.2, 0.05, 0.1];
                    y[d] += by;
                    f64::from(coder.encode(&unit.decode(&y, &own), &proposal)[d])
                };
                (moved(0.01) - moved(-0.01)) / 0.02
            })
            .product();
        let found = log_volume(&coder, &own, &proposal);
        assert!((found - volume.ln()).abs() < 1e-3, "{found} {volume}");
    }
}
