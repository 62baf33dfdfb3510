//! The choice of step lengths: by AP of refined boxes on images that nothing was trained on.

use std::collections::BTreeMap;

use candle_core::Device;
use ebm_core::{BoxSpace, GaussianMixture, GradientAscent, Proposal, TargetSpace};
use ebm_data::{coco::CocoDataset, decode::read_image};
use ebm_eval::{Detection, GroundTruth, evaluate_coco_in_memory};
use ebm_experiment::best;
use ebm_nn::boxes::BBox;
use ebm_train::Progress;
use rand::RngCore;

use super::{BoxRefiner, LabelledBox, RefinedBox, Rescoring, scaled};
use crate::{Result, layers::rows_of_four};

/// A detector's boxes on annotated images.
pub struct RefinedResults<'a> {
    /// What a progress bar calls the images.
    pub name: &'a str,
    /// The images.
    pub dataset: &'a CocoDataset,
    /// Their objects.
    pub truth: &'a GroundTruth,
    /// The boxes.
    pub detections: &'a [Detection],
}

impl RefinedResults<'_> {
    /// Of each image the boxes that can be refined and are `wanted` by their place in
    /// [`detections`](Self::detections), with these places; a box of a class that the refiner does not know,
    /// or without extent, can not.
    pub(super) fn of_images(
        &self,
        refiner: &BoxRefiner,
        wanted: impl Fn(usize) -> bool,
    ) -> BTreeMap<u64, (Vec<usize>, Vec<LabelledBox>)> {
        let mut of_images: BTreeMap<u64, (Vec<usize>, Vec<LabelledBox>)> = BTreeMap::new();
        for (index, detection) in self.detections.iter().enumerate().filter(|(index, _)| wanted(*index)) {
            let [_, _, width, height] = detection.bbox;
            if let Some(label) = refiner.label(detection.category_id).filter(|_| width > 0.0 && height > 0.0)
            {
                let (indices, boxes) = of_images.entry(detection.image_id).or_default();
                indices.push(index);
                boxes.push(LabelledBox { bbox: detection.bbox, label });
            }
        }
        of_images
    }

    /// What the refiner makes of them with each of the `ascents`, by their place in
    /// [`detections`](Self::detections). Every image is looked at once.
    pub(super) fn refined(
        &self,
        refiner: &BoxRefiner,
        ascents: &[GradientAscent],
        progress: &mut dyn Progress,
    ) -> Result<Vec<BTreeMap<usize, RefinedBox>>> {
        let of_images = self.of_images(refiner, |_| true);
        let mut refined = vec![BTreeMap::new(); ascents.len()];
        progress.begin(self.name, self.dataset.images.len());
        for (done, image) in (1..).zip(&self.dataset.images) {
            if let Some((indices, boxes)) = of_images.get(&image.id) {
                let seen = refiner.look(&read_image(&image.path)?)?;
                for (refined, ascent) in refined.iter_mut().zip(ascents) {
                    let (found, _) = refiner.refined(&seen, boxes, ascent)?;
                    refined.extend(indices.iter().copied().zip(found));
                }
            }
            progress.advance(done, "");
        }
        progress.end();
        Ok(refined)
    }

    /// The detections with `refined` boxes, and with scores that f has entered where `rescoring` says how.
    pub(super) fn with(
        &self,
        refined: &BTreeMap<usize, RefinedBox>,
        rescoring: Option<&Rescoring>,
    ) -> Vec<Detection> {
        let mut found = self.detections.to_vec();
        for (&index, refined) in refined {
            found[index].bbox = refined.bbox;
            if let Some(rescoring) = rescoring {
                found[index].score = rescoring.score(found[index].score, refined.f.into());
            }
        }
        found
    }
}

/// The factor among `factors` of the configured step lengths with the best AP (0 to 1), and that AP: the
/// first of equals. Where no factor gives an AP, 1 and no number. A box that cannot be refined, of a class
/// that the refiner does not know or without extent, stays as it is.
///
/// # Errors
/// When an image cannot be read, or the network fails.
pub fn best_refiner_factor(
    refiner: &BoxRefiner,
    results: &RefinedResults<'_>,
    factors: &[f64],
    progress: &mut dyn Progress,
) -> Result<(f64, f64)> {
    let ascents: Vec<_> = factors.iter().map(|&factor| scaled(&refiner.config.ascent, factor)).collect();
    let refined = results.refined(refiner, &ascents, progress)?;
    let scores = refined
        .iter()
        .map(|refined| Ok(evaluate_coco_in_memory(results.truth, &results.with(refined, None))?.ap));
    Ok(best(factors, scores.collect::<Result<Vec<_>>>()?).unwrap_or((1.0, f64::NAN)))
}

/// What stands in for a detector's boxes: the annotated ones, each moved as `mixture` about it says.
///
/// # Errors
/// When an object's box has no extent.
pub fn jittered(
    dataset: &CocoDataset,
    mixture: &GaussianMixture,
    rng: &mut dyn RngCore,
) -> Result<Vec<Detection>> {
    let mut found = Vec::new();
    for image in &dataset.images {
        let objects: Vec<_> = image.objects.iter().filter(|object| !object.iscrowd).collect();
        if objects.is_empty() {
            continue;
        }
        let boxes: Vec<BBox> = objects.iter().map(|object| object.bbox).collect();
        let boxes = rows_of_four(&boxes, &Device::Cpu)?.unsqueeze(1)?;
        let space = BoxSpace::new(&boxes)?;
        let moved = mixture.sample(&space.encode(&boxes)?.squeeze(1)?, 1, rng)?;
        for (object, corners) in objects.iter().zip(space.decode(&moved)?.squeeze(1)?.to_vec2::<f32>()?) {
            let [x0, y0, x1, y1] = [corners[0], corners[1], corners[2], corners[3]].map(f64::from);
            let Some(category_id) = dataset.category_id(object.label) else { continue };
            let bbox = [x0, y0, x1 - x0, y1 - y0];
            found.push(Detection { image_id: image.id, category_id, bbox, score: 1.0 });
        }
    }
    Ok(found)
}
