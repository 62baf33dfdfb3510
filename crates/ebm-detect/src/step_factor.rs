//! The supplement's choice of step lengths: by AP on images that nothing was trained on.

use candle_core::Device;
use ebm_data::{coco::CocoDataset, loader::Loader};
use ebm_eval::{GroundTruth, evaluate_coco_in_memory};
use ebm_experiment::best;
use ebm_train::Progress;

use crate::{
    Result,
    evaluation::{Evaluation, Heads, Refiner, evaluate},
    faster_rcnn::FasterRcnn,
};

/// The usual factors of the configured step lengths.
pub const STEP_FACTORS: [f64; 5] = [0.015625, 0.0625, 0.25, 1.0, 4.0];

/// Annotated images to choose on.
pub struct ValidationImages<'a> {
    /// What a progress bar calls them.
    pub name: &'a str,
    /// The images.
    pub dataset: &'a CocoDataset,
    /// Their objects.
    pub truth: &'a GroundTruth,
    /// Reads each image of `dataset` once, in order.
    pub loader: &'a Loader,
}

impl ValidationImages<'_> {
    /// COCO's AP of the detector's own boxes on them, 0 to 1.
    ///
    /// # Errors
    /// When an image cannot be read, or the network fails.
    pub fn average_precision(
        &self,
        detector: &FasterRcnn,
        device: &Device,
        progress: &mut dyn Progress,
    ) -> Result<f64> {
        let detections =
            self.evaluate(detector, &Heads::refiners(vec![]), device, progress)?.direct.detections;
        Ok(evaluate_coco_in_memory(self.truth, &detections)?.ap)
    }

    fn evaluate(
        &self,
        detector: &FasterRcnn,
        heads: &Heads<'_>,
        device: &Device,
        progress: &mut dyn Progress,
    ) -> Result<Evaluation> {
        progress.begin(self.name, self.dataset.images.len());
        let mut report = |done| progress.advance(done, "");
        let evaluation = evaluate(detector, self.dataset, self.loader, heads, device, &mut report)?;
        progress.end();
        Ok(evaluation)
    }
}

/// The factor among `factors` of the refiner's step lengths with the best AP (0 to 1) on the images, and that
/// AP; the first of equals. Where no factor gives an AP, 1 and no number.
///
/// # Errors
/// When an image cannot be read, or a network fails.
pub fn best_step_factor(
    detector: &FasterRcnn,
    refiner: &Refiner<'_>,
    factors: &[f64],
    images: &ValidationImages<'_>,
    device: &Device,
    progress: &mut dyn Progress,
) -> Result<(f64, f64)> {
    let scaled = |&factor: &f64| Refiner { head: refiner.head, ascent: refiner.ascent.scaled(factor) };
    let heads = Heads::refiners(factors.iter().map(scaled).collect());
    let evaluation = images.evaluate(detector, &heads, device, progress)?;
    let scores = evaluation.refined.iter();
    let scores = scores.map(|refined| Ok(evaluate_coco_in_memory(images.truth, &refined.after)?.ap));
    Ok(best(factors, scores.collect::<Result<Vec<_>>>()?).unwrap_or((1.0, f64::NAN)))
}
