//! Annotated images that a network does not learn from: settings are chosen on them, and results measured.

use std::sync::Arc;

use candle_core::Device;
use ebm_base::Key;
use ebm_data::coco::CocoDataset;
use ebm_data::loader::{Loader, LoaderConfig};
use ebm_eval::{CocoFigures, Detection, GroundTruth, evaluate_coco_in_memory};
use ebm_experiment::best;
use ebm_train::Progress;

use crate::{
    Result,
    config::InputConfig,
    evaluation::{Evaluation, Heads, Refiner, evaluate},
    faster_rcnn::FasterRcnn,
};

/// The usual factors of the configured step lengths.
pub const STEP_FACTORS: [f64; 5] = [0.015625, 0.0625, 0.25, 1.0, 4.0];

/// Every so many-th image is held out where no images to choose on were given.
const FIFTH: usize = 5;

/// Annotated images to choose or to measure on.
#[derive(Clone)]
pub struct Annotated {
    /// What messages call them.
    pub name: String,
    /// The images.
    pub dataset: Arc<CocoDataset>,
    /// Their objects.
    pub truth: GroundTruth,
    /// Images that a detector is run on at a time.
    pub at_once: usize,
    /// Threads that read images.
    pub workers: usize,
}

impl Annotated {
    /// The images of `dataset`, run one at a time.
    pub fn new(name: &str, dataset: CocoDataset, workers: usize) -> Self {
        let truth = GroundTruth::from(&dataset);
        Self { name: name.to_owned(), dataset: Arc::new(dataset), truth, at_once: 1, workers }
    }

    /// Every fifth image of `dataset`, which loses them; none where there are fewer than five.
    pub(crate) fn fifth_of(dataset: &mut CocoDataset, workers: usize) -> Option<Self> {
        let mut held_out = dataset.clone();
        let is_fifth = |held: bool| move |index: usize| (index % FIFTH == FIFTH - 1) == held;
        retain(&mut held_out, is_fifth(true));
        if held_out.images.is_empty() {
            return None;
        }
        retain(dataset, is_fifth(false));
        Some(Self::new("held-out images", held_out, workers))
    }

    /// At most so many of the images, evenly chosen.
    pub(crate) fn some(&self, count: usize) -> Self {
        let (mut dataset, all) = (CocoDataset::clone(&self.dataset), self.dataset.images.len());
        let stride = all.div_ceil(count.max(1)).max(1);
        retain(&mut dataset, |index| index % stride == 0);
        Self { dataset: Arc::new(dataset), ..self.clone() }
    }

    /// Reads each image once, in order, as a network with this input expects them.
    pub(crate) fn loader(&self, input: &InputConfig) -> Result<Loader> {
        let loader = LoaderConfig::eval(input.transform(), self.at_once).with_workers(self.workers);
        Ok(Loader::new(self.dataset.clone(), loader, Key::new(0))?)
    }

    /// COCO's figures of detections in them.
    ///
    /// # Errors
    /// When a detection is of no known image.
    pub fn score(&self, detections: &[Detection]) -> Result<CocoFigures> {
        Ok(evaluate_coco_in_memory(&self.truth, detections)?)
    }

    /// What the detector finds in them, and every head on its proposals.
    ///
    /// # Errors
    /// When an image cannot be read, or a network fails.
    pub fn evaluate(
        &self,
        detector: &FasterRcnn,
        heads: &Heads<'_>,
        device: &Device,
        progress: &mut dyn Progress,
    ) -> Result<Evaluation> {
        progress.begin(&self.name, self.dataset.images.len());
        let loader = self.loader(&detector.config().input)?;
        let mut report = |done| progress.advance(done, "");
        let evaluation = evaluate(detector, &self.dataset, &loader, heads, device, &mut report)?;
        progress.end();
        Ok(evaluation)
    }

    /// The supplement's choice of step lengths: the factor among `factors` of the refiner's with the best AP
    /// (0 to 1), and that AP; the first of equals. Where no factor gives an AP, 1 and no number.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate).
    pub fn best_step_factor(
        &self,
        detector: &FasterRcnn,
        refiner: &Refiner<'_>,
        factors: &[f64],
        device: &Device,
        progress: &mut dyn Progress,
    ) -> Result<(f64, f64)> {
        let scaled = |&factor: &f64| Refiner { head: refiner.head, ascent: refiner.ascent.scaled(factor) };
        let heads = Heads::refiners(factors.iter().map(scaled).collect());
        let refined = self.evaluate(detector, &heads, device, progress)?.refined;
        let scores = refined.iter().map(|refined| Ok(self.score(&refined.after)?.ap));
        Ok(best(factors, scores.collect::<Result<Vec<_>>>()?).unwrap_or((1.0, f64::NAN)))
    }
}

/// Keeps the images of these numbers.
fn retain(dataset: &mut CocoDataset, kept: impl Fn(usize) -> bool) {
    let mut index = 0..;
    dataset.images.retain(|_| index.next().is_some_and(&kept));
}
