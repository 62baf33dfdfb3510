//! Annotated images that a network does not learn from.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::loader::{Loader, LoaderConfig};
use ebm_detect::config::InputConfig;
use ebm_detect::evaluation::Refiner;
use ebm_detect::{FasterRcnn, STEP_FACTORS, ValidationImages, best_step_factor};
use ebm_eval::GroundTruth;
use ebm_experiment::Session;
use ebm_seed::Key;

use super::images::DataArgs;

/// Every so many-th image is held out.
const FIFTH: usize = 5;

/// Where they are.
#[derive(Args)]
pub struct ValidationArgs {
    /// COCO annotations of the images by which the best network is kept and a confidence's step lengths are
    /// chosen; without them the split valid of --data. Where there is neither, every fifth training image is
    /// held out for a confidence.
    #[arg(long, requires = "val_images")]
    val_annotations: Option<PathBuf>,
    /// Their images.
    #[arg(long, requires = "val_annotations")]
    val_images: Option<PathBuf>,
}

impl ValidationArgs {
    /// The images that are named, or else the split of `data` for them, if it has one.
    pub fn given(&self, labels: usize, data: &DataArgs) -> Result<Option<HeldOut>> {
        let dataset = match (&self.val_annotations, &self.val_images) {
            (Some(annotations), Some(images)) => {
                let options = LoadOptions { labels: Some(labels), ..LoadOptions::new(Purpose::Eval) };
                Some(CocoDataset::load(annotations, images, &options)?)
            }
            _ => data.validation(labels)?,
        };
        Ok(dataset.map(|dataset| HeldOut { name: "validation images", dataset: Arc::new(dataset) }))
    }
}

/// Annotated images that a network is judged by.
pub struct HeldOut {
    name: &'static str,
    dataset: Arc<CocoDataset>,
}

impl HeldOut {
    /// Every fifth image of `dataset`, which loses them; none where there are fewer than five.
    pub fn fifth_of(dataset: &mut CocoDataset) -> Option<Self> {
        let mut held_out = dataset.clone();
        let is_fifth = |held: bool| move |index: usize| (index % FIFTH == FIFTH - 1) == held;
        retain(&mut held_out, is_fifth(true));
        if held_out.images.is_empty() {
            return None;
        }
        retain(dataset, is_fifth(false));
        Some(Self { name: "held-out images", dataset: Arc::new(held_out) })
    }

    /// What they are called.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The images.
    pub fn dataset(&self) -> &CocoDataset {
        &self.dataset
    }

    /// Reads them one by one, as a network with this input expects them.
    pub fn loader(&self, input: &InputConfig, workers: usize) -> Result<Loader> {
        let loader = LoaderConfig::eval(input.transform(), 1).with_workers(workers);
        Ok(Loader::new(self.dataset.clone(), loader, Key::new(0))?)
    }

    /// At most so many of them, evenly chosen.
    pub fn some(&self, count: usize) -> Self {
        let (mut dataset, all) = (CocoDataset::clone(&self.dataset), self.dataset.images.len());
        let stride = all.div_ceil(count.max(1)).max(1);
        retain(&mut dataset, |index| index % stride == 0);
        Self { name: self.name, dataset: Arc::new(dataset) }
    }

    /// What `of` makes of them, as `detector` expects them.
    fn with<R>(
        &self,
        detector: &FasterRcnn,
        workers: usize,
        of: impl FnOnce(&ValidationImages<'_>) -> ebm_detect::Result<R>,
    ) -> Result<R> {
        let (loader, truth) =
            (self.loader(&detector.config().input, workers)?, GroundTruth::from(&*self.dataset));
        let Self { name, dataset } = self;
        Ok(of(&ValidationImages { name, dataset, truth: &truth, loader: &loader })?)
    }

    /// COCO's AP of the detector, 0 to 1.
    pub fn average_precision(
        &self,
        detector: &FasterRcnn,
        workers: usize,
        session: &mut Session<'_>,
    ) -> Result<f64> {
        let (device, progress) = (session.device, &mut *session.progress);
        self.with(detector, workers, |images| images.average_precision(detector, device, progress))
    }

    /// The best of `configured` factors of the step lengths, or of the usual ones where there is no choice
    /// among those.
    pub fn step_factor(
        &self,
        detector: &FasterRcnn,
        refiner: &Refiner<'_>,
        configured: &[f64],
        workers: usize,
        session: &mut Session<'_>,
    ) -> Result<f64> {
        let factors = if configured.len() > 1 { configured } else { &STEP_FACTORS };
        let (device, progress) = (session.device, &mut *session.progress);
        let (factor, ap) = self.with(detector, workers, |images| {
            best_step_factor(detector, refiner, factors, images, device, progress)
        })?;
        session.progress.message(&format!("step lengths × {factor}: AP {:.1} on {}", 100.0 * ap, self.name));
        Ok(factor)
    }
}

/// Keeps the images of these numbers.
fn retain(dataset: &mut CocoDataset, kept: impl Fn(usize) -> bool) {
    let mut index = 0..;
    dataset.images.retain(|_| index.next().is_some_and(&kept));
}
