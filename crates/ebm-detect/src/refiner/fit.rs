//! Adaptation of a refiner to one detector on validation images: its step lengths, by AP of refined boxes, and its
//! calibration.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::Device;
use ebm_core::{BoxSpace, GaussianMixture, Proposal, TargetSpace};
use ebm_data::{coco::CocoDataset, decode::read_image};
use ebm_eval::Detection;
use ebm_experiment::best;
use ebm_nn::import::load_safetensors;
use ebm_ops::boxes::BBox;
use ebm_train::{ModelMetadata, Progress};
use rand::RngCore;

use super::{
    BoxRefiner, Calibration, CalibrationOptions, LabelledBox, RefinedBox, RefinerOptions, Rescoring,
};
use crate::config::{RefinerConfig, Settings};
use crate::evaluation::Annotated;
use crate::inference::BoxAscent;
use crate::layers::rows_of_four;
use crate::{Error, Result};

/// Detections of a detector on annotated images, to be refined.
pub struct RefinedResults<'a> {
    /// Images.
    pub images: &'a Annotated,
    /// Detections.
    pub detections: &'a [Detection],
}

impl RefinedResults<'_> {
    /// Returns the boxes of each image that the refiner can refine, with their indices in
    /// [`detections`](Self::detections), if `wanted` is `true` for the index. Boxes of unknown classes and boxes
    /// without extent are left out.
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

    /// Refines the boxes with each of the `ascents`, and returns them by their index in
    /// [`detections`](Self::detections). The features of every image are computed once.
    pub(super) fn refined(
        &self,
        refiner: &BoxRefiner,
        ascents: &[BoxAscent],
        progress: &mut dyn Progress,
    ) -> Result<Vec<BTreeMap<usize, RefinedBox>>> {
        let of_images = self.of_images(refiner, |_| true);
        let mut refined = vec![BTreeMap::new(); ascents.len()];
        progress.begin(&self.images.name, self.images.dataset.images.len());
        for (done, image) in (1..).zip(&self.images.dataset.images) {
            if let Some((indices, boxes)) = of_images.get(&image.id) {
                let features = refiner.features(&read_image(&image.path)?)?;
                for (refined, ascent) in refined.iter_mut().zip(ascents) {
                    let (found, _) = refiner.energy.refined(&features, boxes, ascent)?;
                    refined.extend(indices.iter().copied().zip(found));
                }
            }
            progress.advance(done, "");
        }
        progress.end();
        Ok(refined)
    }

    /// Returns the detections with `refined` boxes, and rescored if `rescoring` is given.
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

/// Chooses the factor of the refiner's step lengths with the best AP. Returns the factor and its AP (0 to 1); the
/// first of equals; 1 and NaN if no factor gives an AP. Boxes of unknown classes or without extent stay as they are.
fn best_factor(
    refiner: &BoxRefiner,
    results: &RefinedResults<'_>,
    factors: &[f64],
    progress: &mut dyn Progress,
) -> Result<(f64, f64)> {
    let ascents: Vec<_> = factors.iter().map(|&factor| refiner.energy.ascent.scaled(factor)).collect();
    let refined = results.refined(refiner, &ascents, progress)?;
    let scores = refined.iter().map(|refined| Ok(results.images.score(&results.with(refined, None))?.ap));
    Ok(best(factors, scores.collect::<Result<Vec<_>>>()?).unwrap_or((1.0, f64::NAN)))
}

/// Adaptation of a refiner to a detector.
pub struct RefinerFit<'a> {
    /// Path of the refiner's file.
    pub file: &'a Path,
    /// Metadata of the refiner.
    pub metadata: ModelMetadata,
    /// Factor of the configured step lengths; `None` to choose it.
    pub step_factor: Option<f64>,
    /// Options of the calibration; `None` for no calibration.
    pub samples: Option<CalibrationOptions>,
    /// Device of the network.
    pub device: Device,
}

impl RefinerFit<'_> {
    /// Chooses the step lengths and calibrates by `results`, reports the choice, and writes the refiner with it to the
    /// file `out`.
    ///
    /// # Errors
    /// When a file cannot be read or written, or the network fails.
    pub fn write(&self, results: &RefinedResults<'_>, out: &Path, progress: &mut dyn Progress) -> Result<()> {
        let mut said = self.metadata.clone();
        let device = self.device.clone();
        let open = |step_factor| {
            let options = RefinerOptions { step_factor, device: device.clone(), ..RefinerOptions::default() };
            BoxRefiner::open_with(self.file, &options)
        };
        let factor = match self.step_factor {
            Some(factor) => factor,
            None => {
                let factors = &RefinerConfig::parse("its configuration", &said.config)?.step_factors;
                let (factor, ap) = best_factor(&open(Some(1.0))?, results, factors, progress)?;
                let name = &results.images.name;
                progress.message(&format!("step lengths × {factor}: AP {:.1} on {name}", 100.0 * ap));
                factor
            }
        };
        said.step_factor = Some(factor);
        if let Some(samples) = &self.samples {
            match Calibration::of(&open(Some(factor))?, results, samples, progress)? {
                Some((found, likelihood)) => {
                    progress.message(&found.to_string());
                    progress.message(&likelihood.to_string());
                    said.calibration =
                        toml::to_string(&found).map_err(|error| Error::config("calibration", error))?;
                }
                None => progress.message(&format!(
                    "intervals and scores stay as they are: fewer than {} boxes are right, or there is no density",
                    Calibration::FEWEST
                )),
            }
        }
        Ok(said.save(out, &load_safetensors(self.file, &Device::Cpu)?)?)
    }
}

/// Returns a substitute for a detector's boxes: the annotated boxes, each replaced by a draw from `mixture` around it.
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
