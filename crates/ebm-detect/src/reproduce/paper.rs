//! Paper scale: COCO 2017, ResNet50-FPN, the published detector's weights, 60 000 updates of each branch.

use std::{path::PathBuf, rc::Rc, sync::Arc};

use candle_core::Device;
use ebm_data::{
    coco::{CocoDataset, Purpose},
    loader::{Loader, LoaderConfig},
};
use ebm_train::Progress;

use super::setup::{Setup, Source, Split, StudyOptions, load_dataset};
use crate::{
    Result,
    config::ExperimentConfig,
    training::{BranchSource, StreamSource},
    weights::{WeightFile, classes},
};

/// Detector weights that the paper scale knows, best first, with the configuration that each belongs to.
pub const DETECTORS: [(&str, &str); 2] = [
    ("e2e_faster_rcnn_R-50-FPN_1x.safetensors", "paper"),
    ("fasterrcnn_resnet50_fpn_coco-258fb6c6.pth", "torchvision"),
];

/// What to run and where.
#[derive(Clone, Debug)]
pub struct PaperOptions {
    /// Holds `train2017/`, `val2017/` and `annotations/`.
    pub coco: PathBuf,
    /// Holds one of [`DETECTORS`].
    pub weights: PathBuf,
    /// What every scale is told.
    pub study: StudyOptions,
}

impl PaperOptions {
    /// Annotations and images of a split (`train` or `val`).
    pub fn split(&self, name: &str) -> (PathBuf, PathBuf) {
        let annotations = self.coco.join(format!("annotations/instances_{name}2017.json"));
        (annotations, self.coco.join(format!("{name}2017")))
    }

    /// The first of [`DETECTORS`] that is there.
    pub fn detector(&self) -> Option<(PathBuf, &'static str)> {
        let mut known = DETECTORS.iter().map(|&(file, config)| (self.weights.join(file), config));
        known.find(|(path, _)| path.is_file())
    }

    /// What is missing for a run at paper scale; empty when nothing is.
    pub fn missing(&self) -> Vec<PathBuf> {
        let mut missing = Vec::new();
        for split in ["train", "val"] {
            let (annotations, images) = self.split(split);
            missing.extend([annotations, images].into_iter().filter(|path| !path.exists()));
        }
        if self.detector().is_none() {
            missing.push(self.weights.join(DETECTORS[0].0));
        }
        missing
    }
}

/// The published detector, whose configuration `config` is, with train2017 to train on and val2017 to measure
/// on. Settings are the paper's, so that nothing is chosen; [`step_lengths`](super::step_lengths()) searches.
///
/// # Errors
/// When data can not be read, or the weights are not of the architecture.
pub fn paper(
    config: &ExperimentConfig,
    options: &PaperOptions,
    progress: &mut dyn Progress,
) -> Result<Setup> {
    let path = options.detector().map_or_else(|| options.weights.join(DETECTORS[0].0), |(path, _)| path);
    let study = &options.study;
    let weights = WeightFile::open(&path, &study.device)?;
    let detector = Rc::new(weights.detector(&config.detector)?);
    progress.begin("reading annotations", 1);
    let (annotations, images) = options.split("train");
    let train = Arc::new(load_dataset(&annotations, &images, Purpose::Train, &config.detector)?);
    let (annotations, images) = options.split("val");
    let test = Rc::new(Split::open("val2017", annotations, &images, 1, &config.detector)?);
    progress.end();
    Ok(Setup {
        digest: weights.digest()?,
        classes: classes(&train),
        source: streamed(config, train, &study.device, study.workers),
        weights: weights.into_tensors(),
        config: config.clone(),
        detector,
        validation: test.clone(),
        test,
        study: study.clone(),
    })
}

/// Batches of images as they come: features are computed for every batch, nothing is cached.
fn streamed(config: &ExperimentConfig, dataset: Arc<CocoDataset>, device: &Device, workers: usize) -> Source {
    let (transform, convention) = (config.detector.input.transform(), config.detector.convention.into());
    let device = device.clone();
    Box::new(move |_, batch, key, _| {
        let loader = LoaderConfig::train(transform, batch).with_workers(workers);
        let loader = Loader::new(dataset.clone(), loader, key)?;
        Ok(BranchSource::Images(Box::new(StreamSource::new(loader, device.clone(), convention))))
    })
}
