//! Detections of a whole dataset by Faster-RCNN and by any number of confidence branches on the same candidates.

use std::time::{Duration, Instant};

use candle_core::Device;
use ebm_data::{
    coco::CocoDataset,
    loader::{Loader, Sample},
};
use ebm_eval::{Detection, detections::MAX_COORDINATE};
use ebm_seed::Key;

use crate::{
    box_head::Candidate,
    error::{Error, Result},
    faster_rcnn::{FasterRcnn, ImageBatch},
    inference::{BoxAscent, Head, refine_candidates},
    input::to_original,
    parametric_head::ParametricHead,
};

/// A confidence branch and how it refines.
pub struct Refiner<'a> {
    /// f.
    pub head: &'a Head,
    /// How its boxes climb.
    pub ascent: BoxAscent,
}

/// What is compared with Faster-RCNN, on the same proposals.
pub struct Contenders<'a> {
    /// Densities in the place of its regression.
    pub parametric: Vec<&'a ParametricHead>,
    /// Confidence branches.
    pub refiners: Vec<Refiner<'a>>,
    /// The cVAE draws its z with this.
    pub key: Key,
}

impl<'a> Contenders<'a> {
    /// Confidence branches alone.
    pub fn refiners(refiners: Vec<Refiner<'a>>) -> Self {
        Self { parametric: vec![], refiners, key: Key::new(0) }
    }
}

/// What one refiner made of the dataset.
#[derive(Default)]
pub struct RefinedDetections {
    /// After guided suppression, boxes as the detector gave them.
    pub before: Vec<Detection>,
    /// After refinement.
    pub after: Vec<Detection>,
    /// Time for Faster-RCNN's boxes, confidences, suppression and refinement together.
    pub duration: Duration,
}

impl RefinedDetections {
    /// Boxes refined per second.
    pub fn boxes_per_second(&self) -> f64 {
        self.after.len() as f64 / self.duration.as_secs_f64().max(1e-9)
    }
}

/// What a regression made of the dataset.
#[derive(Default)]
pub struct Regressed {
    /// Its detections.
    pub detections: Vec<Detection>,
    /// Time for offsets, boxes and suppression.
    pub duration: Duration,
}

/// Detections in COCO's result form.
#[derive(Default)]
pub struct Evaluation {
    /// Faster-RCNN's own.
    pub direct: Regressed,
    /// Time for backbone, proposals and class scores of all images, which all methods share.
    pub detector_duration: Duration,
    /// One for each density.
    pub parametric: Vec<Regressed>,
    /// One for each refiner.
    pub refined: Vec<RefinedDetections>,
    /// Images seen.
    pub images: usize,
}

impl Evaluation {
    /// Images per second of a method that takes `own` beside what all share; refinement begins with Faster-RCNN's boxes,
    /// whose making `own` must hold.
    pub fn frames_per_second(&self, own: Duration) -> f64 {
        self.images as f64 / (self.detector_duration + own).as_secs_f64().max(1e-9)
    }
}

/// Runs the detector once over `loader`'s images, in order, and every contender on its proposals.
///
/// `progress` is told the number of images done after each batch.
///
/// # Errors
/// When the dataset has more categories than the detector, an image can not be read, or a network fails.
pub fn evaluate(
    detector: &FasterRcnn,
    dataset: &CocoDataset,
    loader: &Loader,
    contenders: &Contenders,
    device: &Device,
    progress: &mut dyn FnMut(usize),
) -> Result<Evaluation> {
    let config = detector.config();
    let convention = config.convention.into();
    if let Some(last) = dataset.categories.last().filter(|last| last.label >= config.num_classes) {
        return Err(Error::Config {
            name: "categories".into(),
            reason: format!(
                "{} has the label {}, the detector knows {}; use the annotations it was trained on",
                last.name,
                last.label,
                config.num_classes - 1
            ),
        });
    }
    let to_result = |candidate: &Candidate, sample: &Sample| -> Option<Detection> {
        // A class that the dataset does not have cannot be scored there.
        let category_id = dataset.category_id(candidate.label)?;
        // A box that climbed out of all bounds overlaps nothing, and a result file has no place for it as it is.
        let bbox = to_original(&candidate.bbox, sample, convention)
            .map(|value| value.clamp(-MAX_COORDINATE, MAX_COORDINATE));
        Some(Detection { image_id: sample.image_id, category_id, bbox, score: f64::from(candidate.score) })
    };
    let mut evaluation = Evaluation {
        parametric: contenders.parametric.iter().map(|_| Regressed::default()).collect(),
        refined: contenders.refiners.iter().map(|_| RefinedDetections::default()).collect(),
        ..Evaluation::default()
    };
    let suppressed = |candidates: &[Vec<Candidate>], samples: &[Sample]| -> Result<Vec<Detection>> {
        let mut found = Vec::new();
        for (sample, candidates) in samples.iter().zip(candidates) {
            found.extend(detector.suppress(candidates)?.iter().filter_map(|c| to_result(c, sample)));
        }
        Ok(found)
    };
    for batch in loader.epoch(0)? {
        let batch = batch?;
        let start = Instant::now();
        let images = ImageBatch::new(&batch, device)?;
        let pyramid = detector.features(&images.pixels, false)?;
        let scored = detector.scored(&pyramid, &images)?;
        evaluation.detector_duration += start.elapsed();

        let start = Instant::now();
        let candidates = detector.decode(&scored, None, &images)?;
        let decoded = start.elapsed();
        evaluation.direct.detections.extend(suppressed(&candidates, &batch.samples)?);
        evaluation.direct.duration += start.elapsed();

        for (head, regressed) in contenders.parametric.iter().zip(&mut evaluation.parametric) {
            let start = Instant::now();
            let mut rng = contenders.key.split("latent").index(evaluation.images as u64).rng();
            let offsets = head.offsets(&scored, &mut rng)?;
            let candidates = detector.decode(&scored, Some(&offsets), &images)?;
            regressed.detections.extend(suppressed(&candidates, &batch.samples)?);
            regressed.duration += start.elapsed();
        }

        for (refiner, refined) in contenders.refiners.iter().zip(&mut evaluation.refined) {
            let start = Instant::now();
            let refinements =
                refine_candidates(refiner.head, &pyramid, &candidates, &refiner.ascent, config)?;
            refined.duration += decoded + start.elapsed();
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
