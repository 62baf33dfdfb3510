//! Detections of a whole dataset by Faster-RCNN and by any number of confidence branches on the same
//! candidates.

use std::time::{Duration, Instant};

use candle_core::Device;
use ebm_base::Key;
use ebm_data::{
    coco::CocoDataset,
    loader::{Loader, Sample},
};
use ebm_eval::{Detection, detections::MAX_COORDINATE};

use crate::{
    Error, Result,
    box_head::Candidate,
    branch::Branch,
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
pub struct Heads<'a> {
    /// Densities in the place of its regression.
    pub parametric: Vec<&'a ParametricHead>,
    /// Confidence branches.
    pub refiners: Vec<Refiner<'a>>,
    /// The cVAE draws its z with this.
    pub key: Key,
}

impl<'a> Heads<'a> {
    /// Confidence branches alone.
    pub fn refiners(refiners: Vec<Refiner<'a>>) -> Self {
        Self { parametric: vec![], refiners, key: Key::new(0) }
    }

    /// Branches with how their boxes climb, which are sorted by kind. A confidence whose boxes do not climb
    /// is left out.
    pub fn of(branches: impl IntoIterator<Item = (&'a Branch, Option<&'a BoxAscent>)>) -> Self {
        let mut heads = Self::refiners(vec![]);
        for branch in branches {
            match branch {
                (Branch::Density(head), _) => heads.parametric.push(head),
                (Branch::Confidence(head), Some(ascent)) => {
                    heads.refiners.push(Refiner { head, ascent: ascent.clone() });
                }
                (Branch::Confidence(_), None) => {}
            }
        }
        heads
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
    /// Images per second of a method that takes `own` beside what all share; refinement begins with
    /// Faster-RCNN's boxes, whose making `own` must hold.
    pub fn frames_per_second(&self, own: Duration) -> f64 {
        self.images as f64 / (self.detector_duration + own).as_secs_f64().max(1e-9)
    }
}

/// Runs the detector once over `loader`'s images, in order, and every head on its proposals.
///
/// `progress` is told the number of images done after each batch.
///
/// # Errors
/// When the dataset has more categories than the detector, an image can not be read, or a network fails.
pub fn evaluate(
    detector: &FasterRcnn,
    dataset: &CocoDataset,
    loader: &Loader,
    heads: &Heads,
    device: &Device,
    progress: &mut dyn FnMut(usize),
) -> Result<Evaluation> {
    check_labels(detector, dataset)?;
    let results = Results { detector, dataset };
    let mut evaluation = Evaluation {
        parametric: heads.parametric.iter().map(|_| Regressed::default()).collect(),
        refined: heads.refiners.iter().map(|_| RefinedDetections::default()).collect(),
        ..Evaluation::default()
    };
    for batch in loader.epoch(0)? {
        let (batch, start) = (batch?, Instant::now());
        let images = ImageBatch::new(&batch, device)?;
        let pyramid = detector.features(&images.pixels, false)?;
        let scored = detector.scored(&pyramid, &images)?;
        evaluation.detector_duration += start.elapsed();

        let start = Instant::now();
        let candidates = detector.decode(&scored, None, &images)?;
        let decoded = start.elapsed();
        evaluation.direct.detections.extend(results.suppressed(&candidates, &batch.samples)?);
        evaluation.direct.duration += start.elapsed();

        for (head, regressed) in heads.parametric.iter().zip(&mut evaluation.parametric) {
            let start = Instant::now();
            let mut rng = heads.key.split("latent").index(evaluation.images as u64).rng();
            let offsets = head.offsets(&scored, &mut rng)?;
            let candidates = detector.decode(&scored, Some(&offsets), &images)?;
            regressed.detections.extend(results.suppressed(&candidates, &batch.samples)?);
            regressed.duration += start.elapsed();
        }

        for (refiner, refined) in heads.refiners.iter().zip(&mut evaluation.refined) {
            let (start, config) = (Instant::now(), detector.config());
            let refinements = refine_candidates(
                refiner.head,
                &pyramid,
                &candidates,
                &images.sizes,
                &refiner.ascent,
                config,
            )?;
            refined.duration += decoded + start.elapsed();
            for (sample, refinement) in batch.samples.iter().zip(refinements) {
                refined.before.extend(results.of_image(&refinement.before, sample));
                refined.after.extend(results.of_image(&refinement.after, sample));
            }
        }
        evaluation.images += batch.samples.len();
        progress(evaluation.images);
    }
    Ok(evaluation)
}

/// Refuses a dataset with more categories than the detector knows.
fn check_labels(detector: &FasterRcnn, dataset: &CocoDataset) -> Result<()> {
    let known = detector.config().labels();
    let Some(last) = dataset.categories.last().filter(|last| last.label > known) else { return Ok(()) };
    let reason = format!(
        "{} has the label {}, the detector knows {known}; use the annotations it was trained on",
        last.name, last.label
    );
    Err(Error::input("categories", reason))
}

/// From a detector's boxes to results on a dataset.
struct Results<'a> {
    detector: &'a FasterRcnn,
    dataset: &'a CocoDataset,
}

impl Results<'_> {
    /// The boxes that suppression leaves.
    fn suppressed(&self, candidates: &[Vec<Candidate>], samples: &[Sample]) -> Result<Vec<Detection>> {
        let mut found = Vec::new();
        for (sample, candidates) in samples.iter().zip(candidates) {
            found.extend(self.of_image(&self.detector.suppress(candidates)?, sample));
        }
        Ok(found)
    }

    fn of_image(&self, candidates: &[Candidate], sample: &Sample) -> Vec<Detection> {
        let convention = self.detector.config().convention.into();
        let to_result = |candidate: &Candidate| {
            // A class that the dataset does not have cannot be scored there.
            let category_id = self.dataset.category_id(candidate.label)?;
            // A box that climbed out of all bounds overlaps nothing, and a result file has no place for it as
            // it is.
            let bbox = to_original(&candidate.bbox, sample, convention)
                .map(|value| value.clamp(-MAX_COORDINATE, MAX_COORDINATE));
            let score = f64::from(candidate.score);
            Some(Detection { image_id: sample.image_id, category_id, bbox, score })
        };
        candidates.iter().filter_map(to_result).collect()
    }
}
