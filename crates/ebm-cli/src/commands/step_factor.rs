//! The factor of a confidence's step lengths: given, or chosen after the training on images that it has not seen.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use candle_core::Device;
use clap::Args;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::loader::{Loader, LoaderConfig};
use ebm_detect::{
    BoxAscent, Branch, FasterRcnn, STEP_FACTORS, ValidationImages, best_step_factor,
    config::ExperimentConfig, evaluation::Refiner,
};
use ebm_eval::GroundTruth;
use ebm_seed::Key;
use ebm_train::Progress;

use super::training_data::DataArgs;

/// Every so many-th image is held out.
const FIFTH: usize = 5;

/// How the factor is found.
#[derive(Args)]
pub struct StepFactorArgs {
    /// COCO annotations on which the factor of a confidence's step lengths is chosen after the training; without them, or a split valid of
    /// --data, every fifth training image is held out for that, where there are five.
    #[arg(long, requires = "val_images")]
    val_annotations: Option<PathBuf>,
    /// Their images.
    #[arg(long, requires = "val_annotations")]
    val_images: Option<PathBuf>,
    /// The factor of the configured step lengths; then none is chosen, and no image held out.
    #[arg(long, conflicts_with = "val_annotations")]
    step_factor: Option<f64>,
}

/// Annotated images on which the factor is chosen.
pub struct Validation {
    name: &'static str,
    dataset: Arc<CocoDataset>,
}

impl StepFactorArgs {
    /// The factor that is given.
    pub fn given(&self) -> Option<f64> {
        self.step_factor
    }

    /// The images to choose on, where no factor is given: those that the arguments name, or the split of `data`, or else every fifth of
    /// `dataset`, which loses them.
    pub fn images(
        &self,
        config: &ExperimentConfig,
        data: &DataArgs,
        dataset: &mut CocoDataset,
    ) -> Result<Option<Validation>> {
        if self.step_factor.is_some() {
            return Ok(None);
        }
        let labels = config.detector.labels();
        let given = match (&self.val_annotations, &self.val_images) {
            (Some(annotations), Some(images)) => {
                let options = LoadOptions { labels: Some(labels), ..LoadOptions::new(Purpose::Eval) };
                Some(CocoDataset::load(annotations, images, &options)?)
            }
            _ => data.validation(labels)?,
        };
        if let Some(dataset) = given {
            return Ok(Some(Validation { name: "validation images", dataset: Arc::new(dataset) }));
        }
        let mut held_out = dataset.clone();
        let kept = |held: bool| move |index: usize| (index % FIFTH == FIFTH - 1) == held;
        retain(&mut held_out, kept(true));
        if held_out.images.is_empty() {
            return Ok(None);
        }
        retain(dataset, kept(false));
        Ok(Some(Validation { name: "held-out images", dataset: Arc::new(held_out) }))
    }
}

/// Keeps the images of these numbers.
fn retain(dataset: &mut CocoDataset, kept: impl Fn(usize) -> bool) {
    let mut index = 0..;
    dataset.images.retain(|_| index.next().is_some_and(&kept));
}

impl Validation {
    /// The best of `configured` factors, or of the usual ones where there is no choice among those; none where the branch does not
    /// climb.
    pub fn choose(
        &self,
        detector: &FasterRcnn,
        (branch, ascent): (Branch, Option<BoxAscent>),
        configured: &[f64],
        (workers, device): (usize, &Device),
        progress: &mut dyn Progress,
    ) -> Result<Option<f64>> {
        let (Branch::Confidence(head), Some(ascent)) = (branch, ascent) else { return Ok(None) };
        let loader = LoaderConfig::eval(detector.config().input.transform(), 1).with_workers(workers);
        let loader = Loader::new(self.dataset.clone(), loader, Key::new(0))?;
        let (Self { name, dataset }, truth) = (self, GroundTruth::from(&*self.dataset));
        let images = ValidationImages { name, dataset, truth: &truth, loader: &loader };
        let refiner = Refiner { head: &head, ascent };
        let factors = if configured.len() > 1 { configured } else { &STEP_FACTORS };
        let (factor, ap) = best_step_factor(detector, &refiner, factors, &images, device, progress)?;
        progress.message(&format!("step lengths × {factor}: AP {:.1} on {name}", 100.0 * ap));
        Ok(Some(factor))
    }
}
