//! Evaluation of Faster-RCNN, and of any number of other methods on the same proposals, on a dataset; and the
//! annotated images to choose settings and measure results on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::{Device, Tensor};
use ebm_base::Key;
use ebm_data::coco::CocoDataset;
use ebm_data::loader::{Loader, LoaderConfig, Sample};
use ebm_eval::{CocoFigures, Detection, GroundTruth, detections::MAX_COORDINATE, evaluate_coco_in_memory};
use ebm_experiment::best;
use ebm_train::Progress;
use rand::RngCore;

use crate::box_head::{Candidate, ScoredProposals};
use crate::branch::Branch;
use crate::config::InputConfig;
use crate::faster_rcnn::{FasterRcnn, ImageBatch};
use crate::inference::{BoxAscent, Head, RefinedCandidates, refine_candidates};
use crate::input::to_original;
use crate::parametric_head::ParametricHead;
use crate::{Error, Result};

/// Method of placing boxes, which is compared with Faster-RCNN's regression on the same proposals.
pub enum Placement<'a> {
    /// Boxes at the mean of a density, which replaces the regression.
    Density(&'a ParametricHead),
    /// Boxes of the regression, refined by gradient ascent on a confidence.
    Confidence(&'a Head, BoxAscent),
}

impl<'a> Placement<'a> {
    /// Returns the placement by `branch`; `None` for a confidence without an `ascent`.
    pub fn of(branch: &'a Branch, ascent: Option<&BoxAscent>) -> Option<Self> {
        match branch {
            Branch::Density(head) => Some(Self::Density(head)),
            Branch::Confidence(head) => Some(Self::Confidence(head, ascent?.clone())),
        }
    }

    /// Returns the boxes of each image after suppression; Faster-RCNN's if there is no `placement`. A density ignores
    /// the regression's `candidates`. The cVAE's z is drawn from `rng`.
    pub(crate) fn boxes(
        placement: Option<&Self>,
        detector: &FasterRcnn,
        pyramid: &[Tensor],
        scored: &ScoredProposals,
        candidates: &[Vec<Candidate>],
        images: &ImageBatch,
        rng: &mut dyn RngCore,
    ) -> Result<Vec<RefinedCandidates>> {
        let of_density;
        let candidates = match placement {
            Some(Self::Confidence(head, ascent)) => {
                let config = detector.config();
                return refine_candidates(*head, pyramid, candidates, &images.sizes, ascent, config);
            }
            Some(Self::Density(head)) => {
                of_density = detector.decode(scored, Some(&head.offsets(scored, rng)?), images)?;
                &of_density
            }
            None => candidates,
        };
        let suppressed = |own: &Vec<Candidate>| {
            let after = detector.suppress(own)?;
            Ok(RefinedCandidates { before: after.clone(), after })
        };
        candidates.iter().map(suppressed).collect()
    }
}

/// Detections of a method in a dataset, in COCO's result form.
#[derive(Default)]
pub struct Found {
    /// Detections before refinement, after guided suppression; `None` for a method that does not refine boxes.
    pub before: Option<Vec<Detection>>,
    /// Detections of the method.
    pub detections: Vec<Detection>,
    /// Time from class scores to detections.
    pub duration: Duration,
}

impl Found {
    /// Returns the number of boxes refined per second; `None` for a method that does not refine boxes.
    pub fn boxes_per_second(&self) -> Option<f64> {
        self.before.as_ref().map(|before| before.len() as f64 / self.duration.as_secs_f64().max(1e-9))
    }
}

/// Detections of several methods in a dataset.
#[derive(Default)]
pub struct Evaluation {
    /// Detections by the detector's regression.
    pub direct: Found,
    /// Time for backbone, proposals and class scores of all images, which all methods share.
    pub detector_duration: Duration,
    /// Detections by each of the other methods, in their order.
    pub placed: Vec<Found>,
    /// Number of images.
    pub images: usize,
}

impl Evaluation {
    /// Returns the images per second of the method that `found` belongs to.
    pub fn frames_per_second(&self, found: &Found) -> f64 {
        self.images as f64 / (self.detector_duration + found.duration).as_secs_f64().max(1e-9)
    }
}

/// Runs the detector once over `loader`'s images, in order, and every placement on its proposals.
///
/// After each batch, `progress` gets the number of images done.
///
/// # Errors
/// When the dataset has more categories than the detector, an image cannot be read, or a network fails.
pub fn evaluate(
    detector: &FasterRcnn,
    dataset: &CocoDataset,
    loader: &Loader,
    placements: &[Placement<'_>],
    device: &Device,
    progress: &mut dyn FnMut(usize),
) -> Result<Evaluation> {
    check_labels(detector, dataset)?;
    let empty = |placement: &Placement<'_>| {
        let before = matches!(placement, Placement::Confidence(..)).then(Vec::new);
        Found { before, ..Found::default() }
    };
    let (mut direct, mut placed) = (Found::default(), placements.iter().map(empty).collect::<Vec<_>>());
    let (mut images, mut detector_duration) = (0, Duration::ZERO);
    for batch in loader.epoch(0)? {
        let (batch, start) = (batch?, Instant::now());
        let input = ImageBatch::new(&batch, device)?;
        let pyramid = detector.features(&input.pixels, false)?;
        let scored = detector.scored(&pyramid, &input)?;
        detector_duration += start.elapsed();

        let start = Instant::now();
        let candidates = detector.decode(&scored, None, &input)?;
        let decoded = start.elapsed();
        let others = placements.iter().map(Some).zip(&mut placed);
        for (placement, found) in std::iter::once((None, &mut direct)).chain(others) {
            let start = Instant::now();
            let mut rng = Key::new(0).split("latent").index(images as u64).rng();
            let boxes =
                Placement::boxes(placement, detector, &pyramid, &scored, &candidates, &input, &mut rng)?;
            found.duration += start.elapsed();
            if !matches!(placement, Some(Placement::Density(_))) {
                found.duration += decoded;
            }
            for (sample, boxes) in batch.samples.iter().zip(boxes) {
                let results = |boxes: &[Candidate]| results(detector, dataset, boxes, sample);
                found.before.iter_mut().for_each(|before| before.extend(results(&boxes.before)));
                found.detections.extend(results(&boxes.after));
            }
        }
        images += batch.samples.len();
        progress(images);
    }
    Ok(Evaluation { direct, detector_duration, placed, images })
}

/// Checks that `dataset` does not have more categories than the detector.
fn check_labels(detector: &FasterRcnn, dataset: &CocoDataset) -> Result<()> {
    let known = detector.config().labels();
    let Some(last) = dataset.categories.last().filter(|last| last.label > known) else { return Ok(()) };
    let reason = format!(
        "{} has the label {}, the detector knows {known}; use the annotations it was trained on",
        last.name, last.label
    );
    Err(Error::input("categories", reason))
}

/// Converts a detector's boxes to COCO's result form.
fn results(
    detector: &FasterRcnn,
    dataset: &CocoDataset,
    boxes: &[Candidate],
    sample: &Sample,
) -> Vec<Detection> {
    let convention = detector.config().convention;
    let result = |candidate: &Candidate| {
        // A class that the dataset does not have cannot be scored.
        let category_id = dataset.category_id(candidate.label)?;
        // A box far outside the image overlaps nothing; result files have a limit for coordinates.
        let bbox = to_original(&candidate.bbox, sample, convention);
        let bbox = bbox.map(|value| value.clamp(-MAX_COORDINATE, MAX_COORDINATE));
        let score = f64::from(candidate.score);
        Some(Detection { image_id: sample.image_id, category_id, bbox, score })
    };
    boxes.iter().filter_map(result).collect()
}

/// Usual factors of the configured step lengths.
pub const STEP_FACTORS: [f64; 5] = [0.015625, 0.0625, 0.25, 1.0, 4.0];

/// Interval of the images that are held out if no validation images were given.
const FIFTH: usize = 5;

/// Annotated images to choose settings or measure results on.
#[derive(Clone)]
pub struct Annotated {
    /// Name in messages.
    pub name: String,
    /// Images.
    pub dataset: Arc<CocoDataset>,
    /// Objects in the images.
    pub truth: GroundTruth,
    /// Number of images per batch.
    pub batch_size: usize,
    /// Number of threads that read images.
    pub workers: usize,
}

impl Annotated {
    /// Creates a set of the images of `dataset`, in batches of one image.
    pub fn new(name: &str, dataset: CocoDataset, workers: usize) -> Self {
        let truth = GroundTruth::from(&dataset);
        Self { name: name.to_owned(), dataset: Arc::new(dataset), truth, batch_size: 1, workers }
    }

    /// Splits every fifth image off `dataset`, and returns these images; `None` if there are fewer than five.
    pub(crate) fn split_off_fifth(dataset: &mut CocoDataset, workers: usize) -> Option<Self> {
        let mut held_out = dataset.clone();
        let is_fifth = |held: bool| move |index: usize| (index % FIFTH == FIFTH - 1) == held;
        retain(&mut held_out, is_fifth(true));
        if held_out.images.is_empty() {
            return None;
        }
        retain(dataset, is_fifth(false));
        Some(Self::new("held-out images", held_out, workers))
    }

    /// Returns at most `count` of the images, chosen evenly.
    pub(crate) fn subset(&self, count: usize) -> Self {
        let (mut dataset, all) = (CocoDataset::clone(&self.dataset), self.dataset.images.len());
        let stride = all.div_ceil(count.max(1)).max(1);
        retain(&mut dataset, |index| index % stride == 0);
        Self { dataset: Arc::new(dataset), ..self.clone() }
    }

    /// Returns a loader that reads each image once, in order, for a network with this `input`.
    pub(crate) fn loader(&self, input: &InputConfig) -> Result<Loader> {
        let loader = LoaderConfig::eval(input.transform(), self.batch_size).with_workers(self.workers);
        Ok(Loader::new(self.dataset.clone(), loader, Key::new(0))?)
    }

    /// Computes COCO's figures of `detections` in these images.
    ///
    /// # Errors
    /// When a detection belongs to an unknown image.
    pub fn score(&self, detections: &[Detection]) -> Result<CocoFigures> {
        Ok(evaluate_coco_in_memory(&self.truth, detections)?)
    }

    /// Evaluates the detector, and every placement on its proposals, on these images.
    pub(crate) fn evaluate(
        &self,
        detector: &FasterRcnn,
        placements: &[Placement<'_>],
        device: &Device,
        progress: &mut dyn Progress,
    ) -> Result<Evaluation> {
        progress.begin(&self.name, self.dataset.images.len());
        let loader = self.loader(&detector.config().input)?;
        let mut report = |done| progress.advance(done, "");
        let evaluation = evaluate(detector, &self.dataset, &loader, placements, device, &mut report)?;
        progress.end();
        Ok(evaluation)
    }

    /// Chooses the factor of the step lengths of `ascent` with the best AP, as in the supplement. Returns the factor
    /// and its AP (0 to 1); the first of equals; 1 and NaN if no factor gives an AP.
    pub(crate) fn best_step_factor(
        &self,
        detector: &FasterRcnn,
        head: &Head,
        ascent: &BoxAscent,
        factors: &[f64],
        device: &Device,
        progress: &mut dyn Progress,
    ) -> Result<(f64, f64)> {
        let scaled = |&factor: &f64| Placement::Confidence(head, ascent.scaled(factor));
        let placements: Vec<_> = factors.iter().map(scaled).collect();
        let refined = self.evaluate(detector, &placements, device, progress)?.placed;
        let scores = refined.iter().map(|refined| Ok(self.score(&refined.detections)?.ap));
        Ok(best(factors, scores.collect::<Result<Vec<_>>>()?).unwrap_or((1.0, f64::NAN)))
    }
}

/// Retains the images whose index is `kept`.
fn retain(dataset: &mut CocoDataset, kept: impl Fn(usize) -> bool) {
    let mut index = 0..;
    dataset.images.retain(|_| index.next().is_some_and(&kept));
}
