//! Detections of a whole dataset by Faster-RCNN and by any number of confidence branches on the same candidates.

use std::time::{Duration, Instant};

use candle_core::Device;
use ebm_core::GradientAscent;
use ebm_data::{
    coco::CocoDataset,
    loader::{Loader, Sample},
};
use ebm_eval::Detection;

use crate::{
    box_head::Candidate,
    error::{Error, Result},
    faster_rcnn::{FasterRcnn, ImageBatch},
    inference::{Head, refine_candidates},
    input::to_original,
};

/// A confidence branch and how it refines.
pub struct Refiner<'a> {
    /// f; see [`EnergyHead::for_inference`](crate::EnergyHead::for_inference).
    pub head: &'a Head,
    /// Algorithm S1 with its step lengths.
    pub ascent: GradientAscent,
}

/// What one refiner made of the dataset.
#[derive(Default)]
pub struct RefinedDetections {
    /// After guided suppression, boxes as the detector gave them.
    pub before: Vec<Detection>,
    /// After refinement.
    pub after: Vec<Detection>,
    /// Time for confidences, suppression and refinement together.
    pub duration: Duration,
}

impl RefinedDetections {
    /// Boxes refined per second.
    pub fn boxes_per_second(&self) -> f64 {
        self.after.len() as f64 / self.duration.as_secs_f64().max(1e-9)
    }
}

/// Detections in COCO's result form.
pub struct Evaluation {
    /// Faster-RCNN's own.
    pub direct: Vec<Detection>,
    /// Time for backbone, proposals and box head of all images.
    pub detector_duration: Duration,
    /// Time of Faster-RCNN's own suppression.
    pub direct_duration: Duration,
    /// One for each refiner.
    pub refined: Vec<RefinedDetections>,
    /// Images seen.
    pub images: usize,
}

/// Runs the detector once over `loader`'s images, in order, and every refiner on its candidates.
///
/// `progress` is told the number of images done after each batch.
pub fn evaluate(
    detector: &FasterRcnn,
    dataset: &CocoDataset,
    loader: &Loader,
    refiners: &[Refiner],
    device: &Device,
    progress: &mut dyn FnMut(usize),
) -> Result<Evaluation> {
    let config = detector.config();
    let convention = config.convention.into();
    if dataset.categories.len() + 1 > config.num_classes {
        return Err(Error::Config {
            name: "categories".into(),
            reason: format!(
                "the dataset has {} categories, the detector knows {}; use the annotations it was trained on",
                dataset.categories.len(),
                config.num_classes - 1
            ),
        });
    }
    let to_result = |candidate: &Candidate, sample: &Sample| -> Option<Detection> {
        // A class that the dataset does not have cannot be scored there.
        let category_id = dataset.category_id(candidate.label)?;
        let bbox = to_original(&candidate.bbox, sample, convention);
        Some(Detection { image_id: sample.image_id, category_id, bbox, score: f64::from(candidate.score) })
    };
    let mut evaluation = Evaluation {
        direct: vec![],
        detector_duration: Duration::ZERO,
        direct_duration: Duration::ZERO,
        refined: refiners.iter().map(|_| RefinedDetections::default()).collect(),
        images: 0,
    };
    let backbone = detector.for_inference()?;
    for batch in loader.epoch(0)? {
        let batch = batch?;
        let start = Instant::now();
        let images = ImageBatch::new(&batch, device)?;
        let pyramid = backbone.features(&images.pixels)?;
        let candidates = detector.candidates(&pyramid, &images)?;
        evaluation.detector_duration += start.elapsed();

        let start = Instant::now();
        for (sample, candidates) in batch.samples.iter().zip(&candidates) {
            let kept = detector.suppress(candidates)?;
            evaluation.direct.extend(kept.iter().filter_map(|c| to_result(c, sample)));
        }
        evaluation.direct_duration += start.elapsed();

        for (refiner, refined) in refiners.iter().zip(&mut evaluation.refined) {
            let start = Instant::now();
            let refinements =
                refine_candidates(refiner.head, &pyramid, &candidates, &refiner.ascent, config)?;
            refined.duration += start.elapsed();
            for (sample, refinement) in batch.samples.iter().zip(refinements) {
                refined.before.extend(refinement.before.iter().filter_map(|c| to_result(c, sample)));
                refined.after.extend(refinement.after.iter().filter_map(|c| to_result(c, sample)));
            }
        }
        evaluation.images += batch.samples.len();
        progress(evaluation.images);
    }
    Ok(evaluation)
}
