//! What branches are trained on where the frozen detector's features of all images fit into memory.

use std::{cell::OnceCell, rc::Rc, sync::Arc};

use ebm_data::coco::CocoDataset;
use ebm_seed::Key;
use ebm_train::Progress;

use super::setup::{Setup, Source, Split, StudyOptions, eval_loader};
use crate::{
    config::{ExperimentConfig, MethodConfig},
    error::Result,
    faster_rcnn::{FasterRcnn, ImageBatch},
    feature_cache::FeatureCache,
    foreground::ForegroundCache,
    training::{BranchSource, CachedSource, ForegroundSource},
    weights::{WeightFile, classes},
};

/// Images to train on, to choose settings on and to measure on.
pub(super) struct Splits {
    pub train: CocoDataset,
    pub validation: Split,
    pub test: Split,
}

impl Setup {
    /// The detector in `weights` sees the training images once, when the first branch needs its features: `batch`
    /// images at a time, padded to the largest of them.
    pub(super) fn frozen(
        config: &ExperimentConfig,
        weights: WeightFile,
        splits: Splits,
        batch: usize,
        study: &StudyOptions,
    ) -> Result<Self> {
        let detector = Rc::new(weights.detector(&config.detector)?);
        Ok(Self {
            config: config.clone(),
            detector: detector.clone(),
            digest: weights.digest()?,
            weights: weights.into_tensors(),
            classes: classes(&splits.train),
            source: source(config, detector, splits.train, batch, study)?,
            validation: Rc::new(splits.validation),
            test: Rc::new(splits.test),
            study: study.clone(),
        })
    }
}

/// Batches of every method, from P2 … P6 of every image.
fn source(
    config: &ExperimentConfig,
    detector: Rc<FasterRcnn>,
    dataset: CocoDataset,
    batch: usize,
    study: &StudyOptions,
) -> Result<Source> {
    let (count, device) = (dataset.images.len(), study.device.clone());
    let loader = eval_loader(&Arc::new(dataset), config, batch, study.workers)?;
    let convention = config.detector.convention.into();
    let (features, foreground) = (OnceCell::new(), OnceCell::new());
    Ok(Box::new(move |method: &MethodConfig, batch_size: usize, key: Key, progress: &mut dyn Progress| {
        let see = |images: &ImageBatch| detector.features(&images.pixels, false);
        let what = "features of the training images";
        let compute = || FeatureCache::compute(&loader, convention, &device, &see, what, count, progress);
        let features = once(&features, compute)?;
        if method.density.is_none() {
            return Ok(BranchSource::Images(Box::new(CachedSource::new(features, batch_size, key)?)));
        }
        let compute = || ForegroundCache::new(&detector, &features, progress);
        let foreground = once(&foreground, compute)?;
        Ok(BranchSource::Foreground(ForegroundSource::new(foreground, batch_size, key)))
    }))
}

/// What is in the cell, computed where nothing is.
fn once<T>(cell: &OnceCell<Rc<T>>, compute: impl FnOnce() -> Result<T>) -> Result<Rc<T>> {
    if let Some(known) = cell.get() {
        return Ok(known.clone());
    }
    let new = Rc::new(compute()?);
    Ok(cell.get_or_init(|| new).clone())
}
